package provisioner

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
)

// hold puts a hold on a node of cluster a.
func (l *lab) hold(t *testing.T, node string) {
	t.Helper()
	l.mu.Lock()
	state := l.state
	l.mu.Unlock()
	if err := state.SetHold(store.Hold{Cluster: "a", Node: node, Reason: "a look at its fans", By: "mei", Since: time.Now()}); err != nil {
		t.Error(err)
	}
}

// A node that a person holds is planned as that. Its BMC is asked who it is, so that
// a board which shares its serials does not look unique (I1), and for nothing else.
func TestAHeldNodeIsPlannedAsHeldAndOnlyAskedWhoItIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1, nodeOf("a", 1), nodeOf("a", 2))
		c := l.open()
		defer l.close()
		l.hold(t, "node-2")
		l.w.hook = func(what string, m *machine) {
			if m.name == "a/node-2" && what != "log in" && what != "identify" {
				t.Errorf("its BMC was asked to %s", what)
			}
		}
		plan, err := c.Plan(t.Context(), l.request("a"))
		if err != nil {
			t.Fatal(err)
		}
		p := plan.Nodes[1]
		if p.Action != ActionHold || p.Cause != CauseHeld || !strings.Contains(p.Reason, "mei") || !strings.Contains(p.Reason, "fans") || !strings.Contains(p.Hint, "provision release node-2") {
			t.Errorf("planned as %s because of %q: %s; %s", p.Action, p.Cause, p.Reason, p.Hint)
		}
		summary, err := c.Run(t.Context(), plan)
		if err != nil || len(summary.Done) != 1 || len(summary.Held) != 1 || Cause(summary.Held[0].Cause) != CauseHeld {
			t.Errorf("%+v, %v", summary, err)
		}
	})
}

// A hold that is set while a run goes on stops the node before its power is touched,
// however far it has come; once it is released the next run goes on with it.
func TestAHoldInTheMiddleOfARunComesBeforeTheNextPowerAction(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(store.Event) bool{
		"as it begins":                    func(e store.Event) bool { return State(e.State) == Pending },
		"identified":                      func(e store.Event) bool { return State(e.State) == Identified },
		"armed":                           func(e store.Event) bool { return State(e.State) == Armed && State(e.Previous) == Identified },
		"in the moment of its power-off":  func(e store.Event) bool { return e.Message == "powering off" },
		"while it waits for its attempts": func(e store.Event) bool { return strings.HasPrefix(e.Message, "waits ") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, 1, nodeOf("a", 1), nodeOf("a", 2))
				c := l.open()
				defer l.close()
				if strings.Contains(name, "attempts") {
					r := store.Node{Cluster: "a", Name: "node-1", State: string(Failed), LastPowerOn: time.Now().Add(-time.Second)}
					if err := l.state.Record(r, store.Event{}); err != nil {
						t.Fatal(err)
					}
				}
				set := false
				l.onEvent = func(e store.Event) {
					if e.Node == "node-1" && at(e) && !set {
						set = true
						l.hold(t, "node-1")
					}
				}
				summary, err := l.run(c, l.request("a"))
				if err != nil || !set || len(summary.Held) != 1 || Cause(summary.Held[0].Cause) != CauseHeld || len(summary.Done) != 1 {
					t.Errorf("set %t, %+v, %v; want node-1 held and node-2 done", set, summary, err)
				}
				if power := l.deeds("a/node-1", didOff, didOn); len(power) != 0 {
					t.Errorf("its power was touched %d times", len(power))
				}
				if removed, err := l.state.RemoveHold("a", "node-1"); err != nil || !removed {
					t.Fatalf("release: %t, %v", removed, err)
				}
				summary, err = l.run(c, l.request("a"))
				if err != nil || len(summary.Done) != 2 {
					t.Errorf("after the release: %+v, %v", summary, err)
				}
				if ons := l.deeds("a/node-1", didOn); len(ons) != 1 {
					t.Errorf("after the release it was switched on %d times", len(ons))
				}
				l.check()
			})
		})
	}
}

// A machine that is off already is switched on: one that is left off helps nobody.
func TestAHoldOnAMachineThatIsOffDoesNotKeepItOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1, nodeOf("a", 1))
		c := l.open()
		defer l.close()
		l.onEvent = func(e store.Event) {
			if e.Message == "is off" {
				l.hold(t, "node-1")
			}
		}
		summary, err := l.run(c, l.request("a"))
		if err != nil || len(summary.Done) != 1 || !l.w.machines[0].on {
			t.Errorf("%+v, %v; on: %t", summary, err, l.w.machines[0].on)
		}
	})
}
