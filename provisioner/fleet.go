package provisioner

import (
	"reflect"
	"sync"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
)

// Fleet knows every node of the inventory, of all clusters, by the inventory's
// facts and by what BMCs reported, and tells which node a machine is. It is safe
// for concurrent use.
type Fleet struct {
	mu         sync.Mutex
	candidates []identity.Candidate
	position   map[string]int // key of a node -> index into candidates
	learned    map[string]identity.Facts
	bmcs       map[string]string // the BMC's address of each node
	localBoots map[string]string // of nodes whose firmware needs a way of its own to its disk
	index      *identity.Index   // nil after a change
}

// NewFleet makes the fleet of an inventory, known by its files alone.
func NewFleet(nodes []inventory.Node) *Fleet {
	f := &Fleet{}
	f.Replace(nodes)
	return f
}

// Replace puts another inventory in the place of the present one. What the BMC of
// a node reported stays known while the node has the same BMC.
func (f *Fleet) Replace(nodes []inventory.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	learned, bmcs, before := f.learned, f.bmcs, f.candidates
	f.candidates = make([]identity.Candidate, 0, len(nodes))
	f.position = make(map[string]int, len(nodes))
	f.learned = make(map[string]identity.Facts, len(nodes))
	f.bmcs = make(map[string]string, len(nodes))
	f.localBoots = map[string]string{}
	for _, n := range nodes {
		id := n.ID()
		facts := []identity.Facts{n.Facts()}
		if reported, known := learned[id]; known && bmcs[id] == n.BMC.Address {
			facts = append(facts, reported)
			f.learned[id] = reported
		}
		f.position[id], f.bmcs[id] = len(f.candidates), n.BMC.Address
		f.candidates = append(f.candidates, identity.Candidate{Name: id, Facts: facts})
		if n.LocalBoot != "" {
			f.localBoots[id] = n.LocalBoot
		}
	}
	if !reflect.DeepEqual(before, f.candidates) { // a run that ends puts the same nodes back, and the index is dear
		f.index = nil
	}
}

// localBoot is the node's own way to its disk, "" for the usual one.
func (f *Fleet) localBoot(id string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.localBoots[id]
}

// Learn adds what the node's BMC reported to what is known of the node.
func (f *Fleet) Learn(id string, reported identity.Facts) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, known := f.position[id]
	if !known {
		return
	}
	if known, ok := f.learned[id]; ok && reflect.DeepEqual(known, reported) {
		return // the index is dear with thousands of nodes
	}
	inventoryFacts := f.candidates[i].Facts[0]
	f.candidates[i].Facts = []identity.Facts{inventoryFacts, reported}
	f.learned[id] = reported
	f.index = nil
}

// reported returns what the node's BMC reported; nothing when it was not asked yet.
func (f *Fleet) reported(id string) identity.Facts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.learned[id]
}

// Match tells which node a machine with these facts is.
func (f *Fleet) Match(observed identity.Facts) identity.Verdict {
	return f.indexed().Match(observed)
}

// indexed is the index of what is known now.
func (f *Fleet) indexed() *identity.Index {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.index == nil {
		f.index = identity.NewIndex(f.candidates)
	}
	return f.index
}

// isNode says whether a machine with these facts is that node and no other.
func (f *Fleet) isNode(n inventory.Node, observed identity.Facts) bool {
	verdict := f.Match(observed)
	return verdict.Outcome == identity.Match && verdict.Name == n.ID()
}

// Verify checks that the machine behind a node's BMC is that node and nobody
// else (I1): it must match exactly this node over the whole fleet, and must
// not contradict what the inventory itself says of the node.
func (f *Fleet) Verify(n inventory.Node, reported identity.Facts) (identity.Verdict, *Failure) {
	// Where the inventory gives a serial, the BMC must confirm it; a UUID or a MAC that
	// the BMC does not report (many list no network cards) is only no contradiction.
	key, agrees, reason := identity.Compare([]identity.Facts{n.Facts()}, reported)
	if !agrees && (key != "" || n.Serial != "" || n.BoardSerial != "") {
		return identity.Verdict{}, held(CauseIdentity, "the BMC at %s is not %s's: %s", n.BMC.Address, n.Name, reason)
	}
	verdict := f.Match(reported)
	switch {
	case verdict.Outcome == identity.Match && verdict.Name == n.ID():
		return verdict, nil
	case verdict.Outcome == identity.Match:
		return verdict, held(CauseIdentity, "the BMC at %s belongs to %s, not to %s: %s", n.BMC.Address, verdict.Name, n.Name, verdict.Reason)
	case verdict.Outcome == identity.Conflict:
		return verdict, held(CauseIdentity, "%s cannot be told from others: %s", n.Name, verdict.Reason)
	default:
		return verdict, held(CauseIdentity, "the BMC at %s reports nothing that identifies its machine (no usable serial, UUID or MAC)", n.BMC.Address)
	}
}
