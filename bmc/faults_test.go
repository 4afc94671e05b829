package bmc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

// trouble is a fault under which a provisioning run still succeeds.
type trouble struct {
	name  string
	fault redfishtest.Fault
	// more resets than off and on: those that the fault swallows.
	again bool
	// slow faults keep a run waiting, so that one profile has to do.
	slow bool
	// login faults are final for a BMC that has no sessions: a 401 is then the
	// password's.
	login bool
}

const systems = "/redfish/v1/Systems/**"

// troubles are passing faults of every kind, at every kind of request.
func troubles() []trouble {
	busy := redfishtest.Respond(http.StatusServiceUnavailable, redfishtest.ErrorBody("Base.1.8.GeneralError", "Base.1.8.ServiceTemporarilyUnavailable", "Later."))
	status := func(code int) redfishtest.Action { return redfishtest.Respond(code, "") }
	post := redfishtest.Respond(http.StatusBadRequest, redfishtest.ErrorBody("iLO.0.10.ExtendedInfo", "iLO.2.37.UnableToModifyDuringSystemPOST", ""))
	task := redfishtest.AsTask(redfishtest.TaskRules{Lag: 20 * time.Millisecond})
	failing := redfishtest.AsTask(redfishtest.TaskRules{Failure: redfishtest.Answer{Status: http.StatusInternalServerError}})
	once := func(method, path string, action redfishtest.Action) redfishtest.Fault {
		return redfishtest.Fault{Method: method, Path: path, Times: 1, Action: action}
	}
	out := []trouble{
		{name: "log-in 503", fault: once(http.MethodPost, sessionsPath, busy)},
		{name: "log-in without a token", fault: once(http.MethodPost, sessionsPath, redfishtest.StripHeader("X-Auth-Token"))},
		{name: "log-in without Location", fault: once(http.MethodPost, sessionsPath, redfishtest.StripHeader("Location"))},
		{name: "no session left", fault: once(http.MethodPost, sessionsPath, redfishtest.Respond(http.StatusServiceUnavailable, rac0218))},
		{name: "log-out cut off", fault: once(http.MethodDelete, "", redfishtest.CloseConnection())},
		{name: "PATCH 503", fault: once(http.MethodPatch, "", busy)},
		{name: "PATCH 500", fault: once(http.MethodPatch, "", status(http.StatusInternalServerError))},
		{name: "PATCH 409", fault: once(http.MethodPatch, "", status(http.StatusConflict))},
		{name: "PATCH 412", fault: once(http.MethodPatch, "", status(http.StatusPreconditionFailed))},
		{name: "PATCH during POST", fault: once(http.MethodPatch, "", post)},
		{name: "PATCH 401", fault: once(http.MethodPatch, "", redfishtest.DropToken()), login: true},
		{name: "PATCH reset before", fault: once(http.MethodPatch, "", redfishtest.CloseConnection())},
		{name: "PATCH reset after", fault: once(http.MethodPatch, "", redfishtest.CloseAfter())},
		{name: "PATCH late", fault: once(http.MethodPatch, "", redfishtest.Delay(30*time.Millisecond))},
		{name: "PATCH as a task", fault: once(http.MethodPatch, "", task)},
		{name: "PATCH as a task that fails", fault: once(http.MethodPatch, "", failing)},
		{name: "override lost at the boot", fault: once(http.MethodPatch, "", redfishtest.DropOverride())},
		{name: "reset 503", fault: once(http.MethodPost, systems, busy)},
		{name: "reset 500", fault: once(http.MethodPost, systems, status(http.StatusInternalServerError))},
		{name: "reset 409", fault: once(http.MethodPost, systems, status(http.StatusConflict))},
		{name: "reset 401", fault: once(http.MethodPost, systems, redfishtest.DropToken()), login: true},
		{name: "reset done and cut off", fault: once(http.MethodPost, systems, redfishtest.CloseAfter())},
		{name: "reset late", fault: once(http.MethodPost, systems, redfishtest.Delay(30*time.Millisecond))},
		{name: "reset as a task", fault: once(http.MethodPost, systems, task)},
		{name: "reset ignored", fault: once(http.MethodPost, systems, redfishtest.IgnorePower()), again: true, slow: true},
		{name: "reset lost", fault: once(http.MethodPost, systems, redfishtest.CloseConnection()), slow: true},
		{name: "power falls back", fault: redfishtest.Fault{Method: http.MethodPost, Path: systems, Skip: 1, Times: 1, Action: redfishtest.FallBack()}, again: true, slow: true},
	}
	for _, n := range []int{0, 2, 5} {
		out = append(out,
			trouble{name: fmt.Sprintf("read %d 503", n), fault: redfishtest.Fault{Method: http.MethodGet, Skip: n, Times: 1, Action: busy}},
			trouble{name: fmt.Sprintf("read %d reset", n), fault: redfishtest.Fault{Method: http.MethodGet, Skip: n, Times: 1, Action: redfishtest.CloseConnection()}})
	}
	return append(out, trouble{name: "read 5 401", fault: redfishtest.Fault{Method: http.MethodGet, Path: systems, Skip: 2, Times: 1, Action: redfishtest.DropToken()}, login: true})
}

// provisioned goes the whole way of a provisioning run: identify, arm, cycle,
// confirm, clear.
func provisioned(ctx context.Context, cfg Config) (err error) {
	c, err := Dial(ctx, cfg)
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	if id, err := c.Identify(ctx); err != nil || id.Facts.UUID == "" {
		return fmt.Errorf("identify (%+v): %w", id, err)
	}
	if now, err := c.ArmNetworkBoot(ctx); err != nil || !now.Armed() {
		return fmt.Errorf("arm (%v): %w", now, err)
	}
	if err := c.PowerCycle(ctx); err != nil {
		return fmt.Errorf("cycle: %w", err)
	}
	if state, err := c.PowerState(ctx); err != nil || state != On {
		return fmt.Errorf("confirm (%v): %w", state, err)
	}
	if err := c.Disarm(ctx); err != nil {
		return fmt.Errorf("clear: %w", err)
	}
	if now, err := c.BootOverride(ctx); err != nil || now.Armed() && now.Enabled != "Continuous" {
		return fmt.Errorf("cleared (%v): %w", now, err)
	}
	return nil
}

// faulty starts a machine of the profile without TLS, whose handshakes would be
// most of the work of the hundreds here. It ends with the test, or with done.
func faulty(t *testing.T, p redfishtest.Profile, faults ...redfishtest.Fault) (s *redfishtest.Service, cfg Config, done func()) {
	t.Helper()
	h := hardware(p)
	h.Username, h.Password = testUser, testPassword
	s = redfishtest.New(h)
	for _, f := range faults {
		s.Inject(f)
	}
	server := httptest.NewServer(s)
	done = func() {
		s.Close()
		server.Close()
	}
	t.Cleanup(done)
	return s, Config{Address: server.URL, Username: testUser, Password: testPassword, Timeouts: quick()}, done
}

// One passing trouble at any point of a run changes nothing: the machine is
// identified, armed, switched off and on exactly once, and cleared.
func TestOnePassingFaultChangesNothing(t *testing.T) {
	t.Parallel()
	for i, p := range redfishtest.Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			for _, tr := range troubles() {
				if tr.slow && i != 1 || tr.login && p.Session.None {
					continue
				}
				s, cfg, done := faulty(t, p, tr.fault)
				if tr.slow {
					cfg.Timeouts.Power = 6 * time.Second // a lost reset is sent again after a quarter of it
				}
				if err := provisioned(t.Context(), cfg); err != nil {
					t.Errorf("%s: %v", tr.name, err)
				}
				got := s.Resets()
				if !tr.again && !slices.Equal(got, []string{"ForceOff", "On"}) || len(got) > 3 {
					t.Errorf("%s: resets are %v", tr.name, got)
				}
				if n := s.RefusedLogins() + s.OpenSessions(); n != 0 {
					t.Errorf("%s: %d refused log-ins, %d sessions left open", tr.name, s.RefusedLogins(), s.OpenSessions())
				}
				done()
			}
		})
	}
}

// Two of them at a time, chosen at random: the run succeeds, or ends with an
// error of a known kind after which nothing was reset without being armed.
func TestTwoPassingFaultsEndWellOrAreReported(t *testing.T) {
	t.Parallel()
	const pairs = 6
	all := slices.DeleteFunc(troubles(), func(tr trouble) bool { return tr.slow })
	for i, p := range redfishtest.Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(20261130, uint64(i)))
			for range pairs {
				a, b := all[random.IntN(len(all))], all[random.IntN(len(all))]
				s, cfg, done := faulty(t, p, a.fault, b.fault)
				err := provisioned(t.Context(), cfg)
				if err != nil && !typed(err) {
					t.Errorf("%s and %s: %v", a.name, b.name, err)
				}
				if got := s.Resets(); err == nil && !slices.Equal(got, []string{"ForceOff", "On"}) {
					t.Errorf("%s and %s: resets are %v", a.name, b.name, got)
				}
				if n := s.OpenSessions(); n != 0 && err == nil {
					t.Errorf("%s and %s: %d sessions left open, and not reported", a.name, b.name, n)
				}
				done()
			}
		})
	}
}

func typed(err error) bool {
	for _, kind := range []error{
		ErrUnauthorized, ErrUnreachable, ErrOverrideNotKept, ErrOverrideRefused, ErrPowerTimeout, ErrPowerRefused, ErrSessionLimit,
	} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// Faults that stay are errors of their kind, and never a reset of a machine that
// is not armed (I4).
func TestLastingFaultsAreReported(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		fault redfishtest.Fault
		kinds []error
	}{
		{"lying PATCH", redfishtest.Fault{Method: http.MethodPatch, Action: redfishtest.IgnoreWrite()}, []error{ErrOverrideNotKept}},
		{"PATCH 403", redfishtest.Fault{Method: http.MethodPatch, Action: redfishtest.Respond(http.StatusForbidden, "")}, []error{ErrOverrideRefused}},
		{"PATCH 412", redfishtest.Fault{Method: http.MethodPatch, Action: redfishtest.Respond(http.StatusPreconditionFailed, "")}, []error{ErrOverrideRefused}},
		{"PATCH 428", redfishtest.Fault{Method: http.MethodPatch, Action: redfishtest.Respond(http.StatusPreconditionRequired, "")}, []error{ErrOverrideRefused}},
		{"PATCH redirected", redfishtest.Fault{Method: http.MethodPatch, Action: redfishtest.Redirect(http.StatusMovedPermanently, "/redfish/v1/")}, []error{ErrOverrideRefused}},
		{"PATCH fails as a task", redfishtest.Fault{Method: http.MethodPatch, Action: redfishtest.AsTask(redfishtest.TaskRules{Failure: redfishtest.Answer{Status: http.StatusBadRequest}})}, []error{ErrOverrideRefused}},
		{"401 for everything", redfishtest.Fault{Path: systems, Action: redfishtest.Respond(http.StatusUnauthorized, "")}, []error{ErrUnauthorized}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, p := range redfishtest.Profiles() {
				s, cfg, done := faulty(t, p, tt.fault)
				err := provisioned(t.Context(), cfg)
				if !slices.ContainsFunc(tt.kinds, func(kind error) bool { return errors.Is(err, kind) }) {
					t.Errorf("%s: error is %v", p.Name, err)
				}
				if len(s.Resets()) != 0 || s.OpenSessions() != 0 {
					t.Errorf("%s: resets %v, %d sessions left open", p.Name, s.Resets(), s.OpenSessions())
				}
				done()
			}
		})
	}
}
