package bmc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

// Whenever the caller's context ends, before a request is handled or before its
// answer is there, no goroutine and no session stays, and what is half done is
// said: an override that may be in force, a medium that may be inserted, a reset
// that was sent. Not parallel, so that goroutines can be counted.
func TestCancelAtEveryRequestLeavesNothingUnreported(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, run := range []struct {
		profile redfishtest.Profile
		kind    BootKind
	}{
		{redfishtest.Supermicro(), BootPXE}, {redfishtest.AMI(), BootPXE}, {redfishtest.Lenovo(), BootMedia}, {redfishtest.Generic(), BootMedia},
	} {
		for _, late := range []bool{false, true} {
			n := 0
			for ; cancelledAt(t, run.profile, run.kind, n, late); n++ {
			}
			if n < 12 {
				t.Errorf("%s %s: only %d requests: the test proves nothing", run.profile.Name, run.kind, n)
			}
		}
	}
	deadline := time.Now().Add(20 * time.Second)
	for runtime.NumGoroutine() > before && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	if now := runtime.NumGoroutine(); now > before {
		stacks := make([]byte, 1<<16)
		t.Errorf("%d goroutines, %d before:\n%s", now, before, stacks[:runtime.Stack(stacks, true)])
	}
}

// cancelledAt makes a run whose context ends at the nth request; false when the
// run has fewer.
func cancelledAt(t *testing.T, p redfishtest.Profile, kind BootKind, n int, late bool) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, cfg, done := faulty(t, p)
	defer done()
	reached := make(chan struct{})
	s.Inject(redfishtest.Fault{Skip: n, Times: 1, Action: redfishtest.Call(func(*redfishtest.Service) {
		close(reached)
		if !late {
			cancel()
		}
	})})
	if late { // handled, and the context ends while the answer is on its way
		s.Inject(redfishtest.Fault{Skip: n, Times: 1, Action: redfishtest.Delay(20 * time.Millisecond)})
		go func() {
			select {
			case <-reached:
				time.Sleep(5 * time.Millisecond)
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	where, err := interrupted(ctx, cfg, kind)
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s %s, cancelled at request %d (late %t), %s: %s: %v", p.Name, kind, n, late, where, fmt.Sprintf(format, args...), err)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fail("not a cancellation")
	}
	if left := s.OpenSessions(); left != 0 {
		fail("%d sessions left open", left)
	}
	says := func(words ...string) bool {
		for _, w := range words {
			if err != nil && strings.Contains(err.Error(), w) {
				return true
			}
		}
		return false
	}
	if o := s.Override(); where == "arm" && o.Enabled == "Once" && !says("may be in force") {
		fail("%v is in force", o)
	}
	if where == "arm" && s.Media() != "" && !says("stays inserted", "may have been changed", "was done all the same") {
		fail("%s is in the drive", s.Media())
	}
	if where == "arm" && len(s.Resets()) != 0 {
		fail("resets %v", s.Resets())
	}
	if where == "cycle" && len(s.Resets()) != 0 && !says("wanted,") {
		fail("resets %v", s.Resets())
	}
	select {
	case <-reached:
		return true
	default:
		return false
	}
}

// The same when an answer was lost before, so that two things are unknown.
func TestCancelledAfterALostAnswerSaysWhatMayBe(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind         BootKind
		method, path string
		says         string
	}{
		{BootPXE, http.MethodPatch, "/redfish/v1/Systems/1", "the override may be in force"},
		{BootMedia, http.MethodPost, "/redfish/v1/Managers/1/**", "may have been changed"},
	} {
		s, cfg, _ := faulty(t, redfishtest.Generic())
		cfg.Timeouts.Logout = 200 * time.Millisecond
		c := dial(t, cfg)
		ctx, cancel := context.WithCancel(t.Context())
		s.Inject(redfishtest.Fault{Method: tt.method, Path: tt.path, Times: 1, Action: redfishtest.Call(func(s *redfishtest.Service) {
			s.Inject(redfishtest.Fault{Method: http.MethodGet, Times: 1, Action: redfishtest.Call(func(*redfishtest.Service) { cancel() })})
			s.Inject(redfishtest.Fault{Method: http.MethodGet, Action: redfishtest.Respond(http.StatusServiceUnavailable, "")})
		})})
		s.Inject(redfishtest.Fault{Method: tt.method, Path: tt.path, Times: 1, Action: redfishtest.CloseAfter()})
		_, err := c.Arm(ctx, BootRequest{Kind: tt.kind, MediaURI: isoURI})
		cancel()
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: error is %v", tt.kind, err)
		}
		if s.Override().Target != "Pxe" && s.Media() != isoURI {
			t.Errorf("%s: nothing was done: the test proves nothing", tt.kind)
		}
	}
}

// interrupted makes a run and tells where it ended.
func interrupted(ctx context.Context, cfg Config, kind BootKind) (where string, err error) {
	c, err := Dial(ctx, cfg)
	if err != nil {
		return "dial", err
	}
	defer func() {
		if left := c.Close(ctx); left != nil {
			where, err = "close", errors.Join(err, left)
		}
	}()
	if _, err := c.Identify(ctx); err != nil {
		return "identify", err
	}
	if _, err := c.Arm(ctx, BootRequest{Kind: kind, MediaURI: isoURI}); err != nil {
		return "arm", err
	}
	if err := c.PowerCycle(ctx); err != nil {
		return "cycle", err
	}
	return "", nil
}
