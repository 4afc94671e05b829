package identity

import "slices"

// Match tells which candidate the observed machine is.
//
// A value claimed by one candidate identifies it, a value claimed by several
// identifies none. The machine is a candidate's when everything it shows that
// identifies anyone identifies that one, and nothing contradicts it:
//
//   - a known board serial that differs, or a known UUID that differs in both
//     byte orders unless the board serial agrees (a Supermicro UUID follows its
//     network card, metal-hammer#52);
//   - serials that are known on both sides and have nothing in common, when
//     only a UUID or a MAC agrees: a card or a BIOS image was moved;
//   - a shared value that others claim and the candidate does not;
//   - a board serial that several candidates claim: a board is one machine, so
//     all of them are frozen (I1).
//
// A different MAC contradicts nothing: BMCs list only some of the cards.
// Match does not depend on any order, and adding a candidate turns a match
// into a conflict or leaves it, unless the newcomer claims all that the
// machine shows of the former and a board serial, UUID or MAC beside it.
func (x *Index) Match(observed Facts) Verdict {
	s := x.see(observed)
	switch {
	case len(s.seen) == 0:
		return s.nothingUsable()
	case len(s.boardOwners) > 1:
		return s.boardTwice()
	case len(s.identified) == 0 && len(s.shared) == 0:
		return s.nobody()
	case len(s.identified) == 0:
		return s.onlyShared()
	case len(s.identified) > 1:
		return s.several()
	}
	return s.one(s.identified[0])
}

// sight is an observed machine laid over the index.
type sight struct {
	index       *Index
	seen        []claim // strongest first
	board       board
	hasBoard    bool
	identified  []int32 // candidates with a value of their own among the seen
	shared      []claim // seen values that several candidates claim
	boardOwners []int32 // candidates that claim the seen board serial as theirs
}

func (x *Index) see(observed Facts) sight {
	s := sight{index: x, seen: claims(observed)}
	s.board, s.hasBoard = parseBoard(observed.BoardSerial)
	for _, c := range s.seen {
		owners := x.owners[c.token]
		switch {
		case len(owners) == 1:
			if !slices.Contains(s.identified, owners[0].candidate) {
				s.identified = append(s.identified, owners[0].candidate)
			}
		case len(owners) > 1:
			s.shared = append(s.shared, c)
		}
		if c.rank == rankBoard {
			s.boardOwners = x.boardOwners(c.token)
		}
	}
	return s
}

// boardOwners lists who claims a token as a board serial.
func (x *Index) boardOwners(token string) []int32 {
	var ids []int32
	for _, o := range x.owners[token] {
		if o.rank == rankBoard {
			ids = append(ids, o.candidate)
		}
	}
	return ids
}

// one decides about the only candidate that the machine's values identify.
func (s sight) one(id int32) Verdict {
	c := s.index.candidates[id]
	own := s.strongestOwn(c)
	knowsBoard, sameBoard := c.knowsBoard(s.board)
	if s.hasBoard && knowsBoard && !sameBoard {
		return s.otherBoard(c, own)
	}
	boardAgrees := s.hasBoard && sameBoard
	differentUUID, hasDifferentUUID := s.differentUUID(c)
	if hasDifferentUUID && !boardAgrees {
		return s.otherUUID(c, own, differentUUID)
	}
	if (own.rank == rankUUID || own.rank == rankMAC) && s.serialsDisagree(c) {
		return s.otherSerial(c, own)
	}
	for _, shared := range s.shared {
		if _, claims := c.rankOf(shared.token); !claims {
			return s.foreign(c, own, shared)
		}
		if unique := s.strongestUnique(c); unique.isWeakerSerial(shared) {
			return s.onlySerial(id, shared, unique)
		}
	}
	return s.match(c, own, differentUUID)
}

// strongestOwn is the strongest seen value that the candidate claims. A serial
// is a board serial when either side calls it so.
func (s sight) strongestOwn(c candidate) claim {
	return s.strongest(c, func(claim) bool { return true })
}

// strongestUnique is the same among the values that nobody else claims.
func (s sight) strongestUnique(c candidate) claim {
	return s.strongest(c, func(seen claim) bool { return len(s.index.owners[seen.token]) == 1 })
}

func (s sight) strongest(c candidate, use func(claim) bool) claim {
	best, found := claim{}, false
	for _, seen := range s.seen {
		r, ok := c.rankOf(seen.token)
		if !ok || !use(seen) {
			continue
		}
		seen.rank = min(seen.rank, r)
		if !found || seen.rank < best.rank {
			best, found = seen, true
		}
	}
	return best
}

// differentUUID is the candidate's UUID when the machine's differs from all
// that are known of it.
func (s sight) differentUUID(c candidate) (string, bool) {
	seen := s.uuid()
	if seen.token == "" || len(c.uuids) == 0 {
		return "", false
	}
	if slices.ContainsFunc(c.uuids, func(u claim) bool { return u.token == seen.token }) {
		return "", false
	}
	return c.uuids[0].text, true
}

func (s sight) uuid() claim {
	for _, seen := range s.seen {
		if seen.rank == rankUUID {
			return seen
		}
	}
	return claim{}
}

// serialsDisagree tells whether both sides know serials of system or board and
// share none. A chassis serial does not count: firmware and Talos never show it,
// and some BMCs show nothing else.
func (s sight) serialsDisagree(c candidate) bool {
	comparable := false
	for _, serial := range s.serials() {
		if _, ok := c.rankOf(serial.token); ok {
			return false
		}
		comparable = comparable || serial.rank != rankChassis
	}
	return comparable && len(c.serials) > 0
}

func (s sight) serials() []claim {
	var serials []claim
	for _, seen := range s.seen {
		if seen.rank != rankUUID && seen.rank != rankMAC {
			serials = append(serials, seen)
		}
	}
	return serials
}
