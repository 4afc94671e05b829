package inventory

import (
	"fmt"

	"github.com/talos-provision/provision/inventory/identity"
)

// Certainty tells whether a machine will be recognised as a node.
type Certainty string

// The certainties.
const (
	// Unique: the inventory alone tells the node from every other.
	Unique Certainty = "unique"
	// FromBMC: the inventory alone does not, but the node's BMC is asked.
	FromBMC Certainty = "bmc"
	// Ambiguous: nothing that is known tells the node from others.
	Ambiguous Certainty = "ambiguous"
	// Unknown: nothing is known of the machine, and there is no BMC to ask.
	Unknown Certainty = "unknown"
)

// Recognition is by what the machine of a node will be recognised.
type Recognition struct {
	Certainty Certainty    `json:"certainty"`
	Key       identity.Key `json:"key,omitempty"` // that decides; empty unless unique
	Value     string       `json:"value,omitempty"`
	// Reason is a sentence for the cases that are not unique.
	Reason string           `json:"reason,omitempty"`
	Traits []identity.Trait `json:"traits"` // everything known, strongest first
}

// Recognitions tells for each node of the tree, in order, by what it will be
// recognised among all of them.
func (t *Tree) Recognitions() []Recognition {
	candidates := make([]identity.Candidate, 0, len(t.Nodes))
	for _, n := range t.Nodes {
		candidates = append(candidates, identity.Candidate{Name: n.ID(), Facts: []identity.Facts{n.Facts()}})
	}
	index := identity.NewIndex(candidates)
	recognitions := make([]Recognition, 0, len(t.Nodes))
	for i, n := range t.Nodes {
		recognitions = append(recognitions, recognize(n, index.Traits(i), index.Match(n.Facts())))
	}
	return recognitions
}

// recognize judges by what would happen to a machine that shows exactly what the
// inventory says of the node.
func recognize(n Node, traits []identity.Trait, verdict identity.Verdict) Recognition {
	r := Recognition{Traits: traits}
	switch {
	case verdict.Outcome == identity.Match && verdict.Name == n.ID():
		r.Certainty = Unique
		for _, t := range traits {
			if len(t.Shared) == 0 {
				r.Key, r.Value = t.Key, t.Value
				break
			}
		}
	case n.BMC.Address != "" && len(traits) == 0:
		r.Certainty, r.Reason = FromBMC, fmt.Sprintf("BMC %s is asked for serials, UUID and MACs", n.BMC.Address)
	case n.BMC.Address != "":
		r.Certainty, r.Reason = FromBMC, fmt.Sprintf("%s, but BMC %s is asked for more", sharedTraits(traits), n.BMC.Address)
	case len(traits) == 0:
		r.Certainty, r.Reason = Unknown, "give it a bmc.address, serial, boardSerial, uuid or mac"
	default:
		r.Certainty, r.Reason = Ambiguous, verdict.Reason
	}
	return r
}

// sharedTraits says what the inventory has that others have too.
func sharedTraits(traits []identity.Trait) string {
	for _, t := range traits {
		if len(t.Shared) > 0 {
			return fmt.Sprintf("%s %s is also that of %s", t.Key, t.Value, some(t.Shared))
		}
	}
	return "the inventory contradicts itself"
}
