package bmc

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

// errLost is why a test forbids.
var errLost = errors.New("the right was lost")

// Whoever may not change the machine any more sends nothing that would, also when the
// right is lost between two requests of one method; it may still look, and log out.
func TestWhatIsNotPermittedIsNotSent(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Client, context.Context) error{
		"power on":  (*Client).PowerOn,
		"power off": (*Client).PowerOff,
		"disarm":    (*Client).Disarm,
		"arm": func(c *Client, ctx context.Context) error {
			_, err := c.Arm(ctx, BootRequest{})
			return err
		},
		"insert a medium": func(c *Client, ctx context.Context) error {
			return c.InsertMedia(ctx, "http://10.0.0.1/a.iso")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := hardware(redfishtest.Supermicro())
			h.InitialPower = name == "power off"
			s := service(t, h)
			s.SetOverride(redfishtest.Override{Target: "Pxe", Enabled: "Once", Mode: "UEFI"})
			var lost atomic.Bool
			cfg := configFor(t, s)
			cfg.Permit = func() error {
				if lost.Load() {
					return errLost
				}
				return nil
			}
			c := dial(t, cfg)
			s.Inject(redfishtest.Fault{ // the method has begun
				Method: http.MethodGet, Path: "/redfish/v1/Systems/1",
				Action: redfishtest.Call(func(*redfishtest.Service) { lost.Store(true) }),
			})
			before, override := len(s.Requests()), s.Override()
			err := change(c, t.Context())
			if !errors.Is(err, ErrNotPermitted) || !errors.Is(err, errLost) {
				t.Errorf("error is %v, want ErrNotPermitted and why", err)
			}
			for _, r := range s.Requests()[before:] {
				if r.Method != http.MethodGet {
					t.Errorf("it sent %s %s", r.Method, r.Path)
				}
			}
			if s.Override() != override || len(s.Resets()) > 0 {
				t.Errorf("the override is %+v after %+v, the resets are %v", s.Override(), override, s.Resets())
			}
			if err != nil && strings.Contains(err.Error(), "check bmc.address") {
				t.Errorf("error is %q: the BMC can be reached", err)
			}
		})
	}
}
