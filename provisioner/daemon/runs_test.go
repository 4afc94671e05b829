package daemon

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
)

// The pauses between runs that come to nothing grow to a minute, and a run that
// worked ends them.
func TestRunsThatComeToNothingAreTriedLessAndLess(t *testing.T) {
	t.Parallel()
	r := rests{}
	var lengths [7]time.Duration
	for i := range lengths {
		r.note("demo", true)
		lengths[i] = r["demo"].length
	}
	want := [7]time.Duration{2, 4, 8, 16, 32, 60, 60}
	for i := range want {
		want[i] *= time.Second
	}
	if diff := cmp.Diff(want, lengths); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
	if left := time.Until(r["demo"].until); left < 50*time.Second || left > maxRest {
		t.Errorf("rests for %s more", left)
	}
	r.note("demo", false)
	if len(r) != 0 {
		t.Errorf("after a run that worked: %v", r)
	}
}

// A daemon tells of the runs of the one before it, so that who watches one sees its end.
func TestRunsOfTheDaemonBeforeAreTold(t *testing.T) {
	t.Parallel()
	state := openState(t)
	begun := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	put := func(cluster string, states ...string) store.Run {
		t.Helper()
		r, _, err := state.BeginRun(store.Run{ID: "run-" + cluster, Cluster: cluster, Started: begun, Daemon: cluster != "single", Until: "ready", Nodes: []string{cluster + "/a", cluster + "/b"}})
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range states {
			n := store.Node{Cluster: cluster, Name: string(rune('a' + i)), Run: r.ID, State: s, Since: begun.Add(time.Minute)}
			if err := state.Record(n, store.Event{Cluster: cluster, Node: n.Name, State: s}); err != nil {
				t.Fatal(err)
			}
		}
		return r
	}
	put("going", "Booting", "Failed")
	put("stopped", "Booting", "Ready")
	if err := state.StopRun("stopped", "", "run-stopped"); err != nil {
		t.Fatal(err)
	}
	put("single", "Booting")
	if err := state.FinishRun(put("done", "Ready", "Held"), begun.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	runs, err := newDaemon(t, &fakeHost{state: state}).Runs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	type told struct {
		Finished, Stopped      bool
		Done, Failed, Held, On int
	}
	got := map[string]told{}
	for _, r := range runs {
		one := told{Finished: !r.Finished.IsZero(), Stopped: r.Stopped}
		if s := r.Summary; s != nil {
			one.Done, one.Failed, one.Held, one.On = len(s.Done), len(s.Failed), len(s.Held), len(s.Unfinished)
		}
		if r.Until != "ready" || r.Nodes != 2 || !r.Started.Equal(begun) {
			t.Errorf("the run is told as %+v", r)
		}
		got[r.ID] = one
	}
	want := map[string]told{
		"run-going":   {},
		"run-stopped": {Finished: true, Stopped: true, On: 2},
		"run-done":    {Finished: true, Done: 1, Held: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}

// A run that a person asked for and that cannot begin ends with the reason, and is not
// begun again by itself.
func TestARunThatCannotBeginIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	host := &fakeHost{state: openState(t), prepare: func(context.Context, int64) error { return errors.New("the factory is away") }}
	d := newDaemon(t, host)
	start(t, d, generation("1", node("a", true)))
	noted(t, d)
	answer, err := d.Plan(t.Context(), web.RunRequest{Cluster: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	begun, err := d.Start(t.Context(), web.RunRequest{Cluster: "demo", Digest: answer.Digest})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "its end", func() bool { return !d.busy("demo") })
	d.Apply(generation("2", node("a", true), node("b", false)))
	until(t, "a look after it", func() bool { return marks(t, host.state)["demo/b"] == markOff })
	runs, err := d.Runs(t.Context())
	if err != nil || len(runs) != 1 || runs[0].ID != begun.ID || runs[0].Error != "the factory is away" || runs[0].Finished.IsZero() {
		t.Errorf("runs: %+v, %v; want %s with its error", runs, err, begun.ID)
	}
	if n := host.prepared.Load(); n != 1 {
		t.Errorf("begun %d times, want once", n)
	}
	if _, found, err := host.state.UnfinishedRun("demo", ""); found || err != nil {
		t.Errorf("the state has the run: %t, %v", found, err)
	}
}

// What asks for nothing that can be meant is refused with the reason.
func TestARequestThatCannotBeMeantIsRefused(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, &fakeHost{state: openState(t)})
	if _, err := d.Plan(t.Context(), web.RunRequest{Cluster: "demo"}); !errors.Is(err, web.ErrUnavailable) {
		t.Errorf("a plan before the daemon leads: %v", err)
	}
	start(t, d, generation("1", node("a", true)))
	for _, r := range []web.RunRequest{
		{Cluster: "other"}, {Cluster: "demo", Nodes: "b"}, {Cluster: "demo", Until: "done"}, {Cluster: "demo", MaxFailures: "-1"},
		{Cluster: "demo", Selector: "=="}, {Cluster: "demo", Reinstall: "b"}, {Cluster: "demo", Exclude: "a["},
	} {
		if _, err := d.Plan(t.Context(), r); !errors.Is(err, web.ErrInvalid) {
			t.Errorf("%+v is answered by %v, want that it is invalid", r, err)
		}
	}
	for _, err := range []error{
		d.Stop(t.Context(), "demo"), d.Release(t.Context(), "demo", "a"), d.Hold(t.Context(), store.Hold{Cluster: "demo", Node: "b"}),
	} {
		if !errors.Is(err, web.ErrNotFound) {
			t.Errorf("what is not there is answered by %v", err)
		}
	}
}
