package bmc

import (
	"net/http"
	"slices"
	"testing"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

// One passing trouble at any point of a run changes nothing: the machine is
// identified, armed and switched off and on exactly once.
func TestOnePassingFaultChangesNothing(t *testing.T) {
	t.Parallel()
	busy := redfishtest.Respond(http.StatusServiceUnavailable, redfishtest.ErrorBody("Base.1.8.GeneralError", "Base.1.8.ServiceTemporarilyUnavailable", "Later."))
	const systems = "/redfish/v1/Systems/**"
	const reads = 12 // requests of a run that read
	faults := make([]redfishtest.Fault, 0, 2*reads+12)
	for n := range reads {
		faults = append(faults,
			redfishtest.Fault{Method: http.MethodGet, Skip: n, Action: busy},
			redfishtest.Fault{Method: http.MethodGet, Skip: n, Action: redfishtest.CloseConnection()})
	}
	faults = append(faults,
		redfishtest.Fault{Method: http.MethodPost, Path: sessionsPath, Action: busy},
		redfishtest.Fault{Method: http.MethodPatch, Action: busy},
		redfishtest.Fault{Method: http.MethodPatch, Action: redfishtest.CloseConnection()},
		redfishtest.Fault{Method: http.MethodPatch, Action: redfishtest.CloseAfter()},
		redfishtest.Fault{Method: http.MethodPatch, Action: redfishtest.Respond(http.StatusInternalServerError, "")},
		redfishtest.Fault{Method: http.MethodPatch, Action: redfishtest.Respond(http.StatusConflict, "")},
		redfishtest.Fault{Method: http.MethodPatch, Action: redfishtest.DropToken()},
		redfishtest.Fault{Method: http.MethodPost, Path: systems, Action: busy},
		redfishtest.Fault{Method: http.MethodPost, Path: systems, Action: redfishtest.CloseAfter()},
		redfishtest.Fault{Method: http.MethodPost, Path: systems, Action: redfishtest.Respond(http.StatusConflict, "")},
		redfishtest.Fault{Method: http.MethodPost, Path: systems, Action: redfishtest.DropToken()},
		redfishtest.Fault{Method: http.MethodDelete, Action: redfishtest.CloseConnection()},
	)
	for _, p := range []redfishtest.Profile{redfishtest.Supermicro(), redfishtest.Dell(), redfishtest.AMI()} {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			for _, f := range faults {
				f.Times = 1
				survives(t, p, f)
			}
		})
	}
}

func survives(t *testing.T, p redfishtest.Profile, f redfishtest.Fault) {
	t.Helper()
	s := start(t, hardware(p))
	cfg := configFor(t, s)
	cfg.Timeouts.Power /= 30 // a reset that got lost is sent again after a part of it
	s.Inject(f)
	c, err := Dial(t.Context(), cfg)
	if err != nil {
		t.Errorf("%+v: %v", f, err)
		return
	}
	if id, err := c.Identify(t.Context()); err != nil || id.Facts.Serial == "" {
		t.Errorf("%+v: identity %+v, %v", f, id, err)
	}
	if now, err := c.ArmNetworkBoot(t.Context()); err != nil || !now.Armed() {
		t.Errorf("%+v: override %v, %v", f, now, err)
	}
	if err := c.PowerCycle(t.Context()); err != nil {
		t.Errorf("%+v: %v", f, err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Errorf("%+v: close: %v", f, err)
	}
	if got := s.Resets(); !slices.Equal(got, []string{"ForceOff", "On"}) {
		t.Errorf("%+v: resets are %v", f, got)
	}
	if n := s.RefusedLogins(); n != 0 {
		t.Errorf("%+v: %d refused log-ins", f, n)
	}
}
