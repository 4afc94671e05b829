package identity

import "slices"

// Trait is one value by which a candidate can be recognised.
type Trait struct {
	Key   Key    `json:"key"`
	Value string `json:"value"`
	// Shared are the other candidates that claim the value, sorted. A shared
	// value identifies none of them.
	Shared []string `json:"sharedWith,omitempty"`
}

// Traits lists what is known of the i-th candidate that the index was made of,
// strongest key first, with who else claims it.
func (x *Index) Traits(i int) []Trait {
	if i < 0 || i >= len(x.candidates) {
		return nil
	}
	c := x.candidates[i]
	traits := make([]Trait, 0, len(c.claims))
	for _, claim := range c.claims {
		t := Trait{Key: claim.rank.key(), Value: claim.text}
		var others []int32
		for _, o := range x.owners[claim.token] {
			if int(o.candidate) != i {
				others = append(others, o.candidate)
			}
		}
		if len(others) > 0 {
			t.Shared = x.names(others)
		}
		traits = append(traits, t)
	}
	slices.SortStableFunc(traits, func(a, b Trait) int {
		return slices.Index(keys[:], a.Key) - slices.Index(keys[:], b.Key)
	})
	return traits
}
