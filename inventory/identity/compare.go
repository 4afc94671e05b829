package identity

import (
	"fmt"
	"slices"
)

// Compare tells whether an observed machine is the one that the expected facts
// describe, without regard to other machines. It serves to hold a BMC's report
// against the inventory, and Talos' report against both.
//
//   - agreement: the strongest key that agrees, true, and a sentence;
//   - contradiction: the key that contradicts, false, and what to correct;
//   - nothing to compare: an empty key, false, and what is missing.
//
// A board serial that differs always contradicts; a UUID that differs in both
// byte orders does unless the board serial agrees; a serial does when none of
// the machine's serials is one of the expected. A MAC never contradicts.
func Compare(expected []Facts, observed Facts) (Key, bool, string) {
	const expectedName = "expected"
	x := &Index{candidates: []candidate{know(expectedName, expected)}}
	x.owners = make(map[string][]owner)
	c := x.candidates[0]
	for _, claim := range c.claims {
		x.owners[claim.token] = []owner{{rank: claim.rank}}
	}
	s := x.see(observed)

	knowsBoard, sameBoard := c.knowsBoard(s.board)
	if s.hasBoard && knowsBoard && !sameBoard {
		return KeyBoardSerial, false, fmt.Sprintf("the machine's board serial is %s, expected %s: this is another board; correct boardSerial, or bmc.address if it leads to the wrong machine",
			s.board.principal, c.boards[0].principal)
	}
	if known, differs := s.differentUUID(c); differs && (!s.hasBoard || !sameBoard) {
		return KeyUUID, false, fmt.Sprintf("the machine's UUID is %s, expected %s: this is another machine; correct uuid, or bmc.address if it leads to the wrong machine",
			s.uuid().text, known)
	}
	if wanted := systemSerials(expected); contradicts(wanted, s) {
		return KeySerial, false, fmt.Sprintf("the machine shows %s, expected serial %s: this is another machine; correct serial, or bmc.address if it leads to the wrong machine",
			list(s.serials(), "and"), join(wanted, "or"))
	}
	if len(s.identified) == 0 {
		return "", false, unconfirmed(c, s)
	}
	own := s.strongestOwn(c)
	return own.rank.key(), true, fmt.Sprintf("%s agrees", own)
}

// systemSerials are the values of the field Serial, normalised.
func systemSerials(facts []Facts) []string {
	serials := make([]string, 0, len(facts))
	for _, f := range facts {
		serials = append(serials, serialParts(f.Serial)...)
	}
	slices.Sort(serials)
	return slices.Compact(serials)
}

// contradicts tells whether serials are wanted and the machine shows serials,
// but none of those.
func contradicts(wanted []string, s sight) bool {
	seen := s.serials()
	if len(wanted) == 0 || len(seen) == 0 {
		return false
	}
	return !slices.ContainsFunc(seen, func(c claim) bool { return slices.Contains(wanted, c.text) })
}

func unconfirmed(c candidate, s sight) string {
	switch {
	case len(s.seen) == 0:
		return "the machine shows no usable serial, board serial, UUID or MAC, so nothing confirms it"
	case len(c.claims) == 0:
		return "nothing is expected of the machine, so nothing confirms it: give its node a bmc.address, serial, boardSerial, uuid or mac"
	}
	return fmt.Sprintf("the machine shows %s, of which nothing is known; expected %s", list(s.seen, "and"), list(c.claims, "or"))
}
