package identity

import (
	"cmp"
	"slices"
)

// Index answers which candidate a machine is. It is built once and safe for
// concurrent use.
type Index struct {
	candidates []candidate
	owners     map[string][]owner
}

// candidate is what is known of one node, normalised.
type candidate struct {
	name    string
	claims  []claim
	boards  []board
	uuids   []claim
	serials []claim // of system and board, but for those known to be the chassis'
}

// owner is a candidate that claims a token, as what it claims it.
type owner struct {
	candidate int32
	rank      rank
}

// NewIndex indexes the candidates. Names are expected to be unique; the order
// of the candidates and of their facts does not matter.
func NewIndex(candidates []Candidate) *Index {
	x := &Index{
		candidates: make([]candidate, 0, len(candidates)),
		owners:     make(map[string][]owner, len(candidates)),
	}
	for i, c := range candidates {
		k := know(c.Name, c.Facts)
		x.candidates = append(x.candidates, k)
		for _, claim := range k.claims {
			x.owners[claim.token] = append(x.owners[claim.token], owner{candidate: int32(i), rank: claim.rank})
		}
	}
	return x
}

// know normalises the facts of several observers of one machine.
func know(name string, facts []Facts) candidate {
	k := candidate{name: name}
	chassis := map[string]bool{} // serials that an observer calls the chassis' and nothing else
	for _, f := range facts {
		for _, c := range claims(f) {
			k.claims = append(k.claims, c)
			if c.rank == rankChassis {
				chassis[c.token] = true
			}
		}
		if b, ok := parseBoard(f.BoardSerial); ok {
			k.boards = append(k.boards, b)
		}
	}
	k.claims = strongest(k.claims)
	slices.SortFunc(k.boards, func(a, b board) int { return cmp.Compare(a.principal, b.principal) })
	for _, c := range k.claims {
		switch c.rank {
		case rankUUID:
			k.uuids = append(k.uuids, c)
		case rankBoard, rankSerial:
			if !chassis[c.token] {
				k.serials = append(k.serials, c)
			}
		case rankChassis, rankMAC:
		}
	}
	return k
}

// rankOf tells as what the candidate claims a token.
func (c candidate) rankOf(token string) (rank, bool) {
	for _, claim := range c.claims {
		if claim.token == token {
			return claim.rank, true
		}
	}
	return 0, false
}

// knowsBoard tells whether the candidate's board serial is known, and whether
// it is the given one.
func (c candidate) knowsBoard(b board) (known, same bool) {
	return len(c.boards) > 0, slices.ContainsFunc(c.boards, b.same)
}

// names gives the sorted names of candidates, each once.
func (x *Index) names(ids []int32) []string {
	names := make([]string, 0, len(ids))
	for _, id := range ids {
		names = append(names, x.candidates[id].name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Collision is a value that several candidates claim. It identifies none of
// them.
type Collision struct {
	Key   Key      `json:"key"`
	Value string   `json:"value"`
	Names []string `json:"names"` // sorted
}

// Collisions lists every value that two or more candidates share, strongest
// key first. A shared serial or chassis serial is normal for the boards of one
// chassis; a shared board serial, UUID or MAC is a mistake or a broken machine.
func (x *Index) Collisions() []Collision {
	var found []Collision
	for token, owners := range x.owners {
		if len(owners) < 2 {
			continue
		}
		ids := make([]int32, 0, len(owners))
		for _, o := range owners {
			ids = append(ids, o.candidate)
		}
		r := sharedRank(owners)
		found = append(found, Collision{Key: r.key(), Value: x.textOf(owners, token), Names: x.names(ids)})
	}
	slices.SortFunc(found, func(a, b Collision) int {
		return cmp.Or(
			cmp.Compare(slices.Index(keys[:], a.Key), slices.Index(keys[:], b.Key)),
			cmp.Compare(a.Value, b.Value),
		)
	})
	return found
}

// sharedRank names what a shared token is: a board serial only when two
// candidates call it so, otherwise the second strongest claim on it.
func sharedRank(owners []owner) rank {
	ranks := make([]rank, 0, len(owners))
	for _, o := range owners {
		ranks = append(ranks, o.rank)
	}
	slices.Sort(ranks)
	return ranks[1]
}

// textOf is the value of a token as its owners wrote it, the same in whatever
// order they came.
func (x *Index) textOf(owners []owner, token string) string {
	var text string
	for _, o := range owners {
		for _, c := range x.candidates[o.candidate].claims {
			if c.token == token && (text == "" || c.text < text) {
				text = c.text
			}
		}
	}
	return text
}
