package provisioner

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/talos-provision/provision/bmc"
)

// Once too many nodes of a run have failed no further one is powered on; those that
// are under way are followed to their end, and the others are held and say why.
func TestTooManyFailuresStopARunBeforeTheNextPowerOn(t *testing.T) {
	t.Parallel()
	for limit, stops := range map[string]bool{"": false, "1": true, "2": true, "3": false, "30%": true, "34%": false, "100%": false} {
		t.Run("limit "+limit, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, 1, nodeOf("a", 1), nodeOf("a", 2), nodeOf("a", 3), nodeOf("a", 4), nodeOf("a", 5), nodeOf("a", 6))
				l.power = Power{Parallel: 1, Window: 2 * time.Minute}
				for _, m := range l.w.machines[4:] {
					m.refuses = bmc.ErrOverrideNotKept
				}
				l.w.hook = func(what string, m *machine) {
					if what == "arm" && m.refuses != nil {
						time.Sleep(30 * time.Second) // fake: one of the others is under way by then
					}
				}
				request := l.request("a")
				var err error
				if request.MaxFailures, err = ParseLimit(limit); err != nil {
					t.Fatal(err)
				}
				summary, err := l.run(l.open(), request)
				if err != nil {
					t.Fatal(err)
				}
				defer l.close()
				done, held := 4, 0
				if stops {
					done, held = 1, 3
				}
				if len(summary.Done) != done || len(summary.Held) != held || len(summary.Failed) != 2 || len(summary.Unfinished) != 0 {
					t.Errorf("%d done, %d held, %d failed, %d unfinished; want %d, %d, 2, 0",
						len(summary.Done), len(summary.Held), len(summary.Failed), len(summary.Unfinished), done, held)
				}
				for _, r := range summary.Held {
					if Cause(r.Cause) != CauseTooManyFailures || r.Hint == "" {
						t.Errorf("%s is held because of %q, hint %q", r.Name, r.Cause, r.Hint)
					}
				}
				if ons := l.deeds("", didOn); len(ons) != done {
					t.Errorf("%d power-ons, want %d", len(ons), done)
				}
				if _, unfinished, err := l.state.UnfinishedRun("a", ""); err != nil || unfinished {
					t.Errorf("the run is unfinished: %t, %v", unfinished, err)
				}
				l.check()
			})
		})
	}
}

// What the run found before it began is no failure of it: the person who confirmed
// the plan saw it.
func TestNodesThatThePlanRefusedDoNotCountAsFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1, nodeOf("a", 1), nodeOf("a", 2))
		l.nodes[1].BMC.Address = ""
		request := l.request("a")
		request.MaxFailures, _ = ParseLimit("1")
		summary, err := l.run(l.open(), request)
		if err != nil || len(summary.Done) != 1 || len(summary.Failed) != 1 {
			t.Errorf("%d done, %d failed, %v; want 1 and 1", len(summary.Done), len(summary.Failed), err)
		}
		l.close()
	})
}

// I10: what an earlier controller switched on counts in the window of the next, for
// the fleet and for the node's rack.
func TestI10ARestartedControllerCountsThePowerOnsOfTheLastWindow(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		power Power
		racks [2]string
		waits bool
	}{
		"the fleet's window is full":  {Power{Parallel: 1, Window: 10 * time.Minute}, [2]string{"r1", "r2"}, true},
		"the rack's window is full":   {Power{Parallel: 9, Window: 10 * time.Minute, PerRack: 1, RackLabel: "rack"}, [2]string{"r1", "r1"}, true},
		"another rack has a place":    {Power{Parallel: 9, Window: 10 * time.Minute, PerRack: 1, RackLabel: "rack"}, [2]string{"r1", "r2"}, false},
		"the fleet's window is wider": {Power{Parallel: 2, Window: 10 * time.Minute}, [2]string{"r1", "r1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, 1, nodeOf("a", 1), nodeOf("b", 2))
				l.power = tt.power
				for i := range l.nodes {
					l.nodes[i].Labels = map[string]string{"rack": tt.racks[i]}
				}
				if _, err := l.run(l.open(), l.request("a")); err != nil {
					t.Fatal(err)
				}
				l.kill()
				if _, err := l.run(l.open(), l.request("b")); err != nil {
					t.Fatal(err)
				}
				l.close()
				ons := l.deeds("", didOn)
				if len(ons) != 2 {
					t.Fatalf("%d power-ons, want 2", len(ons))
				}
				if gap := ons[1].at.Sub(ons[0].at); (gap >= tt.power.Window-latency) != tt.waits {
					t.Errorf("the second power-on came %s after the first, want it to wait: %t", gap, tt.waits)
				}
			})
		})
	}
}

// I10: the power-offs of machines take different times, and their power-ons must not
// fall together because of that.
func TestI10SlowPowerOffsDoNotBunchThePowerOns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 3, nodeOf("a", 1), nodeOf("a", 2), nodeOf("a", 3), nodeOf("a", 4), nodeOf("a", 5), nodeOf("a", 6))
		l.power = Power{Parallel: 1, Window: 10 * time.Second}
		for _, m := range l.w.machines {
			m.lag = time.Minute
		}
		summary, err := l.run(l.open(), l.request("a"))
		if err != nil || len(summary.Done) != 6 {
			t.Fatalf("%d done, %v", len(summary.Done), err)
		}
		l.close()
		ons := l.deeds("", didOn)
		for i := 1; i < len(ons); i++ {
			if gap := ons[i].at.Sub(ons[i-1].at); gap < l.power.Window-latency {
				t.Errorf("power-ons %d and %d are %s apart, want %s", i, i+1, gap, l.power.Window)
			}
		}
	})
}
