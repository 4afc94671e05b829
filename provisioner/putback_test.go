package provisioner

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/provisioner/store"
)

// I6: a machine that was on is on again after an error that ends its power cycle,
// also when an earlier controller was the one that switched it off. It is not taken
// for power cycled (I4), and gets no install (I3).
func TestI6AMachineIsSwitchedOnAgainWhenItsPowerCycleFails(t *testing.T) {
	t.Parallel()
	for name, killed := range map[string]bool{"by one controller": false, "and the next one meets the error": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, 1, nodeOf("a", 1))
				m := l.w.machines[0]
				l.onEvent = func(e store.Event) {
					if e.Message != "is off" {
						return
					}
					l.w.mu.Lock()
					m.refuses = bmc.ErrOverrideNotKept
					l.w.mu.Unlock()
					if killed {
						l.kill()
					}
				}
				summary, err := l.run(l.open(), l.request("a"))
				if killed {
					l.onEvent = nil
					summary, err = l.run(l.open(), l.request("a"))
				}
				if err != nil || len(summary.Failed) != 1 || Cause(summary.Failed[0].Cause) != CauseOverrideNotKept {
					t.Errorf("%+v, %v; want it failed because of %q", summary, err, CauseOverrideNotKept)
				}
				time.Sleep(time.Hour) // fake
				l.close()
				if !m.on || len(l.deeds("", didServe)) != 0 {
					t.Errorf("on: %t, scripts served: %d", m.on, len(l.deeds("", didServe)))
				}
				l.check()
			})
		})
	}
}

// I8: where DHCP put a node is remembered: the next run finds it up, whatever was
// planned for it meanwhile, and does not power cycle it again.
func TestI8ANodeWithoutAStaticAddressIsFoundUpByTheNextRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := nodeOf("a", 1)
		n.IP = ""
		l := newLab(t, 1, n)
		c := l.open()
		defer l.close()
		for _, held := range []bool{false, true, false} { // a run that holds it leaves a record of its own
			if held {
				l.hold(t, "node-1")
			}
			summary, err := l.run(c, l.request("a"))
			if err != nil || len(summary.Done)+len(summary.Held) != 1 {
				t.Fatalf("%+v, %v", summary, err)
			}
			if held {
				if _, err := l.state.RemoveHold("a", "node-1"); err != nil {
					t.Fatal(err)
				}
			}
		}
		if ons := l.deeds("", didOn); len(ons) != 1 || l.record("a/node-1").Address != "10.0.1.1" {
			t.Errorf("%d power-ons in three runs, at %q; want one, at 10.0.1.1", len(ons), l.record("a/node-1").Address)
		}
	})
}
