package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/store"
)

// reopen closes a state and opens it to be read.
func reopen(t *testing.T, s *store.Store, location string) *store.Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return connect(t, location, store.Options{ReadOnly: true})
}

func TestRecordedNodesAndEventsAreThereAfterReopening(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		s := connect(t, location, store.Options{})
		node := store.Node{Cluster: "a", Name: "node-01", Run: "r1", State: "Armed", Step: "off", Attempts: 2, LastPowerOn: at(1)}
		event := store.Event{Time: at(2), Run: "r1", Cluster: "a", Node: "node-01", State: "Armed", Previous: "Identified", Message: "is off"}
		other := store.Node{Cluster: "ab", Name: "node-01", State: "Held"}
		for _, n := range []store.Node{other, {Cluster: "a", Name: "node-01", State: "Pending"}, node} {
			if err := s.Record(n, event); err != nil {
				t.Fatal(err)
			}
		}
		s = reopen(t, s, location)
		got, found, err := s.Node("a", "node-01")
		if diff := cmp.Diff(node, got); diff != "" || err != nil || !found {
			t.Errorf("found %v, error %v, %s", found, err, diff)
		}
		if _, found, err := s.Node("a", "node-02"); found || err != nil {
			t.Errorf("a node that was never recorded: found %v, error %v", found, err)
		}
		for cluster, want := range map[string][]store.Node{"": {node, other}, "a": {node}, "ab": {other}, "b": {}} {
			if nodes, err := s.Nodes(cluster); err != nil || !cmp.Equal(want, nodes) {
				t.Errorf("nodes of %q, error %v: %s", cluster, err, cmp.Diff(want, nodes))
			}
		}
		var events []store.Event
		if err := s.Events(func(e store.Event) bool { events = append(events, e); return true }); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]store.Event{event, event, event}, events); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAnUnfinishedRunIsCarriedOnAndAFinishedOneIsNot(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		s := connect(t, location, store.Options{})
		if _, found, err := s.UnfinishedRun("a", ""); found || err != nil {
			t.Errorf("before any run: found %v, error %v", found, err)
		}
		for i, step := range []struct {
			id, want        string
			nodes           []string
			resumed, finish bool
		}{
			{id: "r1", want: "r1", nodes: []string{"a/r1"}},
			{id: "r2", want: "r1", nodes: []string{"a/r1", "a/r2"}, resumed: true, finish: true},
			{id: "r3", want: "r3", nodes: []string{"a/r3"}},
		} {
			asked := store.Run{ID: step.id, Cluster: "a", Started: at(i), Daemon: true, Until: "ready", Nodes: []string{"a/" + step.id}}
			run, resumed, err := s.BeginRun(asked)
			if err != nil || run.ID != step.want || resumed != step.resumed || !cmp.Equal(step.nodes, run.Nodes) {
				t.Fatalf("begin %s: %+v, resumed %v, error %v; want %s, %v", step.id, run, resumed, err, step.want, step.resumed)
			}
			if resumed && !run.Started.Equal(at(0)) {
				t.Errorf("carried on since %v, want the time of its beginning", run.Started)
			}
			if got, found, err := s.UnfinishedRun("a", ""); err != nil || !found || !cmp.Equal(run, got) {
				t.Errorf("unfinished after %s: found %v, error %v, %s", step.id, found, err, cmp.Diff(run, got))
			}
			if _, found, err := s.UnfinishedRun("a", "east"); err != nil || found {
				t.Errorf("in another site: found %v, error %v", found, err)
			}
			if !step.finish {
				continue
			}
			if err := s.FinishRun(run, at(9)); err != nil {
				t.Fatal(err)
			}
			if got, found, err := s.UnfinishedRun("a", ""); err != nil || found {
				t.Errorf("after the end: %+v, found %v, error %v", got, found, err)
			}
		}
	})
}

func TestARunThatAPersonStoppedIsKnownAsStoppedUntilItIsCarriedOn(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		s := connect(t, location, store.Options{})
		asked := store.Run{ID: "r1", Cluster: "a", Site: "east", Daemon: true}
		other := store.Run{ID: "r9", Cluster: "a", Site: "west"}
		for _, r := range []store.Run{asked, other} {
			if _, _, err := s.BeginRun(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.StopRun("a", "east", "r0"); !errors.Is(err, store.ErrNoRun) {
			t.Errorf("another run is stopped: error %v", err)
		}
		if err := s.StopRun("a", "east", "r1"); err != nil {
			t.Fatal(err)
		}
		stopped := asked
		stopped.Stopped = true
		if got, err := s.Runs(); err != nil || !cmp.Equal([]store.Run{stopped, other}, got) {
			t.Errorf("error %v: %s", err, cmp.Diff([]store.Run{stopped, other}, got))
		}
		if run, resumed, err := s.BeginRun(store.Run{ID: "r2", Cluster: "a", Site: "east"}); err != nil || !resumed || run.ID != "r1" || run.Stopped {
			t.Errorf("carried on: %+v, resumed %v, error %v", run, resumed, err)
		}
	})
}

func TestMarksAreKeptUntilOthersAreSet(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		s := connect(t, location, store.Options{})
		want := map[string]string{"baseline": "g1"}
		for i := range 250 { // more than etcd takes at once
			want[fmt.Sprintf("a/n%03d", i)] = fmt.Sprint("d", i)
		}
		for _, marks := range []map[string]string{{"a/n000": "old"}, want} {
			if err := s.SetMarks(marks); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := s.Marks(); err != nil || !cmp.Equal(want, got) {
			t.Errorf("error %v: %s", err, cmp.Diff(want, got))
		}
	})
}

func TestAnUnknownMachineIsKeptOnceWithHowOftenItAsked(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		s := connect(t, location, store.Options{})
		first := store.Unknown{Seen: at(1), Source: "10.0.0.9", Facts: identity.Facts{Serial: "S1"}, Reason: "nobody"}
		again := first
		again.Seen = at(2)
		for _, m := range []store.Unknown{first, again} {
			if err := s.RecordUnknown(m); err != nil {
				t.Fatal(err)
			}
		}
		got, err := s.UnknownMachines()
		again.Times = 2
		if diff := cmp.Diff([]store.Unknown{again}, got); diff != "" || err != nil {
			t.Error(diff, err)
		}
	})
}

// Anybody in the boot network can make up serials: what is kept of them is bounded.
func TestMadeUpMachinesDoNotFillTheState(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		s := connect(t, location, store.Options{Timeout: time.Minute})
		const sent, most = 1100, 1000
		together(t, sent, 128, func(i int) error {
			return s.RecordUnknown(store.Unknown{Facts: identity.Facts{Serial: fmt.Sprint("S", i)}})
		})
		if got, err := s.UnknownMachines(); err != nil || len(got) != most {
			t.Errorf("%d machines are kept (%v), want %d", len(got), err, most)
		}
	})
}

// together does something n times, so many of it at once.
func together(t testing.TB, n, at int, do func(i int) error) {
	t.Helper()
	work := make(chan int)
	var workers sync.WaitGroup
	for range at {
		workers.Go(func() {
			for i := range work {
				if err := do(i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	workers.Wait()
}

// upgradeRecord has the fields of a record that the store itself reads.
type upgradeRecord struct {
	Cluster string    `json:"cluster"`
	Node    string    `json:"node"`
	Run     string    `json:"run"`
	Host    string    `json:"host"`
	State   string    `json:"state"`
	Since   time.Time `json:"since"`
	Message string    `json:"message"`
}

func TestUpgradesAreKept(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		s := connect(t, location, store.Options{})
		var run struct{ ID string }
		if found, err := s.UpgradeRun("a", &run); found || err != nil {
			t.Errorf("in a new state: found %v, error %v", found, err)
		}
		if err := s.UpgradeRecords("", func([]byte) error { t.Error("a record in a new state"); return nil }); err != nil {
			t.Error(err)
		}
		if err := s.SaveUpgradeRun("a", struct{ ID string }{"r1"}); err != nil {
			t.Fatal(err)
		}
		for _, r := range []upgradeRecord{{Cluster: "a", Node: "n1", State: "Gated"}, {Cluster: "ab", Node: "n1"}, {Cluster: "a", Node: "n1", State: "Upgraded"}, {Cluster: "a", Node: "n2"}} {
			if err := s.RecordUpgrade(r.Cluster, r.Node, r, store.Event{Cluster: r.Cluster, Node: r.Node, State: r.State}); err != nil {
				t.Fatal(err)
			}
		}
		s = reopen(t, s, location)
		if found, err := s.UpgradeRun("a", &run); !found || err != nil || run.ID != "r1" {
			t.Errorf("run %+v, found %v, error %v", run, found, err)
		}
		var got []string
		err := s.UpgradeRecords("a", func(raw []byte) error {
			var r upgradeRecord
			err := json.Unmarshal(raw, &r)
			got = append(got, r.Cluster+"/"+r.Node+" "+r.State)
			return err
		})
		if diff := cmp.Diff([]string{"a/n1 Upgraded", "a/n2 "}, got); diff != "" || err != nil {
			t.Errorf("records (-want +got):\n%s%v", diff, err)
		}
		var states []string
		if err := s.Events(func(e store.Event) bool { states = append(states, e.State); return true }); err != nil || !slices.Equal(states, []string{"Gated", "", "Upgraded", ""}) {
			t.Errorf("events %q, error %v; want one for each record", states, err)
		}
	})
}

// The status of a node is that of the run that changed it last, of whichever kind.
func TestStatusShowsWhatHappenedLast(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		s := connect(t, location, store.Options{})
		for _, n := range []store.Node{
			{Cluster: "a", Name: "n2", State: "Ready", Since: at(1), Attempts: 1},
			{Cluster: "a", Name: "n3", State: "Ready", Since: at(9)},
			{Cluster: "b", Name: "n1", State: "Ready", Since: at(1)},
		} {
			if err := s.Record(n, store.Event{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, node := range []string{"n1", "n2", "n3"} {
			r := upgradeRecord{Cluster: "a", Node: node, Run: "u1", Host: "10.0.0.1", State: "Rebooting", Since: at(5), Message: "waits"}
			if err := s.RecordUpgrade("a", node, r, store.Event{}); err != nil {
				t.Fatal(err)
			}
		}
		got, err := s.Status("a")
		want := []store.Node{
			{Cluster: "a", Name: "n1", Run: "u1", State: "Rebooting", Since: at(5), Message: "waits", Address: "10.0.0.1"},
			{Cluster: "a", Name: "n2", Run: "u1", State: "Rebooting", Since: at(5), Message: "waits", Address: "10.0.0.1", Attempts: 1},
			{Cluster: "a", Name: "n3", State: "Ready", Since: at(9)},
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("status, error %v (-want +got):\n%s", err, diff)
		}
		if all, err := s.Status(""); err != nil || len(all) != 4 {
			t.Errorf("%d nodes of all clusters, error %v; want 4", len(all), err)
		}
	})
}

// A power cycle for another reason than an installation counts too (I7).
func TestPoweredOnIsKeptForNodesThatAreKnown(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		s := connect(t, location, store.Options{})
		if err := s.Record(store.Node{Cluster: "a", Name: "n1", State: "Ready"}, store.Event{}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"n1", "n2"} {
			if err := s.PoweredOn("a", name, at(1)); err != nil {
				t.Fatal(err)
			}
		}
		if n, _, err := s.Node("a", "n1"); err != nil || !n.LastPowerOn.Equal(at(1)) || n.State != "Ready" {
			t.Errorf("n1: %+v, error %v", n, err)
		}
		if _, found, _ := s.Node("a", "n2"); found {
			t.Error("a record was made of a node that was never installed")
		}
	})
}

func TestHoldsAreSetReplacedAndTakenAway(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		s := connect(t, location, store.Options{})
		disk := store.Hold{Cluster: "a", Node: "n2", Reason: "disk is being replaced", By: "ops", Since: at(1)}
		fan := store.Hold{Cluster: "a", Node: "n1", Reason: "fan", By: "ops", Since: at(2)}
		for _, h := range []store.Hold{{Cluster: "a", Node: "n2", Reason: "unsure"}, disk, fan} {
			if err := s.SetHold(h); err != nil {
				t.Fatal(err)
			}
		}
		if got, held, err := s.Held("a", "n2"); err != nil || !held || !cmp.Equal(disk, got) {
			t.Errorf("held %v, error %v: %s", held, err, cmp.Diff(disk, got))
		}
		if got, err := s.Holds(); err != nil || !cmp.Equal([]store.Hold{fan, disk}, got) {
			t.Errorf("error %v: %s", err, cmp.Diff([]store.Hold{fan, disk}, got))
		}
		for i, want := range []bool{true, false} {
			if removed, err := s.RemoveHold("a", "n2"); err != nil || removed != want {
				t.Errorf("removal %d: %v, error %v; want %v", i, removed, err, want)
			}
		}
		if _, held, err := s.Held("a", "n2"); held || err != nil {
			t.Errorf("after its removal: held %v, error %v", held, err)
		}
	})
}

func TestLeasesAreOfTheLastHolderOfAnAddress(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		s := connect(t, location, store.Options{})
		ip := netip.MustParseAddr
		many := make([]store.Lease, 0, 300) // more than etcd takes at once
		for i := range 300 {
			many = append(many, store.Lease{Site: "east", IP: netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), MAC: fmt.Sprintf("02:00:00:00:%02x:%02x", i>>8, i&255), Expires: at(9)})
		}
		if err := s.SaveLeases(many); err != nil {
			t.Fatal(err)
		}
		last := store.Lease{Site: "", IP: ip("10.0.0.1"), MAC: "02:00:00:00:00:02", Expires: at(3)}
		bad := store.Lease{Site: "", IP: ip("10.0.0.3"), Bad: true, Expires: at(4)}
		second := store.Lease{Site: "", IP: ip("10.0.0.4"), MAC: "02:00:00:00:00:02", Expires: at(3)}
		err := s.SaveLeases([]store.Lease{
			{IP: ip("10.0.0.1"), MAC: "02:00:00:00:00:01", Expires: at(1)}, last,
			{IP: ip("10.0.0.2"), MAC: "02:00:00:00:00:03", Expires: at(1)}, {IP: ip("10.0.0.2")}, // ends
			bad, second,
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Leases()
		byIP := cmpopts.SortSlices(func(a, b store.Lease) bool { return a.IP.Less(b.IP) })
		if diff := cmp.Diff(append(many, last, bad, second), got, byIP, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" || err != nil {
			t.Errorf("error %v: %s", err, diff)
		}
	})
}

func TestEventsAreNumberedResumedAndPruned(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		s := connect(t, location, store.Options{Timeout: time.Minute})
		const count = 1203 // several pages
		together(t, count, 64, func(i int) error {
			return s.Record(store.Node{Cluster: "a", Name: fmt.Sprint("n", i)}, store.Event{Node: fmt.Sprint("n", i)})
		})
		seen := map[string]bool{}
		var numbers []uint64
		// A stream that breaks off every hundred events misses none and repeats none.
		for after, more := uint64(0), true; more; {
			more = false
			err := s.EventsAfter(after, func(seq uint64, e store.Event) bool {
				if seq <= after || seen[e.Node] {
					t.Fatalf("number %d after %d, node %s", seq, after, e.Node)
				}
				numbers, seen[e.Node], after, more = append(numbers, seq), true, seq, true
				return len(numbers)%100 != 0
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if len(seen) != count {
			t.Fatalf("%d events, want %d", len(seen), count)
		}
		if last, err := s.LastEvent(); err != nil || last != numbers[count-1] {
			t.Errorf("the newest event is %d, error %v; want %d", last, err, numbers[count-1])
		}
		if removed, err := s.PruneEvents(200); err != nil || removed != count-200 {
			t.Errorf("%d removed, error %v; want %d", removed, err, count-200)
		}
		var left []uint64
		if err := s.EventsAfter(0, func(seq uint64, _ store.Event) bool { left = append(left, seq); return true }); err != nil || !slices.Equal(left, numbers[count-200:]) {
			t.Errorf("%d events are left, error %v; want the newest 200", len(left), err)
		}
		if removed, err := s.PruneEvents(0); err != nil || removed != 200 {
			t.Errorf("%d removed, error %v; want all", removed, err)
		}
		if err := s.Record(store.Node{Cluster: "a", Name: "n1"}, store.Event{}); err != nil {
			t.Fatal(err)
		}
		if err := s.EventsAfter(0, func(seq uint64, _ store.Event) bool {
			if last := numbers[count-1]; seq <= last {
				t.Errorf("number %d is used again after %d", seq, last)
			}
			return true
		}); err != nil {
			t.Error(err)
		}
	})
}

// A visitor may use the store: it may be slow, and may write.
func TestAVisitorOfEventsMayWrite(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		s := connect(t, location, store.Options{})
		record := func() error { return s.Record(store.Node{Cluster: "a", Name: "n"}, store.Event{Cluster: "a"}) }
		if err := record(); err != nil {
			t.Fatal(err)
		}
		err := s.EventsAfter(0, func(seq uint64, _ store.Event) bool {
			if err := record(); err != nil {
				t.Error(err)
			}
			return seq < 3
		})
		if err != nil {
			t.Error(err)
		}
	})
}
