package inventory

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/talos-provision/provision/inventory/identity"
)

// unique lists what no two nodes may share. values gives a node's values in
// the form in which they are compared; a value of one cluster alone begins
// with the cluster's name.
var unique = []struct {
	field  string
	rule   Rule
	values func(Node) []string
	hint   string
}{
	{"name", RuleSameName, func(n Node) []string { return []string{n.Cluster + "/" + n.Name} }, "rename one of the files"},
	{"ip", RuleSameIP, func(n Node) []string { return []string{canonicalIP(n.IP)} }, "give each node its own address"},
	{"boardSerial", RuleSameBoardSerial, func(n Node) []string { return []string{identity.NormalizeSerial(n.BoardSerial)} }, "a board is one machine: correct one of them"},
	{"uuid", RuleSameUUID, func(n Node) []string { return []string{identity.NormalizeUUID(n.UUID)} }, "correct one of them, or remove both if the machines really share it"},
	{"mac", RuleSameMAC, func(n Node) []string { return mapped(n.MACs, identity.NormalizeMAC) }, "a network card is in one machine: correct one of them"},
	{"bmc.address", RuleSameBMC, func(n Node) []string { return []string{canonicalBMC(n.BMC)} }, "correct one of them, or set bmc.system if one BMC serves several systems"},
}

// duplicates reports values that nodes share, at every place that gives them.
func duplicates(nodes []Node) Findings {
	var findings Findings
	for _, u := range unique {
		for _, sharing := range groups(nodes, u.values) {
			findings = append(findings, report(sharing, u.field, u.rule, u.hint)...)
		}
	}
	return append(findings, duplicateSerials(nodes)...)
}

// duplicateSerials: the boards of one chassis share a serial, which is fine
// while something else tells them apart. It is not when a serial is the
// boardSerial of another node.
func duplicateSerials(nodes []Node) Findings {
	var findings Findings
	for _, sharing := range groups(nodes, func(n Node) []string { return []string{identity.NormalizeSerial(n.Serial)} }) {
		if toldApart(sharing) {
			continue
		}
		findings = append(findings, report(sharing, "serial", RuleSameSerial, "give each of them boardSerial, uuid, mac or bmc.address, or correct one")...)
	}
	either := func(n Node) []string {
		return mapped([]string{n.Serial, n.BoardSerial}, identity.NormalizeSerial)
	}
	for _, sharing := range groups(nodes, either) {
		findings = append(findings, crossed(sharing)...)
	}
	return findings
}

// crossed reports nodes of which one gives as serial what another gives as
// boardSerial.
func crossed(sharing group) Findings {
	var boards []Node
	for _, n := range sharing.nodes {
		if identity.NormalizeSerial(n.BoardSerial) == sharing.value {
			boards = append(boards, n)
		}
	}
	var findings Findings
	for _, n := range sharing.nodes {
		if identity.NormalizeSerial(n.Serial) != sharing.value {
			continue
		}
		i := slices.IndexFunc(boards, func(other Node) bool { return other.File != n.File })
		if i >= 0 {
			findings = append(findings, n.report(RuleSameBoardSerial, "serial", "a board is one machine: correct one of them",
				"serial %s of %s is the boardSerial of %s (%s)", n.Serial, n.Name, boards[i].Name, boards[i].Origin("boardSerial"))...)
		}
	}
	return findings
}

// toldApart tells whether each of the nodes has something that identifies it
// among them. A BMC reports the board's own values.
func toldApart(sharing group) bool {
	owners := make(map[string]int)
	for _, n := range sharing.nodes {
		for _, v := range ownValues(n) {
			owners[v]++
		}
	}
	return !slices.ContainsFunc(sharing.nodes, func(n Node) bool {
		return n.BMC.Address == "" && !slices.ContainsFunc(ownValues(n), func(v string) bool { return owners[v] == 1 })
	})
}

// ownValues are the values that only one board has.
func ownValues(n Node) []string {
	var own []string
	if v := identity.NormalizeSerial(n.BoardSerial); v != "" {
		own = append(own, "board "+v)
	}
	if v := identity.NormalizeUUID(n.UUID); v != "" {
		own = append(own, "uuid "+v)
	}
	for _, v := range mapped(n.MACs, identity.NormalizeMAC) {
		own = append(own, "mac "+v)
	}
	return own
}

// group is the nodes that share a value.
type group struct {
	value string
	nodes []Node
}

// groups finds the values that several nodes have, sorted.
func groups(nodes []Node, values func(Node) []string) []group {
	first := make(map[string]int, len(nodes))
	shared := make(map[string][]Node)
	for i, n := range nodes {
		vs := values(n)
		slices.Sort(vs)
		for _, v := range slices.Compact(vs) {
			if v == "" {
				continue
			}
			if j, taken := first[v]; !taken {
				first[v] = i
			} else if shared[v] == nil {
				shared[v] = []Node{nodes[j], n}
			} else {
				shared[v] = append(shared[v], n)
			}
		}
	}
	all := make([]group, 0, len(shared))
	for v, ns := range shared {
		all = append(all, group{value: v, nodes: ns})
	}
	slices.SortFunc(all, func(a, b group) int { return strings.Compare(a.value, b.value) })
	return all
}

// report makes one finding for each place that gives the shared value, naming
// the other places.
func report(sharing group, field string, rule Rule, hint string) Findings {
	places := make(map[Origin]Node)
	var order []Origin
	for _, n := range sharing.nodes {
		o := n.place(field, sharing.value)
		if _, known := places[o]; !known {
			order = append(order, o)
			places[o] = n
		}
	}
	if len(order) == 1 {
		return Findings{{
			Severity: rule.severity(), Rule: rule, File: order[0].File, Line: order[0].Line, Column: order[0].Column, Field: field, Hint: hint,
			Message: fmt.Sprintf("%s gives one value to %s", field, some(names(sharing.nodes))),
		}}
	}
	var findings Findings
	for _, o := range order {
		var others []string
		for _, other := range order {
			if len(others) > mentioned {
				break // enough to say that there are more
			}
			if other != o {
				others = append(others, reference(places[other], field, other))
			}
		}
		findings = append(findings, Finding{
			Severity: rule.severity(), Rule: rule, File: o.File, Line: o.Line, Column: o.Column, Field: field, Hint: hint,
			Message: fmt.Sprintf("%s is also that of %s", subject(places[o], field, sharing.value), some(others)),
		})
	}
	return findings
}

// place is where a node gives the value of a field. MACs are given by mac or
// by macs.
func (n Node) place(field, value string) Origin {
	if field == "mac" {
		if l := n.values.leaf("mac"); l == nil || identity.NormalizeMAC(l.value.text) != value {
			return n.Origin("macs")
		}
	}
	return n.Origin(field)
}

// subject names the value as the file has it.
func subject(n Node, field, value string) string {
	switch field {
	case "name":
		return "the hostname " + n.Name
	case "ip":
		value = n.IP
	case "serial":
		value = n.Serial
	case "boardSerial":
		value = n.BoardSerial
	case "uuid":
		value = n.UUID
	case "bmc.address":
		value = n.BMC.Address
	}
	return fmt.Sprintf("%s %s of %s", field, clip(strings.TrimSpace(value)), n.Name)
}

// reference names another node of the group with its place.
func reference(n Node, field string, o Origin) string {
	if field == "name" {
		return o.File
	}
	return fmt.Sprintf("%s (%s)", n.Name, o)
}

// mentioned is how many other places a message names.
const mentioned = 3

func some(items []string) string {
	if len(items) > mentioned {
		return strings.Join(items[:mentioned], ", ") + " and more"
	}
	if len(items) == 1 {
		return items[0]
	}
	last := len(items) - 1
	return strings.Join(items[:last], ", ") + " and " + items[last]
}

func mapped(values []string, normalize func(string) string) []string {
	out := make([]string, 0, len(values))
	for _, v := range values {
		out = append(out, normalize(v))
	}
	return out
}

func canonicalIP(v string) string {
	addr, err := netip.ParseAddr(v)
	if err != nil {
		return ""
	}
	return addr.Unmap().String()
}

// canonicalBMC is host, port and system of a BMC, in one form.
func canonicalBMC(b BMC) string {
	if b.Address == "" {
		return ""
	}
	u, err := parseBMCAddress(b.Address)
	if err != nil {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	host := canonicalIP(u.Hostname())
	if host == "" {
		host = strings.ToLower(u.Hostname())
	}
	return host + " " + port + " " + b.System
}
