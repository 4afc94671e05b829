package render

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
)

// test is a comparison that iPXE makes: a setting against a literal.
type test struct{ setting, literal string }

// String is the iseq command. A setting is expanded after the line was split
// into words, so that spaces in it do no harm; a literal has no such luck.
func (t test) String() string { return "iseq ${" + t.setting + "} " + t.literal }

// recognition is how the script tells that a machine is a node.
type recognition struct {
	// byBoard and bySerial compare the machine's board serial and its serial: one test is enough.
	byBoard, bySerial []test
	// byOther recognises a node that no serial identifies: all tests of one row must hold.
	byOther [][]test
	// uuids: for a node whose board serial is not known, one must hold when there are any.
	uuids []test
}

// known tells whether the script can recognise the node at all.
func (r recognition) known() bool {
	return len(r.byBoard)+len(r.bySerial)+len(r.byOther) > 0
}

// recogniser knows which values of the whole inventory identify nobody.
type recogniser struct {
	owners map[string]int // nodes by normalised value; all serials share one namespace
}

func newRecogniser(nodes []inventory.Node) recogniser {
	r := recogniser{owners: map[string]int{}}
	for _, n := range nodes {
		seen := map[string]bool{}
		values := []string{
			identity.NormalizeSerial(n.Serial), identity.NormalizeSerial(n.BoardSerial), identity.NormalizeUUID(n.UUID),
		}
		for _, mac := range n.MACs {
			values = append(values, identity.NormalizeMAC(mac))
		}
		for _, value := range values {
			if value != "" && !seen[value] {
				seen[value] = true
				r.owners[value]++
			}
		}
	}
	return r
}

// own tells whether a normalised value is one node's alone.
func (r recogniser) own(value string) bool { return value != "" && r.owners[value] == 1 }

// recognise chooses what the node is recognised by: its board serial when the
// inventory has it, else a serial that no other node has, else UUID or MAC.
func (r recogniser) recognise(n inventory.Node) recognition {
	serial, board := strings.TrimSpace(n.Serial), strings.TrimSpace(n.BoardSerial)
	var found recognition
	switch {
	case r.own(identity.NormalizeSerial(board)):
		found.byBoard = equal("board-serial", n.BoardSerial)
		found.byBoard = append(found.byBoard, dellBoard(serial, board)...)
	case identity.NormalizeSerial(board) != "": // two nodes claim one board: neither is trusted
	case r.own(identity.NormalizeSerial(serial)):
		// serial: may hold the board's own, as in the reference inventory.
		found.bySerial, found.byBoard = equal("serial", n.Serial), equal("board-serial", n.Serial)
		found.uuids = uuidTests(n.UUID)
	default:
		found.byOther = r.others(n, serial)
	}
	return found
}

// others recognises a node by UUID, else by MAC. A serial that it shares with
// other nodes must agree all the same.
func (r recogniser) others(n inventory.Node, serial string) [][]test {
	var rows [][]test
	if r.own(identity.NormalizeUUID(n.UUID)) {
		for _, t := range uuidTests(n.UUID) {
			rows = append(rows, []test{t})
		}
	}
	if len(rows) == 0 {
		for _, mac := range n.MACs {
			if mac = identity.NormalizeMAC(mac); r.own(mac) {
				rows = append(rows, []test{{"mac", mac}})
			}
		}
	}
	if identity.NormalizeSerial(serial) == "" {
		return rows
	}
	for i := range rows {
		rows[i] = append(rows[i], equal("serial", serial)[0])
	}
	return rows
}

// plain is what stands in an iPXE script for itself.
var plain = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/:+-]*$`)

// equal compares a setting with a value. iPXE has no quoting: a space would
// make two words, and $, #, |, & and ; mean something. Such a value is compared
// as hex digits, which every byte has. A value is compared in the case of the
// inventory and in upper case, which is what firmware shows, and with spaces
// around it if the inventory has them: iPXE keeps those of the firmware.
func equal(setting, value string) []test {
	trimmed := strings.TrimSpace(value)
	var tests []test
	for i, v := range []string{trimmed, strings.ToUpper(trimmed), value} {
		if i > 0 && v == trimmed {
			continue
		}
		if plain.MatchString(v) {
			tests = append(tests, test{setting, v})
			continue
		}
		tests = append(tests, test{setting + ":hex", hexBytes([]byte(v))})
	}
	return tests
}

// hexBytes is the form of iPXE's setting type hex: 53:31.
func hexBytes(raw []byte) string {
	digits := make([]string, len(raw))
	for i := range raw {
		digits[i] = hex.EncodeToString(raw[i : i+1])
	}
	return strings.Join(digits, ":")
}

// serviceTag is a Dell service tag.
var serviceTag = regexp.MustCompile(`^[0-9A-Z]{7}$`)

// dellBoard is what a Dell shows as board serial, "/TAG/NUMBER/", where its BMC
// and so the inventory has the number alone (Dasharo/dasharo-issues#155).
func dellBoard(tag, board string) []test {
	if !serviceTag.MatchString(tag) || strings.HasPrefix(board, "/") || strings.HasPrefix(board, ".") {
		return nil
	}
	return equal("board-serial", "/"+tag+"/"+board+"/")[:1]
}

// uuidTests compares the UUID in both byte orders: inventory, BMC and firmware
// disagree on the order of its first three fields (SMBIOS 2.6 section 7.2.1).
func uuidTests(uuid string) []test {
	one := identity.NormalizeUUID(uuid)
	if one == "" {
		return nil
	}
	raw, err := hex.DecodeString(strings.ReplaceAll(one, "-", ""))
	const length = 16
	if err != nil || len(raw) != length {
		return nil
	}
	other := fmt.Sprintf("%02x%02x%02x%02x-%02x%02x-%02x%02x-%x-%x",
		raw[3], raw[2], raw[1], raw[0], raw[5], raw[4], raw[7], raw[6], raw[8:10], raw[10:])
	if other == one {
		return []test{{"uuid", one}}
	}
	return []test{{"uuid", one}, {"uuid", other}}
}
