package upgrade_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/talos-provision/provision/provisioner/talos"
	"github.com/talos-provision/provision/provisioner/upgrade"
)

func TestAPlanTouchesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 2, "v1.13.4")
		w.onCall = func(name, _ string) {
			readers := []string{"Run", "Records", "Members", "Inspect", "Details", "EtcdStatus", "EtcdMembers", "EtcdAlarms", "Version", "Nodes", "Budgets"}
			if !slices.Contains(readers, name) {
				t.Error("a plan calls", name)
			}
		}
		runner, err := upgrade.New(w.options("v1.13.9"))
		if err != nil {
			t.Fatal(err)
		}
		plan, err := runner.Plan(t.Context())
		if err != nil || plan.Continues != "" || len(plan.Blocked()) > 0 || plan.Nodes[0].Position != 5 {
			t.Errorf("%+v %v", plan, err)
		}
	})
}

func TestAPlanTellsOfTheUnfinishedRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 2, "v1.13.4")
		w.boxes["w-1"].fault = exitsWithCode
		o := w.options("v1.13.9")
		_, _ = w.upgrade(o)
		runner, err := upgrade.New(o)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := runner.Plan(t.Context())
		if err != nil || plan.Continues != "run-1" {
			t.Fatal(plan.Continues, err)
		}
		for _, n := range plan.Nodes {
			if (n.Action == upgrade.ActionResume) != (n.Node == "w-1") {
				t.Error(n.Node, n.Action)
			}
		}
		raw, err := json.Marshal(plan)
		var again upgrade.Plan
		if err != nil || json.Unmarshal(raw, &again) != nil || again.Target != plan.Target {
			t.Error("the JSON cannot be read back:", err, again.Target)
		}
	})
}

// Ctrl-C in the middle of a reboot: the run ends soon, tells what is cordoned, and can be carried on.
func TestAnInterruptedRunGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 2, "v1.13.4")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		o := w.options("v1.13.9")
		runner, err := upgrade.New(o)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(time.Minute)
			cancel()
		}()
		result, err := runner.Run(ctx)
		if !errors.Is(err, context.Canceled) || result.Complete || !slices.Equal(result.Cordoned(), []string{"w-1"}) {
			t.Fatalf("%+v %v", result, err)
		}
		if w.locked != "" || w.run.Stopped == "" || w.records["w-1"].State != upgrade.Rebooting {
			t.Errorf("%q %+v %+v", w.locked, w.run, w.records["w-1"])
		}
		time.Sleep(7 * 24 * time.Hour)
		o.Continue = true
		if _, err := w.upgrade(o); err != nil {
			t.Fatal(err)
		}
		w.upgradedTo("v1.13.9")
		if got := w.boxes["w-1"]; got.orders != 1 || got.installs != 1 {
			t.Error(got.orders, got.installs)
		}
	})
}

// halfOpen are calls that a node never answers for a while after its reboot.
type halfOpen struct {
	*world
	host  string
	since *time.Time
	calls *int
}

func (h halfOpen) Reboot(ctx context.Context, host string, mode talos.RebootMode) error {
	if host == h.host {
		*h.since = time.Now()
	}
	return h.world.Reboot(ctx, host, mode)
}

func (h halfOpen) Inspect(ctx context.Context, host string) talos.Running {
	if host == h.host && !h.since.IsZero() && time.Since(*h.since) < 5*time.Minute {
		*h.calls++
		<-ctx.Done()
		return talos.Running{Host: host, Err: ctx.Err()}
	}
	return h.world.Inspect(ctx, host)
}

// siderolabs/talos#14242, siderolabs/terraform-provider-talos#367
func TestConnectionsThatAreHalfOpenHoldNothingUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 1, "v1.13.4")
		h := halfOpen{world: w, host: w.boxes["w-1"].Host, since: new(time.Time), calls: new(int)}
		o := w.options("v1.13.9")
		o.Talos = h
		if _, err := w.upgrade(o); err != nil {
			t.Fatal(err)
		}
		w.upgradedTo("v1.13.9")
		if *h.calls < 10 {
			t.Error("each look is to have its own deadline:", *h.calls)
		}
	})
}

func TestAnExcludedNodeIsLeftAloneAndReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 2, "v1.13.4")
		w.boxes["w-1"].fault = diesForGood
		o := w.options("v1.13.9")
		if _, err := w.upgrade(o); !errors.Is(err, upgrade.ErrFailed) {
			t.Fatal(err)
		}
		o.Continue, o.Exclude = true, []string{"w-1"}
		result, err := w.upgrade(o)
		if err != nil || !slices.Equal(result.Cordoned(), []string{"w-1"}) {
			t.Fatal(result, err)
		}
		if w.boxes["w-2"].version != "v1.13.9" || w.boxes["cp-1"].version != "v1.13.9" {
			t.Error("the others were not upgraded")
		}
	})
}

func TestOptionsSayWhatTheyLack(t *testing.T) {
	t.Parallel()
	if _, err := upgrade.New(upgrade.Options{Cluster: "prod", NoDrain: true}); err == nil || err.Error() != "an upgrade needs Target, Members, Talos, Store" {
		t.Error(err)
	}
}
