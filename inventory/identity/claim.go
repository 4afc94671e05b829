package identity

import (
	"slices"
	"strings"
)

// rank orders the keys; a smaller one is stronger.
type rank uint8

const (
	rankBoard rank = iota
	rankUUID
	rankMAC
	rankSerial
	rankChassis
)

// keys names the ranks, strongest first.
var keys = [...]Key{KeyBoardSerial, KeyUUID, KeyMAC, KeySerial, KeyChassisSerial}

func (r rank) key() Key { return keys[r] }

// claim is one normalised value of a machine. All serials share one namespace
// of tokens, since an inventory's serial may name any serial of the machine
// and vendors put the same number in different fields.
type claim struct {
	token string // namespace and compared value
	text  string // the value as a person would look for it
	rank  rank
}

// isWeakerSerial tells whether c is a serial that cannot settle whose the
// shared serial is: only the board's own values (board serial, UUID, MAC) can,
// or a system serial within a shared chassis serial.
func (c claim) isWeakerSerial(shared claim) bool {
	sharedSerial := shared.rank != rankUUID && shared.rank != rankMAC
	return c.rank >= rankSerial && sharedSerial && shared.rank <= c.rank
}

// claims gives what facts say, strongest first, each token once under its
// strongest rank, in an order that does not depend on the order of MACs.
func claims(facts Facts) []claim {
	var all []claim
	serial := func(value string, r rank) {
		all = append(all, claim{token: "serial:" + value, text: value, rank: r})
	}
	if b, ok := parseBoard(facts.BoardSerial); ok {
		for _, part := range b.parts {
			if part == b.principal {
				serial(part, rankBoard)
			} else {
				serial(part, rankSerial) // Dell puts the service tag beside the board's number
			}
		}
	}
	if uuid := NormalizeUUID(facts.UUID); uuid != "" {
		raw, _ := parseUUID(facts.UUID)
		all = append(all, claim{token: "uuid:" + uuid, text: hyphens(raw), rank: rankUUID})
	}
	for _, mac := range facts.MACs {
		if mac = NormalizeMAC(mac); mac != "" {
			all = append(all, claim{token: "mac:" + mac, text: mac, rank: rankMAC})
		}
	}
	for _, part := range serialParts(facts.Serial) {
		serial(part, rankSerial)
	}
	for _, part := range serialParts(facts.ChassisSerial) {
		serial(part, rankChassis)
	}
	return strongest(all)
}

// strongest sorts claims by rank and value and drops repeated tokens.
func strongest(all []claim) []claim {
	slices.SortFunc(all, func(a, b claim) int {
		if a.rank != b.rank {
			return int(a.rank) - int(b.rank)
		}
		if c := strings.Compare(a.token, b.token); c != 0 {
			return c
		}
		return strings.Compare(a.text, b.text)
	})
	kept := all[:0]
	for _, c := range all {
		if !slices.ContainsFunc(kept, func(k claim) bool { return k.token == c.token }) {
			kept = append(kept, c)
		}
	}
	return kept
}

// board is a normalised board serial. Dell's SMBIOS type 2 joins the service
// tag, the board's number and a slot: ".TAG.CNxxxx.01a." or "/TAG/CNxxxx/"
// (netbox-agent#27, Dasharo#155), while its BMC gives the number alone.
type board struct {
	principal string   // the board's own number
	parts     []string // principal and service tag
}

func parseBoard(serial string) (board, bool) {
	parts := serialParts(serial)
	switch len(parts) {
	case 0:
		return board{}, false
	case 1:
		return board{principal: parts[0], parts: parts}, true
	default:
		return board{principal: parts[1], parts: parts}, true
	}
}

// same tells whether two board serials name one board. Two composites must
// agree in the board's number: the tag survives a board replacement.
func (b board) same(other board) bool {
	if len(b.parts) > 1 && len(other.parts) > 1 {
		return b.principal == other.principal
	}
	return slices.ContainsFunc(b.parts, func(part string) bool { return slices.Contains(other.parts, part) })
}

// shortestPart is the length below which a part of a Dell composite is a slot
// ("01a") and not a number. Service tags have 5 to 7 characters.
const shortestPart = 5

// serialParts normalises a serial and splits it when it is a Dell composite.
// Nothing else is split: HPE board serials may contain "/" and "." inside.
func serialParts(serial string) []string {
	whole := NormalizeSerial(serial)
	if whole == "" {
		return nil
	}
	if whole[0] != '.' && whole[0] != '/' {
		return []string{whole}
	}
	var parts []string
	for _, part := range strings.FieldsFunc(whole, func(r rune) bool { return r == '.' || r == '/' }) {
		part = NormalizeSerial(part)
		if len(part) >= shortestPart && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	const tagAndNumber = 2
	switch {
	case len(parts) == 0:
		return []string{whole}
	case len(parts) > tagAndNumber:
		return parts[:tagAndNumber]
	default:
		return parts
	}
}
