package bmc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// The cases T20 to T26: power, sessions and passing troubles. Requests are
// compared in order, and script checks that no session stays open.

const shortReset = "POST /Systems/1/Actions/ComputerSystem.Reset"

func powerOn(ctx context.Context, c *Client) error    { return c.PowerOn(ctx) }
func powerCycle(ctx context.Context, c *Client) error { return c.PowerCycle(ctx) }
func readPower(ctx context.Context, c *Client) error  { _, err := c.PowerState(ctx); return err }

func TestT20OnIsRepeatedWhileRefusedAndRefusalOfWhatIsThereIsSuccess(t *testing.T) {
	t.Parallel()
	conflict := reply{status: 409, body: `{"error":{"@Message.ExtendedInfo":[{"MessageId":"Base.1.18.ActionParameterValueConflict","MessageArgs":["ResetType","On"]}]}}`}
	s := newScript(t, one(powered("Off", ""), nil))
	refuse, do := first(2, conflict), s.becomes("On")
	s.on[resetOne] = func(b string, h http.Header) *reply {
		if r := refuse(b, h); r != nil {
			return r
		}
		return do(b, h)
	}
	if err := s.run(t, s.config(t), powerOn); err != nil {
		t.Error(err)
	}
	wantTraffic(t, s, reaching(shortReset, "GET /Systems/1", shortReset, "GET /Systems/1", shortReset, "GET /Systems/1")...)

	s = newScript(t, one(powered("Off", ""), nil))
	s.on[resetOne] = func(string, http.Header) *reply {
		s.docs["/redfish/v1/Systems/1"] = powered("On", "")
		return &conflict
	}
	if err := s.run(t, s.config(t), powerOn); err != nil {
		t.Error(err)
	}
	wantTraffic(t, s, reaching(shortReset, "GET /Systems/1")...)
}

func TestT21MachineThatIsOffIsSwitchedOnNotRestarted(t *testing.T) {
	t.Parallel()
	s := newScript(t, one(powered("Off", `,"ResetType@Redfish.AllowableValues":["On","ForceOff","ForceRestart"]`), nil))
	on := s.becomes("On")
	s.on[resetOne] = func(body string, h http.Header) *reply {
		if strings.Contains(body, "Restart") {
			return &reply{status: 400, body: `{"error":{"@Message.ExtendedInfo":[{"MessageArgs":["Power is off"],"MessageID":"iLO.0.10.InvalidOperationForSystemState"}],"code":"iLO.0.10.ExtendedInfo","message":"x"}}`}
		}
		return on(body, h)
	}
	if err := s.run(t, s.config(t), powerCycle); err != nil {
		t.Error(err)
	}
	wantWrites(t, s, `{"ResetType":"On"}`)
	wantTraffic(t, s, reaching(shortReset, "GET /Systems/1")...)
}

// cycled is a machine with these reset types that goes off and on as told.
func cycled(t *testing.T, types, info string) *script {
	t.Helper()
	docs := one(powered("On", types), nil)
	if info != "" {
		docs["/redfish/v1/Systems/1/ResetActionInfo"] = info
	}
	s := newScript(t, docs)
	s.on[resetOne] = func(body string, _ http.Header) *reply {
		state := "On"
		if strings.Contains(body, "ForceOff") {
			state = "Off"
		}
		s.docs["/redfish/v1/Systems/1"] = powered(state, types)
		return &reply{status: 204}
	}
	if err := s.run(t, s.config(t), powerCycle); err != nil {
		t.Error(err)
	}
	return s
}

func TestT22MissingCommaInTheResetTypes(t *testing.T) {
	t.Parallel()
	s := cycled(t, `,"ResetType@Redfish.AllowableValues":["On","GracefulShutdownGracefulRestart","ForceRestart"]`, "")
	wantWrites(t, s, `{"ResetType":"ForceRestart"}`)
	wantTraffic(t, s, reaching("GET /Systems/1", shortReset, "GET /Systems/1")...)

	// With ForceOff in the list off and on is the surer way; PowerCycle is tried in neither.
	s = cycled(t, `,"ResetType@Redfish.AllowableValues":["On","ForceOff","GracefulShutdownGracefulRestart","ForceRestart"]`, "")
	wantWrites(t, s, `{"ResetType":"ForceOff"}`, `{"ResetType":"On"}`)
	wantTraffic(t, s, reaching(shortReset, "GET /Systems/1", shortReset, "GET /Systems/1")...)
}

func TestT23ActionInfoIsReadOnceAndItsLackIsNoHarm(t *testing.T) {
	t.Parallel()
	const linked = `,"@Redfish.ActionInfo":"/redfish/v1/Systems/1/ResetActionInfo"`
	s := cycled(t, linked, fmt.Sprintf(`{"Id":"ResetActionInfo","Name":"r","Parameters":[{"Name":"ResetType","Required":true,"DataType":"String","AllowableValues":[%s]}]}`,
		`"ForceOff","ForceRestart","GracefulShutdown","On"`))
	wantWrites(t, s, `{"ResetType":"ForceOff"}`, `{"ResetType":"On"}`)
	wantTraffic(t, s, reaching("GET /Systems/1/ResetActionInfo", shortReset, "GET /Systems/1", shortReset, "GET /Systems/1")...)

	s = cycled(t, linked, "")
	wantWrites(t, s, `{"ResetType":"ForceOff"}`, `{"ResetType":"On"}`)
	wantTraffic(t, s, reaching("GET /Systems/1/ResetActionInfo", shortReset, "GET /Systems/1", shortReset, "GET /Systems/1")...)
}

func TestT24FullSessionTableMeansBasicAfterOneLogin(t *testing.T) {
	t.Parallel()
	s := newScript(t, one(supermicro1, nil))
	s.on["POST "+sessionsPath] = func(string, http.Header) *reply { return &reply{status: 503, body: rac0218} }
	s.on["GET /redfish/v1/Systems/1"] = func(_ string, h http.Header) *reply {
		if !strings.HasPrefix(h.Get("Authorization"), "Basic ") {
			return &reply{status: 401}
		}
		return nil
	}
	if err := s.run(t, s.config(t), readPower); err != nil {
		t.Error(err)
	}
	wantTraffic(t, s, "root", "login", "2×GET /Systems", "GET /Systems/1") // nothing to log out of

	s = newScript(t, one(supermicro1, nil))
	s.on["POST "+sessionsPath] = func(string, http.Header) *reply { return &reply{status: 503, body: rac0218} }
	s.on["GET /redfish/v1/Systems"] = func(string, http.Header) *reply { return &reply{status: 401} }
	if err := s.run(t, s.config(t), readPower); !errors.Is(err, ErrSessionLimit) {
		t.Errorf("error is %v", err)
	}
	wantTraffic(t, s, "root", "login", "GET /Systems")
}

func TestT25DroppedTokenAndABMCThatIsNotReady(t *testing.T) {
	t.Parallel()
	const getOne = "GET /redfish/v1/Systems/1"
	t.Run("401 once", func(t *testing.T) {
		t.Parallel()
		s := newScript(t, one(supermicro1, nil))
		s.on[getOne] = first(1, reply{status: 401})
		if err := s.run(t, s.config(t), readPower); err != nil {
			t.Error(err)
		}
		wantTraffic(t, s, "root", "login", "GET /Systems", "GET /Systems/1", "login", "logout", "GET /Systems/1", "logout")
	})
	t.Run("401 always", func(t *testing.T) {
		t.Parallel()
		s := newScript(t, one(supermicro1, nil))
		s.on[getOne] = func(string, http.Header) *reply { return &reply{status: 401} }
		if err := s.run(t, s.config(t), readPower); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("error is %v", err)
		}
		wantTraffic(t, s, "root", "login", "GET /Systems", "GET /Systems/1", "login", "logout", "GET /Systems/1", "logout")
	})
	for name, body := range map[string]string{
		"iLO":   `{"error":{"@Message.ExtendedInfo":[{"MessageId":"iLO.2.30.ResourceNotReadyRetry"}]}}`,
		"iDRAC": `{"error":{"@Message.ExtendedInfo":[{"MessageId":"IDRAC.2.8.SYS518"}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t, one(supermicro1, nil))
			s.on[getOne] = first(1, reply{status: 503, body: body})
			if err := s.run(t, s.config(t), readPower); err != nil {
				t.Error(err)
			}
			wantTraffic(t, s, reaching("GET /Systems/1")...)
		})
	}
}

func TestT26LicenceRefusalIsTypedWithoutAnotherLogin(t *testing.T) {
	t.Parallel()
	s := newScript(t, one(supermicro1, nil))
	s.on["GET /redfish/v1/Systems/1"] = func(string, http.Header) *reply {
		return &reply{status: 403, body: `{"error":{"code":"Base.v1_10_3.GeneralError","message":"Not licensed to perform this request. The following licenses DCMS were needed","@Message.ExtendedInfo":[{"MessageId":"SMC.1.0.OemLicenseNotPassed","MessageArgs":["DCMS "]}]}}`}
	}
	if err := s.run(t, s.config(t), readPower); !errors.Is(err, ErrLicence) || errors.Is(err, ErrUnauthorized) {
		t.Errorf("error is %v", err)
	}
	wantTraffic(t, s, reaching()...)
}
