package daemon

import (
	"context"
	"errors"
	"testing"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner/store"
)

func node(name string, install bool) inventory.Node {
	return inventory.Node{Name: name, Install: install, BMC: inventory.BMC{Address: "https://192.0.2.1"}}
}

// A run that cannot begin, such as where the images cannot be had, is tried again,
// and not all the time; a node that was tried is not tried again.
func TestANodeWhoseImagesCannotBeHadIsNotForgotten(t *testing.T) {
	t.Parallel()
	host := &fakeHost{state: openState(t), prepare: func(_ context.Context, nth int64) error {
		if nth < 3 {
			return errors.New("the factory is away")
		}
		return nil
	}}
	d := newDaemon(t, host)
	start(t, d, generation("1", node("a", false)))
	noted(t, d)
	d.Apply(generation("2", node("a", true)))
	until(t, "the first try", func() bool { return host.prepared.Load() > 0 })
	if mark := marks(t, host.state)["demo/a"]; mark != markOff {
		t.Errorf("before it was begun a run has marked its node %q", mark)
	}
	until(t, "the run", func() bool {
		n, found, err := host.state.Node("demo", "a")
		return err == nil && found && n.State == "Failed"
	})
	if mark := marks(t, host.state)["demo/a"]; mark != markOf(inUse(d).Tree.Nodes[0]) {
		t.Errorf("the node that was tried is marked %q", mark)
	}
	if n := host.prepared.Load(); n != 3 {
		t.Errorf("images were asked for %d times, want 3", n)
	}
}

// Another process of the daemon goes on where the images were waited for.
func TestAnInstallThatWaitedForImagesOutlivesARestart(t *testing.T) {
	t.Parallel()
	waits := func(ctx context.Context, _ int64) error {
		<-ctx.Done()
		return ctx.Err()
	}
	host := &fakeHost{state: openState(t), prepare: waits}
	d := newDaemon(t, host)
	stop := start(t, d, generation("1", node("a", false)))
	noted(t, d)
	d.Apply(generation("2", node("a", true)))
	until(t, "the images", func() bool { return host.prepared.Load() > 0 })
	stop()

	next := &fakeHost{state: host.state}
	start(t, newDaemon(t, next), generation("2", node("a", true)))
	until(t, "the run", func() bool {
		n, found, err := host.state.Node("demo", "a")
		return err == nil && found && n.State == "Failed"
	})
}

// Who stops a run before it has begun has stopped it all the same.
func TestARunIsStoppedBeforeItsImagesAreThere(t *testing.T) {
	t.Parallel()
	host := &fakeHost{state: openState(t), prepare: func(ctx context.Context, _ int64) error {
		<-ctx.Done()
		return ctx.Err()
	}}
	d := newDaemon(t, host)
	start(t, d, generation("1", node("a", false)))
	noted(t, d)
	d.Apply(generation("2", node("a", true)))
	until(t, "the images", func() bool { return host.prepared.Load() > 0 })
	if err := d.Stop(t.Context(), "demo"); err != nil {
		t.Fatal(err)
	}
	// A look after the stop finds nothing to begin.
	d.Apply(generation("3", node("a", true), node("b", false)))
	until(t, "another look", func() bool { return marks(t, host.state)["demo/b"] == markOff })
	if n := host.prepared.Load(); n != 1 || d.busy("demo") {
		t.Errorf("after the stop images were asked for %d times", n)
	}
	if _, found, err := host.state.Node("demo", "a"); found || err != nil {
		t.Errorf("the node was worked on: %t, %v", found, err)
	}
	runs, err := d.Runs(t.Context())
	if err != nil || len(runs) != 1 || !runs[0].Stopped {
		t.Errorf("runs: %+v, %v; want one that was stopped", runs, err)
	}
}

// I6: each site has its own first start. What is there then is not installed.
func TestI6EachSiteHasItsOwnFirstStart(t *testing.T) {
	t.Parallel()
	state := openState(t)
	at := func(name, site string, install bool) inventory.Node {
		n := node(name, install)
		n.Labels = map[string]string{"site": site}
		return n
	}
	stop := start(t, newDaemon(t, &fakeHost{state: state, site: "north"}), generation("1", at("n1", "north", true), at("s1", "south", true)))
	until(t, "the first look of the north", func() bool { return marks(t, state)["demo/n1"] != "" })
	stop()
	south := &fakeHost{state: state, site: "south"}
	d := newDaemon(t, south)
	start(t, d, generation("1", at("n1", "north", true), at("s1", "south", true), at("s2", "south", false)))
	until(t, "the first look of the south", func() bool { return marks(t, state)["demo/s2"] == markOff })
	if south.prepared.Load() != 0 || d.busy("demo") {
		t.Error("the first start of the south began a run")
	}
	d.Apply(generation("2", at("n1", "north", true), at("s1", "south", true), at("s2", "south", true)))
	until(t, "the run of s2", func() bool {
		n, found, err := state.Node("demo", "s2")
		return err == nil && found && n.State == "Failed"
	})
	if _, found, _ := state.Node("demo", "s1"); found {
		t.Error("s1 was worked on, which was there at the first start")
	}
}

// I2: what is installed by itself when its files change is a node that failed and has
// no config; whether it answers now does not matter.
func TestI2OnlyAFailedNodeWithoutAConfigIsTriedAgain(t *testing.T) {
	t.Parallel()
	state := openState(t)
	d := newDaemon(t, &fakeHost{state: state})
	for _, test := range []struct {
		name   string
		record *store.Node
		before string // the mark; "" is none
		wants  bool
	}{
		{"new", nil, "", true},
		{"was-off", nil, markOff, true},
		{"was-off-and-installed", &store.Node{State: "Ready", ConfiguredBy: "run-1"}, markOff, true}, // the plan holds it
		{"never-tried", nil, "digest", false},
		{"failed", &store.Node{State: "Failed"}, "digest", true},
		{"failed-with-config", &store.Node{State: "Failed", ConfiguredBy: "run-1"}, "digest", false},
		{"silent", &store.Node{State: "Held", ConfiguredBy: "run-1"}, "digest", false},
		{"held", &store.Node{State: "Held"}, "digest", false},
		{"ready", &store.Node{State: "Ready", ConfiguredBy: "run-1"}, "digest", false},
		{"maintenance", &store.Node{State: "Maintenance"}, "digest", false},
		{"booting", &store.Node{State: "Booting"}, "digest", false},
	} {
		n := node(test.name, true)
		n.Cluster = "demo"
		if r := test.record; r != nil {
			r.Cluster, r.Name, r.Run = "demo", test.name, "run-1"
			if err := state.Record(*r, store.Event{Cluster: "demo", Node: test.name, State: r.State}); err != nil {
				t.Fatal(err)
			}
		}
		if got := d.wants(n, test.before, test.before != ""); got != test.wants {
			t.Errorf("%s: wants %t, want %t", test.name, got, test.wants)
		}
	}
}

// A run that somebody stopped is theirs to go on with: what a commit marks waits, so
// that the nodes of that run are not forgotten in the middle.
func TestANodeOfACommitWaitsForARunThatSomebodyStopped(t *testing.T) {
	t.Parallel()
	host := &fakeHost{state: openState(t)}
	run, _, err := host.state.BeginRun(store.Run{ID: "r1", Cluster: "demo", Daemon: true, Nodes: []string{"demo/b"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := host.state.StopRun("demo", "", "r1"); err != nil {
		t.Fatal(err)
	}
	d := newDaemon(t, host)
	start(t, d, generation("1", node("a", false), node("b", true)))
	noted(t, d)
	l, err := d.leader()
	if err != nil {
		t.Fatal(err)
	}
	d.Apply(generation("2", node("a", true), node("b", true)))
	settings, g := d.now()
	done, err := d.look(l, settings, g)
	if err != nil || done || host.prepared.Load() != 0 {
		t.Errorf("done %v, error %v, %d runs were prepared; want it to wait", done, err, host.prepared.Load())
	}
	if err := host.state.FinishRun(run, run.Started); err != nil {
		t.Fatal(err)
	}
	until(t, "the run of the new node", func() bool {
		n, found, err := host.state.Node("demo", "a")
		return err == nil && found && n.State == "Failed"
	})
}
