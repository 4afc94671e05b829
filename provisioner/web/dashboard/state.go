package dashboard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/upgrade"
)

// noState is what a node is called that no run has worked on.
const noState = "New"

// group is what states have in common for a person: is it well, does it need me?
type group struct {
	Key  string // of addresses and styles
	Name string
	Mark string // shown beside the word, for those who do not see the colour
}

var (
	groupFailed = group{"failed", "failed", "✕"}
	groupHeld   = group{"held", "held", "‖"}
	groupBusy   = group{"busy", "in progress", "◐"}
	groupUp     = group{"up", "in maintenance", "◆"}
	groupDone   = group{"done", "installed", "●"}
	groupNew    = group{"new", "not run yet", "○"}
)

// groups in the order in which bars and legends show them: what needs a person first.
var groups = []group{groupFailed, groupHeld, groupBusy, groupUp, groupDone, groupNew}

// grouped are the states by group; every other one is in progress.
var grouped = map[string]group{
	string(provisioner.Failed):      groupFailed, // as upgrades call it too
	string(provisioner.Held):        groupHeld,
	string(provisioner.Maintenance): groupUp,
	string(provisioner.Installed):   groupDone, string(provisioner.Ready): groupDone, string(upgrade.Upgraded): groupDone,
	noState: groupNew,
}

func groupOf(state string) group {
	if g, known := grouped[state]; known {
		return g
	}
	return groupBusy
}

// share is a part of a bar: so many nodes of a group.
type share struct {
	group
	Count int
	// X and Width are in thousandths of the bar.
	X, Width int
}

// bar is how many nodes are in each group.
type bar struct {
	Total  int
	Shares []share // those that there are
}

// barOf counts states.
func barOf(counts map[string]int) bar {
	perGroup := map[string]int{}
	b := bar{}
	for state, n := range counts {
		perGroup[groupOf(state).Key] += n
		b.Total += n
	}
	before := 0
	for _, g := range groups {
		n := perGroup[g.Key]
		if n == 0 {
			continue
		}
		x := before * 1000 / b.Total
		before += n
		b.Shares = append(b.Shares, share{group: g, Count: n, X: x, Width: before*1000/b.Total - x})
	}
	return b
}

// barOfNodes counts nodes.
func barOfNodes(nodes []nodeRow) bar {
	counts := map[string]int{}
	for _, n := range nodes {
		counts[n.State()]++
	}
	return barOf(counts)
}

// Text is the bar in words.
func (b bar) Text() string {
	parts := make([]string, 0, len(b.Shares))
	for _, s := range b.Shares {
		parts = append(parts, fmt.Sprintf("%s %s", number(s.Count), s.Name))
	}
	return strings.Join(parts, ", ")
}

// stateCount is a state and how many nodes are in it.
type stateCount struct {
	State string
	Count int
}

// stateCounts are the states of nodes, the most frequent first.
func stateCounts(nodes []nodeRow) []stateCount {
	counts := map[string]int{}
	for _, n := range nodes {
		counts[n.State()]++
	}
	list := make([]stateCount, 0, len(counts))
	for s, n := range counts {
		list = append(list, stateCount{s, n})
	}
	slices.SortFunc(list, func(a, b stateCount) int {
		if a.Count != b.Count {
			return b.Count - a.Count
		}
		return strings.Compare(a.State, b.State)
	})
	return list
}
