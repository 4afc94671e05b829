package bmc

import (
	"net/http"
	"strings"
	"testing"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

// T25: a BMC that is not ready is asked again.
func TestReadsAreRepeatedWhileTheBMCStarts(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]reply{
		"iLO":         {status: 503, body: `{"error":{"@Message.ExtendedInfo":[{"MessageId":"iLO.2.30.ResourceNotReadyRetry"}]}}`},
		"iLO 400":     {status: 400, body: `{"error":{"@Message.ExtendedInfo":[{"MessageId":"iLO.2.30.ResourceNotReadyRetry"}]}}`},
		"iDRAC":       {status: 503, body: `{"error":{"@Message.ExtendedInfo":[{"MessageId":"IDRAC.2.8.SYS518"}]}}`},
		"500":         {status: 500},
		"empty 200":   {status: 200},
		"cut off 200": {status: 200, body: `{"Id":"1","Man`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t, one(supermicro1, nil))
			s.on["GET /redfish/v1/Systems/1"] = first(3, a)
			if _, err := dial(t, s.config(t)).PowerState(t.Context()); err != nil {
				t.Error(err)
			}
			if n := s.count("GET /redfish/v1/Systems/1"); n != 4 {
				t.Errorf("%d reads, want 4", n)
			}
		})
	}
}

func TestEndless503IsBounded(t *testing.T) {
	t.Parallel()
	s := newScript(t, one(supermicro1, nil))
	s.on["GET /redfish/v1/Systems/1"] = func(string, http.Header) *reply { return &reply{status: 503} }
	if _, err := dial(t, s.config(t)).PowerState(t.Context()); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("error is %v", err)
	}
	if n := s.count("GET /redfish/v1/Systems/1"); n != readTries {
		t.Errorf("%d reads, want %d", n, readTries)
	}
}

func TestResetConnectionIsRetriedForReads(t *testing.T) {
	t.Parallel()
	s := start(t, hardware(redfishtest.HPE()))
	c := dial(t, configFor(t, s))
	s.Inject(redfishtest.Fault{Method: "GET", Times: 2, Action: redfishtest.CloseConnection()})
	if _, err := c.PowerState(t.Context()); err != nil {
		t.Error(err)
	}
}
