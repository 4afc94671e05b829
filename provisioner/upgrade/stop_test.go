package upgrade_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/talos-provision/provision/provisioner/talos"
	"github.com/talos-provision/provision/provisioner/upgrade"
)

func TestABadTagParksTheRunWithNothingTouched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 2, "v1.13.4")
		w.badTags["factory.talos.dev/metal-installer/"+schematicA+":v1.13.9"] = true
		_, err := w.upgrade(w.options("v1.13.9"))
		if !errors.Is(err, upgrade.ErrParked) || !errors.Is(err, upgrade.ErrPull) {
			t.Fatal(err)
		}
		if len(w.events) > 0 || w.run.ID != "" || len(w.pulls) != 5 {
			t.Error("something was touched:", w.events, w.run, w.pulls)
		}
	})
}

func TestOneRunAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 2, "v1.13.4")
		w.locked = "laptop-of-eve"
		if _, err := w.upgrade(w.options("v1.13.9")); !errors.Is(err, upgrade.ErrLocked) || !strings.Contains(err.Error(), "laptop-of-eve") {
			t.Fatal(err)
		}
		w.locked = ""
		o, other := w.options("v1.13.9"), newWorld(t, 0, 0, "")
		other.locked = "another store"
		o.Locks = []upgrade.Locker{other}
		if _, err := w.upgrade(o); !errors.Is(err, upgrade.ErrLocked) {
			t.Fatal(err)
		}
		if w.locked != "" || len(w.events) > 0 {
			t.Error("the refused run holds the lock, or has begun")
		}
	})
}

func TestUnfinishedRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 2, "v1.13.4")
		o := w.options("v1.13.9")
		o.Continue = true
		if _, err := w.upgrade(o); !errors.Is(err, upgrade.ErrNothingToContinue) {
			t.Fatal(err)
		}
		o.Continue = false
		w.boxes["w-1"].fault = exitsWithCode
		_, _ = w.upgrade(o)
		if _, err := w.upgrade(o); !errors.Is(err, upgrade.ErrUnfinished) || !strings.Contains(err.Error(), "exit code 1") {
			t.Fatal(err)
		}
		other := w.options("v1.14.1")
		other.Continue = true
		if _, err := w.upgrade(other); !errors.Is(err, upgrade.ErrUnfinished) {
			t.Fatal(err)
		}
		runner, err := upgrade.New(o)
		if err != nil {
			t.Fatal(err)
		}
		result, err := runner.Abandon(t.Context())
		if err != nil || !slices.Equal(result.Cordoned(), []string{"w-1"}) {
			t.Fatal("the abandoned run tells what it leaves behind:", result, err)
		}
		o.RunID = "run-2"
		if _, err := w.upgrade(o); err != nil {
			t.Fatal(err)
		}
		w.upgradedTo("v1.13.9")
	})
}

func TestAnUnhealthyClusterIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 1, "v1.13.4")
		w.broken["Health"] = talos.ErrUnhealthy
		start := time.Now()
		result, err := w.upgrade(w.options("v1.13.9"))
		if !errors.Is(err, upgrade.ErrParked) || len(result.Findings) != 1 || result.Findings[0].Code != upgrade.CodeHealth {
			t.Fatal(result, err)
		}
		if waited := time.Since(start); waited < 10*time.Minute || len(w.events) > 0 {
			t.Error(waited, w.events)
		}
		o := w.options("v1.13.9")
		o.NoHealth = true
		if _, err := w.upgrade(o); err != nil {
			t.Fatal(err)
		}
	})
}

// A batch whose one node fails: what is touched is brought to its end, what is not stays so.
func TestAFailureLeavesItsBatchConsistent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 5, "v1.13.4")
		w.limit = 3
		w.boxes["w-2"].fault = exitsWithCode
		o := w.options("v1.13.9")
		o.MaxUnavailable = upgrade.Share{Count: 3}
		result, err := w.upgrade(o)
		if !errors.Is(err, upgrade.ErrFailed) || !slices.Equal(result.Cordoned(), []string{"w-2"}) {
			t.Fatal(result.Cordoned(), err)
		}
		for name, want := range map[string]string{"w-1": "v1.13.9", "w-2": "v1.13.4", "w-3": "v1.13.9", "w-4": "v1.13.4", "cp-2": "v1.13.4"} {
			if got := w.boxes[name].version; got != want {
				t.Errorf("%s runs %s, want %s", name, got, want)
			}
		}
		w.sound()
	})
}
