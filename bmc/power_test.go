package bmc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

const resetOne = "POST /redfish/v1/Systems/1/Actions/ComputerSystem.Reset"

// powered is a system in a power state; types is the list of reset types or "".
func powered(state, types string) string {
	return fmt.Sprintf(`{"Id":"1","PowerState":%q,"Actions":{"#ComputerSystem.Reset":{"target":"/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"%s}}}`, state, types)
}

// becomes answers 204 and shows the states one after the other from then on.
func (s *script) becomes(states ...string) func(string, http.Header) *reply {
	return func(string, http.Header) *reply {
		left := slices.Clone(states)
		s.on["GET /redfish/v1/Systems/1"] = func(string, http.Header) *reply {
			now := left[0]
			if len(left) > 1 {
				left = left[1:]
			}
			s.docs["/redfish/v1/Systems/1"] = powered(now, "")
			return nil
		}
		return &reply{status: 204}
	}
}

func TestPowerIsLeftAloneWhenItIsThereAlready(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{true, false} {
		h := hardware(redfishtest.Dell())
		h.InitialPower = on
		s := service(t, h)
		c := dial(t, configFor(t, s))
		change := c.PowerOff
		if on {
			change = c.PowerOn
		}
		if err := change(t.Context()); err != nil {
			t.Error(err)
		}
		if len(s.Resets()) != 0 {
			t.Errorf("resets are %v", s.Resets())
		}
	}
}

func TestPowerLagIsWaitedFor(t *testing.T) {
	t.Parallel()
	for _, p := range redfishtest.Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			h := hardware(p)
			h.PowerLag = 50 * time.Millisecond
			s := service(t, h)
			c := dial(t, configFor(t, s))
			if err := c.PowerCycle(t.Context()); err != nil {
				t.Fatal(err)
			}
			if s.PowerState() != "On" || s.PowerOns() != 1 {
				t.Errorf("%s after %d power-ons", s.PowerState(), s.PowerOns())
			}
			if got, want := s.Resets(), []string{"ForceOff", "On"}; !slices.Equal(got, want) {
				t.Errorf("resets are %v, want %v", got, want)
			}
		})
	}
}

// T20: On refused for a while after an off (ironic bug 2162995).
func TestOnIsRepeatedWhileRefusedForNow(t *testing.T) {
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
	if err := dial(t, s.config(t)).PowerOn(t.Context()); err != nil {
		t.Error(err)
	}
	if n := s.count(resetOne); n != 3 {
		t.Errorf("%d resets, want 3", n)
	}
}

// T20: refused because it is there already.
func TestRefusalOfTheStateThatIsThereIsSuccess(t *testing.T) {
	t.Parallel()
	for _, status := range []int{409, 400} {
		s := newScript(t, one(powered("Off", ""), nil))
		s.on[resetOne] = func(string, http.Header) *reply {
			s.docs["/redfish/v1/Systems/1"] = powered("On", "")
			return refuses(status, "Base.1.18.ActionParameterValueConflict", "ResetType", "On")
		}
		if err := dial(t, s.config(t)).PowerOn(t.Context()); err != nil {
			t.Errorf("HTTP %d: %v", status, err)
		}
		if n := s.count(resetOne); n != 1 {
			t.Errorf("HTTP %d: %d resets, want 1", status, n)
		}
	}
}

func TestPowerOnWaitsForAnOffInProgress(t *testing.T) {
	t.Parallel()
	s := newScript(t, one(powered("PoweringOff", ""), nil))
	reads := 0
	s.on["GET /redfish/v1/Systems/1"] = func(string, http.Header) *reply {
		if reads++; reads == 4 {
			s.docs["/redfish/v1/Systems/1"] = powered("Off", "")
		}
		return nil
	}
	on := s.becomes("On")
	s.on[resetOne] = func(b string, h http.Header) *reply {
		if reads < 4 {
			t.Error("On was sent before Off was there")
		}
		return on(b, h)
	}
	if err := dial(t, s.config(t)).PowerOn(t.Context()); err != nil {
		t.Error(err)
	}
	if n := s.count(resetOne); n != 1 {
		t.Errorf("%d resets, want 1", n)
	}
}

// T21: a machine that is off is switched on, never restarted.
func TestCycleOfAMachineThatIsOff(t *testing.T) {
	t.Parallel()
	h := hardware(redfishtest.HPE())
	h.InitialPower = false
	s := service(t, h)
	if err := dial(t, configFor(t, s)).PowerCycle(t.Context()); err != nil {
		t.Error(err)
	}
	if got := s.Resets(); !slices.Equal(got, []string{"On"}) {
		t.Errorf("resets are %v", got)
	}
}

// T22, T23: where the reset types come from.
func TestResetTypes(t *testing.T) {
	t.Parallel()
	const info = `{"Id":"ResetActionInfo","Name":"r","Parameters":[{"Name":"ResetType","Required":true,"DataType":"String","AllowableValues":[%s]}]}`
	for _, tt := range []struct {
		name, types, info string
		want              []string
	}{
		{"listed", `,"ResetType@Redfish.AllowableValues":["On","ForceOff","ForceRestart"]`, "", []string{"ForceOff", "On"}},
		{"T22 a missing comma", `,"ResetType@Redfish.AllowableValues":["On","GracefulShutdownGracefulRestart","ForceRestart"]`, "", []string{"ForceRestart"}},
		{"PowerCycle only", `,"ResetType@Redfish.AllowableValues":["On","PowerCycle"]`, "", []string{"PowerCycle"}},
		{"T23 ActionInfo", `,"@Redfish.ActionInfo":"/redfish/v1/Systems/1/ResetActionInfo"`, fmt.Sprintf(info, `"On","ForceRestart"`), []string{"ForceRestart"}},
		{"T23 ActionInfo is missing", `,"@Redfish.ActionInfo":"/redfish/v1/Systems/1/ResetActionInfo"`, "", []string{"ForceOff", "On"}},
		{"a list that is a string", `,"ResetType@Redfish.AllowableValues":"ForceRestart"`, "", []string{"ForceRestart"}},
		{"none", "", "", []string{"ForceOff", "On"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			docs := one(powered("On", tt.types), nil)
			if tt.info != "" {
				docs["/redfish/v1/Systems/1/ResetActionInfo"] = tt.info
			}
			s := newScript(t, docs)
			s.on[resetOne] = func(body string, _ http.Header) *reply {
				state := "On"
				if strings.Contains(body, "ForceOff") {
					state = "Off"
				}
				s.docs["/redfish/v1/Systems/1"] = powered(state, tt.types)
				return &reply{status: 204}
			}
			if err := dial(t, s.config(t)).PowerCycle(t.Context()); err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, kind := range tt.want {
				want = append(want, `{"ResetType":"`+kind+`"}`)
			}
			wantWrites(t, s, want...)
		})
	}
}

func TestRefusedResetTypeGoesOnToTheNext(t *testing.T) {
	t.Parallel()
	s := newScript(t, one(powered("Off", `,"ResetType@Redfish.AllowableValues":["On","ForceOn"]`), nil))
	on := s.becomes("PoweringOn", "On")
	s.on[resetOne] = func(body string, h http.Header) *reply {
		if !strings.Contains(body, "ForceOn") {
			return refuses(400, "Base.1.0.ActionParameterNotSupported", "ResetType")
		}
		return on(body, h)
	}
	if err := dial(t, s.config(t)).PowerOn(t.Context()); err != nil {
		t.Error(err)
	}
	wantWrites(t, s, `{"ResetType":"On"}`, `{"ResetType":"ForceOn"}`)
}

func TestRefusedPowerSaysWhatIsOffered(t *testing.T) {
	t.Parallel()
	s := newScript(t, one(powered("Off", `,"ResetType@Redfish.AllowableValues":["On","Nmi"]`), nil))
	s.on[resetOne] = func(string, http.Header) *reply { return refuses(400, "Base.1.0.ActionNotSupported") }
	err := dial(t, s.config(t)).PowerOn(t.Context())
	if !errors.Is(err, ErrPowerRefused) || !strings.Contains(err.Error(), "it offers On, Nmi") {
		t.Errorf("error is %v", err)
	}
}

// powerman#154: PoweringOn, and Off again.
func TestMachineThatFallsBackIsSwitchedOnAgain(t *testing.T) {
	t.Parallel()
	s := service(t, redfishtest.Config{Profile: redfishtest.Generic(), PowerLag: time.Second})
	s.Inject(redfishtest.Fault{Method: "POST", Path: "/redfish/v1/Systems/**", Times: 1, Action: redfishtest.FallBack()})
	cfg := configFor(t, s)
	cfg.Timeouts.Power = time.Hour // so that it is not asked again for want of a reaction
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := dial(t, cfg).PowerOn(ctx); err != nil {
		t.Error(err)
	}
	if got := s.Resets(); !slices.Equal(got, []string{"On", "On"}) {
		t.Errorf("resets are %v", got)
	}
}

// pbnj#75: 204, and nothing happens.
func TestMachineThatNeverReactsIsATimeout(t *testing.T) {
	t.Parallel()
	s := service(t, redfishtest.Config{Profile: redfishtest.Generic()})
	s.Inject(redfishtest.Fault{Method: "POST", Path: "/redfish/v1/Systems/**", Action: redfishtest.IgnorePower()})
	cfg := configFor(t, s)
	cfg.Timeouts.Power = 2 * time.Second
	err := dial(t, cfg).PowerOn(t.Context())
	if !errors.Is(err, ErrPowerTimeout) || !strings.Contains(err.Error(), "On wanted, Off shown after 2s") {
		t.Errorf("error is %v", err)
	}
	if n := len(s.Resets()); n > maxPresses {
		t.Errorf("%d resets, want at most %d", n, maxPresses)
	}
}

// A reset whose answer is lost is not sent again when it was done (I10).
func TestResetWithoutAnAnswerIsReadBack(t *testing.T) {
	t.Parallel()
	s := start(t, hardware(redfishtest.HPE()))
	s.Inject(redfishtest.Fault{Method: "POST", Path: "/redfish/v1/Systems/**", Action: redfishtest.CloseAfter()})
	if err := dial(t, configFor(t, s)).PowerCycle(t.Context()); err != nil {
		t.Error(err)
	}
	if got := s.Resets(); !slices.Equal(got, []string{"ForceOff", "On"}) {
		t.Errorf("resets are %v", got)
	}
}

func TestCancelledPowerOnSaysWhatIsShown(t *testing.T) {
	t.Parallel()
	s := start(t, redfishtest.Config{Profile: redfishtest.Generic(), PowerLag: time.Minute})
	c := dial(t, configFor(t, s))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	err := c.PowerOn(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrPowerTimeout) || !strings.Contains(err.Error(), "On wanted, PoweringOn shown") {
		t.Errorf("error is %v", err)
	}
}

func TestOddPowerStatesAreUnknown(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]PowerState{
		`"On"`: On, `"Off"`: Off, `"PoweringOn"`: PoweringOn, `"PoweringOff"`: PoweringOff,
		`null`: Unknown, `"Paused"`: Unknown, `7`: Unknown, `{}`: Unknown,
	} {
		s := newScript(t, one(`{"Id":"1","PowerState":`+in+`}`, nil))
		if got, err := dial(t, s.config(t)).PowerState(t.Context()); err != nil || got != want {
			t.Errorf("%s is %v (%v), want %v", in, got, err, want)
		}
	}
}
