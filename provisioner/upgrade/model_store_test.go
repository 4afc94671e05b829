package upgrade_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/upgrade"
)

// PowerState and the rest of upgrade.BMC.
func (w *world) PowerState(ctx context.Context, node string) (state string, err error) {
	err = w.do(ctx, "PowerState", node, func() error {
		state = "On"
		return nil
	})
	return state, err
}

func (w *world) PowerCycle(ctx context.Context, node string) error {
	return w.do(ctx, "PowerCycle", node, func() error {
		b := w.boxes[node]
		if b.up() {
			w.blame("%s is power cycled while it is up", node)
		}
		b.cycles++
		b.away = b.fault == diesForGood
		b.boot++
		b.upAt = time.Now().Add(3 * time.Minute)
		return nil
	})
}

// Lock and the rest of upgrade.Store.
func (w *world) Lock(ctx context.Context, _, holder string) (func(context.Context) error, error) {
	err := w.do(ctx, "Lock", "", func() error {
		if w.locked != "" {
			return fmt.Errorf("%w: %s has it", upgrade.ErrLocked, w.locked)
		}
		w.locked = holder
		return nil
	})
	return func(ctx context.Context) error {
		return w.do(ctx, "Unlock", "", func() error {
			w.locked = ""
			return nil
		})
	}, err
}

func (w *world) Run(ctx context.Context, _ string) (run upgrade.Run, found bool, err error) {
	err = w.do(ctx, "Run", "", func() error {
		run, found = w.run, w.run.ID != ""
		return nil
	})
	return run, found, err
}

func (w *world) SaveRun(ctx context.Context, run upgrade.Run) error {
	return w.do(ctx, "SaveRun", "", func() error {
		w.run = run
		return nil
	})
}

func (w *world) Records(ctx context.Context, _, run string) (records []upgrade.Record, err error) {
	err = w.do(ctx, "Records", "", func() error {
		for _, r := range w.records {
			if r.Run == run {
				records = append(records, r)
			}
		}
		return nil
	})
	return records, err
}

func (w *world) Record(ctx context.Context, r upgrade.Record, e store.Event) error {
	return w.do(ctx, "Record", r.Node, func() error {
		w.records[r.Node] = r
		w.events = append(w.events, e)
		return nil
	})
}

// options are those of a run over the world.
func (w *world) options(target string) upgrade.Options {
	version, err := upgrade.ParseVersion(target)
	if err != nil {
		w.t.Fatal(err)
	}
	return upgrade.Options{
		Cluster: "prod", Target: version, Members: w.members, Talos: w, Kubernetes: kube{w}, BMC: w, Store: w,
		RunID: "run-1", Holder: "test",
	}
}

func (w *world) members(ctx context.Context) (members []upgrade.Member, err error) {
	err = w.do(ctx, "Members", "", func() error {
		for _, name := range slices.Sorted(maps.Keys(w.boxes)) {
			members = append(members, w.boxes[name].Member)
		}
		return nil
	})
	return members, err
}

// upgrade runs a controller until its end, or its death.
func (w *world) upgrade(o upgrade.Options) (upgrade.Result, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w.cancel, w.dead = cancel, false
	runner, err := upgrade.New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	result, err := runner.Run(ctx)
	if w.dead {
		w.dead, w.locked, w.killAt = false, "", 0
		return upgrade.Result{}, errKilled
	}
	return result, err
}
