package upgrade_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/talos-provision/provision/provisioner/upgrade"
)

// faults that a node may have at random.
var faults = []fault{
	noFault, noFault, noFault, noFault, exitsWithCode, exitsSilently, rollsBack, neverReboots, hangs, losesConfig, losesAnswers,
	bootsOther, otherSchematic, staysUnready, refusesLifecycle, drainStuck, busy, refusesReboot, swapped,
}

// randomWorld is a cluster of some size and age, with nodes that misbehave.
func randomWorld(t *testing.T, random *rand.Rand) (*world, upgrade.Options) {
	versions := []string{"v1.12.9", "v1.13.4", "v1.13.4"}
	w := newWorld(t, []int{3, 3, 5}[random.IntN(3)], random.IntN(5), versions[random.IntN(len(versions))])
	for _, b := range w.sorted() {
		b.fault = faults[random.IntN(len(faults))]
		if b.role == upgrade.Worker {
			b.Chassis = []string{"", "chassis-1", "chassis-2"}[random.IntN(3)]
			b.k.Unschedulable = random.IntN(8) == 0 // by somebody else
		}
	}
	w.leader = fmt.Sprintf("cp-%d", random.IntN(3)+1)
	w.limit = 1 + random.IntN(3)
	o := w.options("v1.13.9")
	o.MaxUnavailable, o.BMCRescue = upgrade.Share{Count: w.limit}, random.IntN(2) == 0
	if random.IntN(3) == 0 {
		o.Canary = []string{"cp-2"}
	}
	return w, o
}

func (w *world) sorted() []*box {
	boxes := w.controlPlanes()
	for i := 1; ; i++ {
		b, found := w.boxes[fmt.Sprintf("w-%d", i)]
		if !found {
			return boxes
		}
		boxes = append(boxes, b)
	}
}

// disturb has control planes fail by themselves now and then, and come back. They
// fail between the instants at which the controller is at work, which are whole
// seconds here: what falls after it was asked, and in the same instant in which
// another one is told to reboot, falls because of nobody.
func (w *world) disturb(ctx context.Context, random *rand.Rand) {
	time.Sleep(234 * time.Millisecond)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(1+random.IntN(20)) * time.Minute):
		}
		w.mu.Lock()
		b := w.controlPlanes()[random.IntN(3)]
		if b.up() && b.staged == "" && !b.k.Ours {
			b.boot++
			b.upAt = time.Now().Add(2 * time.Minute)
		}
		w.mu.Unlock()
	}
}

// TestNeverLosesQuorum: whatever goes wrong, and wherever the controller is
// killed, etcd never has fewer healthy voters than its quorum because of us, no
// two control planes are down at once, every node that we cordoned ends uncordoned
// or is reported, and what others cordoned stays so. In the end all is upgraded.
func TestNeverLosesQuorum(t *testing.T) {
	t.Parallel()
	const worlds = 80
	for seed := range uint64(worlds) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { liveThrough(t, rand.New(rand.NewPCG(seed, 7)), false) }) //nolint:gosec // a test is to be repeatable
		})
		if seed%3 == 0 {
			t.Run(fmt.Sprintf("seed %d, disturbed", seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { liveThrough(t, rand.New(rand.NewPCG(seed, 8)), true) }) //nolint:gosec // a test is to be repeatable
			})
		}
	}
}

func liveThrough(t *testing.T, random *rand.Rand, disturbed bool) {
	w, o := randomWorld(t, random)
	foreign := map[string]bool{}
	for name, b := range w.boxes {
		foreign[name] = b.k.Unschedulable
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if disturbed {
		go w.disturb(ctx, rand.New(rand.NewPCG(random.Uint64(), 9))) //nolint:gosec // a test is to be repeatable
	}
	finished := false
	for try := 0; try < 60 && !finished; try++ {
		w.killAt = 0
		if try < 12 && random.IntN(2) == 0 {
			w.calls, w.killAt, w.killBefore = 0, 1+random.IntN(400), random.IntN(2) == 0
		}
		o.Continue, o.RunID = w.run.ID != "" && w.run.Finished.IsZero(), fmt.Sprintf("run-%d", try)
		result, err := w.upgrade(o)
		finished = err == nil
		if finished && !result.Complete {
			t.Error("not complete, and no error:", result)
		}
		w.accounted(result, err)
		if err != nil && !errors.Is(err, errKilled) && !errors.Is(err, upgrade.ErrFailed) && !errors.Is(err, upgrade.ErrParked) {
			t.Fatal(err)
		}
		if errors.Is(err, upgrade.ErrFailed) {
			for _, r := range result.Nodes {
				if r.State == upgrade.Failed {
					w.repair(w.boxes[r.Node])
				}
			}
		}
		time.Sleep(time.Duration(random.IntN(30)) * time.Minute) // until the operator looks
	}
	if !finished {
		t.Error("never finished:", w.run.Stopped)
	}
	cancel()
	synctest.Wait() // nobody disturbs any more
	w.upgradedTo("v1.13.9")
	for name, b := range w.boxes {
		if b.k.Unschedulable != foreign[name] {
			t.Errorf("%s is cordoned: %t, and others had: %t", name, b.k.Unschedulable, foreign[name])
		}
		if b.cycles > 0 && !o.BMCRescue {
			t.Errorf("%s was power cycled, which was not allowed", name)
		}
	}
	w.sound()
}

// accounted: a node that we cordoned is known to be so, by the result of a run
// that ended, or by the store of one that was killed.
func (w *world) accounted(result upgrade.Result, err error) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	reported := map[string]bool{}
	if errors.Is(err, errKilled) {
		for _, r := range w.records {
			reported[r.Node] = r.Cordoned
		}
	}
	for _, name := range result.Cordoned() {
		reported[name] = true
	}
	for name, b := range w.boxes {
		if b.k.Ours && !reported[name] {
			w.t.Errorf("%s is cordoned by us and nobody is told (%v)", name, err)
		}
	}
}

// TestResumesAfterAKillAnywhere kills the controller at every single call of an
// upgrade, before and after its effect. The run goes on, nothing is lost, and no
// node is rebooted twice.
func TestResumesAfterAKillAnywhere(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1.13.4", "v1.12.9"} {
		for _, before := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, before the effect: %t", version, before), func(t *testing.T) {
				t.Parallel()
				for at, done := 1, false; !done; at++ {
					synctest.Test(t, func(t *testing.T) { done = killAt(t, version, at, before) })
				}
			})
		}
	}
}

// killAt says whether the run ended before the call that it was to be killed at.
func killAt(t *testing.T, version string, at int, before bool) bool {
	w := newWorld(t, 3, 1, version)
	// Only the worker and the leader are left: that is every kind of step.
	w.boxes["cp-2"].version, w.boxes["cp-3"].version = "v1.13.9", "v1.13.9"
	w.killAt, w.killBefore = at, before
	o := w.options("v1.13.9")
	_, err := w.upgrade(o)
	if errors.Is(err, errKilled) {
		w.accounted(upgrade.Result{}, err)
		o.Continue, o.RunID = w.run.ID != "" && w.run.Finished.IsZero(), "run-2"
		if _, err := w.upgrade(o); err != nil {
			t.Fatalf("killed at call %d: %v", at, err)
		}
	} else if err != nil {
		t.Fatal(err)
	}
	w.upgradedTo("v1.13.9")
	w.sound()
	for _, name := range []string{"w-1", "cp-1"} {
		if b := w.boxes[name]; b.orders != 1 || b.boot != 1 {
			t.Errorf("killed at call %d: %s was told to reboot %d times and booted %d times", at, name, b.orders, b.boot)
		}
	}
	return w.calls < at && !errors.Is(err, errKilled)
}

// TestAKillNeverPowerCyclesTwice kills the controller at every call of a rescue.
func TestAKillNeverPowerCyclesTwice(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprintf("before the effect: %t", before), func(t *testing.T) {
			t.Parallel()
			for at, done := 1, false; !done; at++ {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, 3, 1, "v1.13.9")
					w.boxes["w-1"].version, w.boxes["w-1"].fault = "v1.13.4", hangs
					o := w.options("v1.13.9")
					o.BMCRescue = true
					// The many looks while nothing happens are all alike.
					w.onCall = func(name, host string) {
						if name == "Inspect" && host == w.boxes["w-1"].Host && w.boxes["w-1"].away {
							w.calls--
						}
					}
					w.killAt, w.killBefore = at, before
					_, err := w.upgrade(o)
					done = err == nil
					for try := 0; err != nil && try < 3; try++ {
						o.Continue, o.RunID = w.run.ID != "" && w.run.Finished.IsZero(), fmt.Sprintf("run-%d", try)
						_, err = w.upgrade(o)
					}
					if cycles := w.boxes["w-1"].cycles; err != nil || cycles != 1 {
						t.Errorf("killed at call %d: %d power cycles, %v", at, cycles, err)
					}
					w.upgradedTo("v1.13.9")
				})
			}
		})
	}
}
