package upgrade

import (
	"cmp"
	"slices"
)

// Turn is what the order of a run depends on, of one node.
type Turn struct {
	Node         string
	ControlPlane bool
	// Leader: its etcd member leads.
	Leader bool
	// ServesAPI: our way to the Kubernetes API leads to it.
	ServesAPI bool
	// Chassis is what it shares with others that must not be away with it.
	Chassis string
	// Label is what the user orders by.
	Label string
}

// Order puts nodes into batches; those of one batch may be away together.
// Canaries go first, each alone, in the order given. Then the workers: no batch
// is larger than maxUnavailable, has two of one chassis, or mixes labels. Then the
// control planes, one at a time, the one that serves our Kubernetes API late, so
// that its absence is met with the least left to do, and the etcd leader last, so
// that the leadership moves as seldom as possible.
func Order(turns []Turn, canaries []string, maxUnavailable int) [][]string {
	rank := func(t Turn) int {
		switch i := slices.Index(canaries, t.Node); {
		case i >= 0:
			return i - len(canaries)
		case !t.ControlPlane:
			return 0
		case t.Leader:
			return 3
		case t.ServesAPI:
			return 2
		}
		return 1
	}
	sorted := slices.SortedFunc(slices.Values(turns), func(a, b Turn) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Label, b.Label), cmp.Compare(a.Node, b.Node))
	})
	var batches [][]string
	var workers []Turn // what is left of the workers of the label that is dealt with
	flush := func() {
		for len(workers) > 0 {
			var batch []string
			batch, workers = deal(workers, max(maxUnavailable, 1))
			batches = append(batches, batch)
		}
	}
	for _, t := range sorted {
		if rank(t) != 0 {
			flush()
			batches = append(batches, []string{t.Node})
			continue
		}
		if len(workers) > 0 && workers[0].Label != t.Label {
			flush()
		}
		workers = append(workers, t)
	}
	flush()
	return batches
}

// deal takes the next batch off the workers that are left.
func deal(left []Turn, size int) (batch []string, rest []Turn) {
	chassis := map[string]bool{}
	for _, t := range left {
		if len(batch) == size || t.Chassis != "" && chassis[t.Chassis] {
			rest = append(rest, t)
			continue
		}
		chassis[t.Chassis] = true
		batch = append(batch, t.Node)
	}
	return batch, rest
}
