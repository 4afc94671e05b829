package board

import (
	"fmt"
	"testing"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
)

// many is a model of so many nodes that are at work.
func many(nodes int) *model {
	m := newModel(Options{Now: func() time.Time { return noon }})
	m.keys = true
	for i := range nodes {
		m.fleet.Set(Node{Cluster: "demo", Name: fmt.Sprintf("node-%05d", i+1), State: "Booting", Since: noon.Add(-time.Duration(i) * time.Second), Message: "powered on"})
	}
	m.view(noon)
	return m
}

func TestKeysMoveTheChoiceAndTheListFollows(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		keys        []string
		chosen, top int
	}{
		{nil, 0, 0},
		{[]string{"down", "j"}, 2, 0},
		{[]string{"up"}, 0, 0},
		{[]string{"pgdown"}, 20, 1},
		{[]string{"pgdown", "pgdown", "k"}, 39, 21},
		{[]string{"end"}, 199, 180},
		{[]string{"G", "down", "pgdown"}, 199, 180},
		{[]string{"end", "pgup"}, 179, 179},
		{[]string{"end", "home"}, 0, 0},
		{[]string{"end", "g"}, 0, 0},
	} {
		t.Run(fmt.Sprint(tc.keys), func(t *testing.T) {
			t.Parallel()
			m := many(200) // 20 lines of 24 are for the list
			for _, k := range tc.keys {
				press(m, k)
				m.view(noon)
			}
			if m.chosen != tc.chosen || m.top != tc.top {
				t.Errorf("line %d is chosen and %d the first, want %d and %d", m.chosen, m.top, tc.chosen, tc.top)
			}
		})
	}
}

// Who looks at a node goes on looking at it, however the others move.
func TestTheChosenNodeStaysChosenWhenTheOrderChanges(t *testing.T) {
	t.Parallel()
	m := many(50)
	press(m, "down", "down")
	chosen := m.node().Name
	press(m, "s", "s") // the longest in its state first
	m.view(noon)
	if got := m.node().Name; got != chosen || m.chosen != 47 {
		t.Errorf("%s in line %d is chosen, want %s in line 47", got, m.chosen, chosen)
	}
	press(m, "/", "n", "o", "n", "e")
	m.view(noon)
	press(m, "enter", "enter") // nothing to open
	if m.pane != paneNone || m.node() != nil {
		t.Errorf("an empty list has the node %v", m.node())
	}
	press(m, "esc")
	m.view(noon)
	if m.node() == nil || m.filter != "" {
		t.Error("the list stays empty without the filter")
	}
}

func TestTheFilterLooksAtNameStateCauseAndText(t *testing.T) {
	t.Parallel()
	for filter, want := range map[string]int{"": 12, "node-1": 3, "FAILED": 1, "dhcp seen": 1, "already": 1, "firmware": 1, "node booting": 1, "prod": 0, "would be": 7} {
		m := twelve()
		m.setFilter(filter)
		m.view(noon)
		if m.shown != want {
			t.Errorf("%d nodes match %q, want %d", m.shown, filter, want)
		}
	}
	m := twelve()
	press(m, "/", "a", " ", "b", "c", "backspace")
	if m.filter != "a b" {
		t.Errorf("the filter is %q, want %q", m.filter, "a b")
	}
	press(m, "ctrl+w")
	if m.filter != "a " {
		t.Errorf("the filter is %q without its last word", m.filter)
	}
	m.typed("\x1b[31mred\x07")
	if m.filter != "a [31mred" {
		t.Errorf("what was pasted is %q", m.filter)
	}
}

func TestAPaneIsScrolledToItsEndAndClosed(t *testing.T) {
	t.Parallel()
	m := twelve()
	m.resize(60, 8)
	m.view(noon)
	press(m, "end", "enter")
	for range 100 {
		press(m, "down")
	}
	m.view(noon)
	if m.paneTop == 0 || m.paneTop > 30 {
		t.Errorf("the pane is scrolled to line %d", m.paneTop)
	}
	top := m.paneTop
	press(m, "up")
	if m.paneTop != top-1 {
		t.Errorf("a line up from %d is %d", top, m.paneTop)
	}
	for _, closing := range []string{"esc", "q", "enter"} {
		if w := press(m, closing); w != wishNothing || m.pane != paneNone {
			t.Errorf("%s leaves the pane %v and wishes %v", closing, m.pane, w)
		}
		press(m, "?")
	}
}

func TestAnEventChangesWhatIsKnownOfItsNode(t *testing.T) {
	t.Parallel()
	f := NewFleet([]Node{{Cluster: "demo", Name: "a", State: "Pending", Goal: "Maintenance"}, {Cluster: "demo", Name: "b", State: "Pending"}})
	event := func(second int, run, state, previous string) {
		f.Apply(store.Event{Time: noon.Add(time.Duration(second) * time.Second), Run: run, Cluster: "demo", Node: "a", State: state, Previous: previous})
	}
	event(0, "r1", "Armed", "Identified")
	event(1, "r1", "PowerCycled", "Armed")
	event(2, "r1", "PowerCycled", "PowerCycled") // a word in between
	event(3, "r1", "Pending", "PowerCycled")
	event(9, "r1", "PowerCycled", "Armed")
	a := f.byID["demo/a"]
	if a.Attempts != 2 || !a.Since.Equal(noon.Add(9*time.Second)) || len(a.events) != 5 {
		t.Errorf("after two power cycles: %+v", a)
	}
	event(20, "r2", "PowerCycled", "Armed")
	if a.Attempts != 1 {
		t.Errorf("%d attempts of a new run, want 1", a.Attempts)
	}
	if got, want := f.Sentence(noon.Add(80*time.Second)), "1 Pending, 1 PowerCycled; longest: a PowerCycled for 1m00s"; got != want {
		t.Errorf("the sentence is %q, want %q", got, want)
	}
	event(21, "r2", "Maintenance", "Booting")
	if !a.done() {
		t.Error("the node is at its goal, and is not done")
	}
	if n, found := f.Longest(); found {
		t.Errorf("%+v is the longest, and nothing is known of since when anything is", n)
	}
	for i := range 3 * keptEvents {
		event(30+i, "r2", "Maintenance", "Maintenance")
	}
	if len(a.events) != keptEvents {
		t.Errorf("%d events are kept, want %d", len(a.events), keptEvents)
	}
	progress := func(bytes int64) {
		f.Apply(store.Event{Run: "r2", Cluster: "demo", Node: "c", State: "Booting", Progress: &store.Progress{File: "kernel", Bytes: bytes, Total: 10}})
	}
	progress(1)
	progress(5)
	if c := f.byID["demo/c"]; len(c.events) != 1 || c.progress.Bytes != 5 || f.Len() != 3 {
		t.Errorf("a download is %+v", c)
	}
}
