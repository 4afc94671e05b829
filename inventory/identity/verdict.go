package identity

import (
	"fmt"
	"slices"
	"strings"
)

// String names the outcome for logs and tests.
func (o Outcome) String() string {
	switch o {
	case Nobody:
		return "nobody"
	case Match:
		return "match"
	case Conflict:
		return "conflict"
	}
	return fmt.Sprintf("outcome %d", int(o))
}

func (s sight) match(c candidate, own claim, differentUUID string) Verdict {
	reason := fmt.Sprintf("the machine is %s by %s", c.name, own)
	if differentUUID != "" {
		reason += fmt.Sprintf("; its UUID is now %s, not %s, which a Supermicro board does when its first network card changes",
			s.uuid().text, differentUUID)
	}
	return Verdict{Outcome: Match, Name: c.name, Key: own.rank.key(), Value: own.text, Reason: reason}
}

func (s sight) nothingUsable() Verdict {
	return Verdict{Reason: "the machine shows no usable serial, board serial, UUID or MAC (blank values and placeholders " +
		"identify nothing): look at it through its BMC, or give its node a bmc.address"}
}

func (s sight) nobody() Verdict {
	return Verdict{
		Key: s.seen[0].rank.key(), Value: s.seen[0].text,
		Reason: fmt.Sprintf("no node has %s: add the machine to the inventory if it belongs there", list(s.seen, "or")),
	}
}

func (s sight) onlyShared() Verdict {
	ids := make([]int32, 0, len(s.shared))
	for _, c := range s.shared {
		ids = append(ids, s.ownersOf(c)...)
	}
	names := s.index.names(ids)
	return conflict(names, s.shared[0], "%s shared by %s and nothing else tells them apart: give each node its boardSerial, uuid or mac, or a bmc.address to learn them from",
		are(s.shared), join(names, "and"))
}

func (s sight) boardTwice() Verdict {
	twice := s.seen[0] // a board serial is the strongest key
	names := s.index.names(s.ownersOf(twice))
	return conflict(names, twice, "%s is claimed by %s: a board is one machine, so none of them is touched until one boardSerial, serial or bmc.address is corrected",
		twice, join(names, "and"))
}

func (s sight) several() Verdict {
	names := s.index.names(s.identified)
	parts := make([]string, 0, len(names))
	ids := slices.Clone(s.identified)
	slices.SortFunc(ids, func(a, b int32) int {
		return strings.Compare(s.index.candidates[a].name, s.index.candidates[b].name)
	})
	for _, id := range ids {
		c := s.index.candidates[id]
		parts = append(parts, fmt.Sprintf("%s of %s", s.strongestUnique(c), c.name))
	}
	return conflict(names, s.firstUnique(), "the machine shows %s: correct the node that is wrong; if a part was moved between machines, update both",
		join(parts, "and"))
}

func (s sight) otherBoard(c candidate, own claim) Verdict {
	return conflict([]string{c.name}, s.seen[0], "%s is %s's, but the machine's board serial is %s and not %s: if the board was replaced, correct boardSerial of %s; if not, this is another machine of the same chassis",
		own, c.name, s.board.principal, c.boards[0].principal, c.name)
}

func (s sight) otherUUID(c candidate, own claim, known string) Verdict {
	return conflict([]string{c.name}, s.uuid(), "%s is %s's, but the machine's UUID is %s and not %s, and no board serial settles it: give %s its boardSerial, or correct its uuid",
		own, c.name, s.uuid().text, known, c.name)
}

func (s sight) otherSerial(c candidate, own claim) Verdict {
	serials := s.serials()
	return conflict([]string{c.name}, serials[0], "%s is %s's, but the machine shows %s and not %s: if a card or board was moved, correct the node it came from; if not, correct serial of %s",
		own, c.name, list(serials, "and"), list(c.serials, "or"), c.name)
}

func (s sight) foreign(c candidate, own, shared claim) Verdict {
	others := s.index.names(s.ownersOf(shared))
	names := append([]string{c.name}, others...)
	slices.Sort(names)
	return conflict(slices.Compact(names), shared, "%s is %s's, but the machine also shows %s, which belongs to %s: correct the node that is wrong",
		own, c.name, shared, join(others, "and"))
}

func (s sight) onlySerial(id int32, shared, unique claim) Verdict {
	names := s.index.names(append(s.ownersOf(shared), id))
	return conflict(names, shared, "%s is shared by %s and only %s tells them apart, which is no board's own: give each node its boardSerial, uuid or mac",
		shared, join(names, "and"), unique)
}

func conflict(names []string, on claim, format string, args ...any) Verdict {
	return Verdict{Outcome: Conflict, Names: names, Key: on.rank.key(), Value: on.text, Reason: fmt.Sprintf(format, args...)}
}

func (s sight) ownersOf(c claim) []int32 {
	owners := s.index.owners[c.token]
	ids := make([]int32, 0, len(owners))
	for _, o := range owners {
		ids = append(ids, o.candidate)
	}
	return ids
}

// firstUnique is the strongest seen value that exactly one candidate claims.
func (s sight) firstUnique() claim {
	i := slices.IndexFunc(s.seen, func(c claim) bool { return len(s.index.owners[c.token]) == 1 })
	return s.seen[max(0, i)]
}

// String gives key and value as a sentence uses them.
func (c claim) String() string { return string(c.rank.key()) + " " + c.text }

// are starts a sentence about one value or several.
func are(claims []claim) string {
	if len(claims) == 1 {
		return claims[0].String() + " is"
	}
	return list(claims, "and") + " are"
}

func list(claims []claim, conjunction string) string {
	texts := make([]string, 0, len(claims))
	for _, c := range claims {
		texts = append(texts, c.String())
	}
	return join(texts, conjunction)
}

// mentioned bounds how many values a sentence lists: a shared placeholder that
// no table knows can be on thousands of nodes.
const mentioned = 12

func join(items []string, conjunction string) string {
	if len(items) > mentioned {
		items = append(slices.Clone(items[:mentioned]), fmt.Sprintf("%d more", len(items)-mentioned))
		conjunction = "and"
	}
	switch len(items) {
	case 0:
		return "nothing"
	case 1:
		return items[0]
	}
	last := len(items) - 1
	return strings.Join(items[:last], ", ") + " " + conjunction + " " + items[last]
}
