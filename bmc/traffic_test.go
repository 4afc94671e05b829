package bmc

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// run logs in, does something and logs out, and checks that no session is left.
func (s *script) run(t *testing.T, cfg Config, do func(context.Context, *Client) error) error {
	t.Helper()
	c, err := Dial(t.Context(), cfg)
	if err == nil {
		err = do(t.Context(), c)
		if left := c.Close(t.Context()); left != nil {
			t.Errorf("close: %v", left)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.sessions); n != 0 {
		t.Errorf("%d sessions left open", n)
	}
	return err
}

func (s *script) armed(t *testing.T) error {
	t.Helper()
	return s.run(t, s.config(t), func(ctx context.Context, c *Client) error {
		_, err := c.ArmNetworkBoot(ctx)
		return err
	})
}

func (s *script) identified(t *testing.T, cfg Config) (id Identity, err error) {
	t.Helper()
	err = s.run(t, cfg, func(ctx context.Context, c *Client) error {
		id, err = c.Identify(ctx)
		return err
	})
	return id, err
}

// wantTraffic compares every request so far, in its order: "root", "login" and
// "logout" for what each run has, paths without /redfish/v1. "10×GET /x" stands
// for ten of them.
func wantTraffic(t *testing.T, s *script, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if diff := cmp.Diff(expand(want), short(s.seen)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// around wraps what a run has in any case.
func around(requests ...string) []string {
	return append(append([]string{"root", "login"}, requests...), "logout")
}

// reaching is around with what finds the system Systems/1.
func reaching(requests ...string) []string {
	return around(append([]string{"GET /Systems", "GET /Systems/1"}, requests...)...)
}

func expand(requests []string) []string {
	out := make([]string, 0, len(requests))
	for _, r := range requests {
		n := 1
		if times, rest, ok := strings.Cut(r, "×"); ok {
			n, r = 0, rest
			for _, digit := range times {
				n = 10*n + int(digit-'0')
			}
		}
		for range n {
			out = append(out, r)
		}
	}
	return out
}

func short(seen []string) []string {
	out := make([]string, 0, len(seen))
	for _, r := range seen {
		switch {
		case r == "GET /redfish/v1":
			r = "root"
		case r == "POST "+sessionsPath:
			r = "login"
		case strings.HasPrefix(r, "DELETE "+sessionsPath):
			r = "logout"
		}
		out = append(out, strings.Replace(r, "/redfish/v1", "", 1))
	}
	return out
}
