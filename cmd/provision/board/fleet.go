package board

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
)

// Node is one node as far as a display needs to know it.
type Node struct {
	Cluster, Name string
	State         string
	// Goal is the state that ends the node's part of a run; "" when it is not known.
	Goal string
	// Since is when State was entered; zero when that is not known.
	Since time.Time
	// Attempts counts the power cycles of the run.
	Attempts                    int
	Message, Error, Hint, Cause string
	Facts                       []Fact
}

// Fact is something that is known of a node's machine, such as its vendor.
type Fact struct{ Label, Value string }

// ID is cluster/name.
func (n Node) ID() string { return n.Cluster + "/" + n.Name }

// The states that end a node's part of a run whatever its goal is.
const (
	stateFailed   = "Failed"
	stateHeld     = "Held"
	stateReady    = "Ready"
	stateUpgraded = "Upgraded"
	statePending  = "Pending"
	stateCycled   = "PowerCycled"
)

// life is the order of the states of a node, the ones to look at first: of its
// installation, and of an upgrade.
func life() []string {
	return []string{
		stateFailed, stateHeld, statePending, "Identified", "Armed", stateCycled, "Booting", "Maintenance", "Configured", "Installed",
		"Gated", "Cordoned", "Drained", "Upgrading", "Rebooting", "Verifying", "Uncordoned", stateReady, stateUpgraded,
	}
}

func rank(state string) int { return slices.Index(life(), state) }

// done says whether the node is where the run takes it.
func (n Node) done() bool {
	if n.State == stateFailed || n.State == stateHeld {
		return false
	}
	return n.State == stateReady || n.State == stateUpgraded || n.Goal != "" && rank(n.State) >= rank(n.Goal)
}

// underway says whether anything is still to happen to the node.
func (n Node) underway() bool {
	return n.State != stateFailed && n.State != stateHeld && !n.done()
}

// keptEvents is how many events of a node are kept to be shown, the newest.
const keptEvents = 40

// row is a node and what happened to it.
type row struct {
	Node
	run      string
	progress *store.Progress
	events   []store.Event
	found    []Fact // looked up
	matches  string // what a filter looks at
}

// Fleet is what is known of the nodes of a run. It is not safe for concurrent use.
type Fleet struct {
	rows    []*row
	byID    map[string]*row
	version uint64 // grows with every change
}

// NewFleet makes a fleet of the nodes that a run works on.
func NewFleet(nodes []Node) *Fleet {
	f := &Fleet{byID: make(map[string]*row, len(nodes))}
	for _, n := range nodes {
		f.Set(n)
	}
	return f
}

// Recall takes note of an event from before, which led to what the node is now.
func (f *Fleet) Recall(e store.Event) {
	r := f.row(e.Cluster, e.Node)
	r.run = e.Run
	r.progress = nil
	if e.State == r.State {
		r.progress = e.Progress
	}
	r.note(e)
	f.changed(r)
}

// Set puts a node as it is now in the place of what was known of it. Its events are kept.
func (f *Fleet) Set(n Node) {
	r := f.row(n.Cluster, n.Name)
	r.Node = n
	f.changed(r)
}

// Apply takes note of an event. A node that was not known before is added.
func (f *Fleet) Apply(e store.Event) {
	r := f.row(e.Cluster, e.Node)
	if e.Run != r.run && r.run != "" {
		r.Attempts = 0 // they are counted for each run
	}
	r.run = e.Run
	if e.State != r.State || e.Previous != e.State || r.Since.IsZero() {
		r.Since = e.Time
	}
	if e.State == stateCycled && e.Previous != stateCycled {
		r.Attempts++
	}
	r.State, r.Message, r.Error, r.Hint, r.Cause, r.progress = e.State, e.Message, e.Error, e.Hint, e.Cause, e.Progress
	r.note(e)
	f.changed(r)
}

// note keeps an event. Of a download the newest is enough.
func (r *row) note(e store.Event) {
	if n := len(r.events); n > 0 && e.Progress != nil {
		if last := r.events[n-1].Progress; last != nil && last.File == e.Progress.File {
			r.events[n-1] = e
			return
		}
	}
	if len(r.events) == keptEvents {
		r.events = slices.Delete(r.events, 0, 1)
	}
	r.events = append(r.events, e)
}

func (f *Fleet) row(cluster, name string) *row {
	id := cluster + "/" + name
	r := f.byID[id]
	if r == nil {
		r = &row{Node: Node{Cluster: cluster, Name: name}}
		f.byID[id] = r
		f.rows = append(f.rows, r)
	}
	return r
}

func (f *Fleet) changed(r *row) {
	f.version++
	r.matches = strings.ToLower(strings.Join([]string{r.Cluster, r.Name, r.State, r.Cause, r.Message, r.Error}, "\n"))
}

// Knows says whether a node is part of the fleet.
func (f *Fleet) Knows(cluster, name string) bool { return f.byID[cluster+"/"+name] != nil }

// Len is how many nodes there are.
func (f *Fleet) Len() int { return len(f.rows) }

// Count is how many nodes are in a state.
type Count struct {
	State string
	Nodes int
}

// Counts are the states that nodes are in: failed ones first, then in the order of a node's life.
func (f *Fleet) Counts() []Count {
	nodes := map[string]int{}
	for _, r := range f.rows {
		nodes[r.State]++
	}
	counts := make([]Count, 0, len(nodes))
	for state, n := range nodes {
		counts = append(counts, Count{state, n})
	}
	slices.SortFunc(counts, func(a, b Count) int {
		return cmp.Or(cmp.Compare(rank(a.State), rank(b.State)), cmp.Compare(a.State, b.State))
	})
	return counts
}

// Longest is the node that has been in its state for the longest time, among those
// to which something is still to happen; false when there is none.
func (f *Fleet) Longest() (Node, bool) {
	var found *row
	for _, r := range f.rows {
		if r.underway() && !r.Since.IsZero() && (found == nil || r.Since.Before(found.Since)) {
			found = r
		}
	}
	if found == nil {
		return Node{}, false
	}
	return found.Node, true
}

// Sentence is the fleet in one line, such as "1 Failed, 3 Booting, 8 Maintenance;
// longest: node-07 Booting for 2m31s".
func (f *Fleet) Sentence(now time.Time) string {
	counts := f.Counts()
	words := make([]string, 0, len(counts))
	for _, c := range counts {
		words = append(words, fmt.Sprintf("%d %s", c.Nodes, c.State))
	}
	text := strings.Join(words, ", ")
	if n, found := f.Longest(); found {
		text += fmt.Sprintf("; longest: %s %s for %s", Clean(n.Name), n.State, Span(now.Sub(n.Since)))
	}
	return text
}
