package provisioner

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/store/storetest"
)

// shared opens a state in etcd for one of several controllers.
func (l *lab) shared(t *testing.T, endpoint, name string) *store.Store {
	t.Helper()
	s, err := store.Connect(t.Context(), "etcd://"+endpoint+"/"+t.Name(), store.Options{TTL: 2 * time.Second, Controller: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// A run that has lost its claim ends, with the error, and asks nothing more of any
// BMC: another controller may go on with its nodes, and does.
func TestARunWhoseClaimIsLostEndsAndTouchesNothingMore(t *testing.T) {
	t.Parallel()
	endpoint, _ := storetest.StartEtcd(t)
	client := storetest.Client(t, endpoint)
	loseAll := func(ctx context.Context) error {
		leases, err := client.Leases(ctx)
		if err != nil {
			return err
		}
		for _, lease := range leases.Leases {
			if _, err := client.Revoke(ctx, lease.ID); err != nil {
				return err
			}
		}
		return nil
	}
	for name, tt := range map[string]struct {
		request string // to the BMC, in which the claim is lost; "" is when the node boots
		last    []deed // one of which is the last there may be
	}{
		"while the override is set":  {"arm", []deed{didArm, didFailArm}},
		"in the middle of power-off": {"power off", []deed{didOff}},
		"while the machine boots":    {"", []deed{didOn}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 1, nodeOf("a", 1))
			m := l.w.machines[0]
			m.dead, m.lag = true, 0
			lost, lose := context.WithCancel(t.Context())
			l.w.hook = func(what string, _ *machine) {
				if what == tt.request && lost.Err() == nil {
					if err := loseAll(t.Context()); err != nil {
						t.Error(err)
					}
					lose()
				}
			}
			l.onEvent = func(e store.Event) {
				if State(e.State) == PowerCycled && tt.request == "" && lost.Err() == nil {
					if err := loseAll(t.Context()); err != nil {
						t.Error(err)
					}
					lose()
				}
			}
			bounded, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			c := l.controllerOver(l.shared(t, endpoint, "one"))
			plan, err := c.Plan(bounded, l.request("a"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Run(bounded, plan); !errors.Is(err, errClaimLost) && !errors.Is(err, store.ErrFenced) {
				t.Fatalf("the run ended with %v, want %v or %v", err, errClaimLost, store.ErrFenced)
			}
			if lost.Err() == nil {
				t.Fatal("the claim was never lost")
			}
			all := l.deeds("", didArm, didFailArm, didOff, didOn)
			if len(all) == 0 || !slices.Contains(tt.last, all[len(all)-1].what) {
				t.Errorf("the last that was done is none of %q\n%s", tt.last, l.w.history(m))
			}
			l.w.mu.Lock()
			l.w.epoch++
			l.w.hook = nil
			l.w.mu.Unlock()
			l.onEvent = nil
			l.anotherGoesOn(t, endpoint, m)
			l.check()
		})
	}
}

// anotherGoesOn has a second controller carry on until the machine is on.
func (l *lab) anotherGoesOn(t *testing.T, endpoint string, m *machine) {
	t.Helper()
	on, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	l.onEvent = func(e store.Event) {
		if State(e.State) == PowerCycled {
			stop()
		}
	}
	c := l.controllerOver(l.shared(t, endpoint, "two"))
	plan, err := c.Plan(on, l.request("a"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Run(on, plan)
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if !m.on || !m.launched {
		t.Errorf("the second controller ended with %v and left the machine on: %t\n%s", err, m.on, l.w.history(m))
	}
}
