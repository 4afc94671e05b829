package discovery

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/talos-provision/provision/inventory/identity"
)

// Chassis is machines that share serials, as the boards of one enclosure do,
// and what tells them apart.
type Chassis struct {
	// Serials are what they share.
	Serials []Serial `json:"serials"`
	// Nodes are "cluster/name", or "BMC address" of a machine without a node.
	Nodes []string `json:"nodes"`
	// ToldApartBy is the key of which each of them has a value of its own; ""
	// when there is none.
	ToldApartBy identity.Key `json:"toldApartBy,omitempty"`
	// Values are those values, in the order of Nodes.
	Values []string `json:"values,omitempty"`
}

// Serial is a serial or chassis serial.
type Serial struct {
	Key   identity.Key `json:"key"`
	Value string       `json:"value"`
}

// String names the shared serials.
func (c Chassis) String() string {
	texts := make([]string, len(c.Serials))
	for i, s := range c.Serials {
		texts[i] = fmt.Sprintf("%s %s", s.Key, s.Value)
	}
	return strings.Join(texts, " and ")
}

// rename gives machines the names that they got, and sorts them by name.
func (c *Chassis) rename(named map[string]string) {
	type machine struct{ node, value string }
	machines := make([]machine, len(c.Nodes))
	for i, label := range c.Nodes {
		machines[i].node = cmp.Or(named[label], label)
		if len(c.Values) > 0 {
			machines[i].value = c.Values[i]
		}
	}
	slices.SortFunc(machines, func(a, b machine) int { return cmp.Compare(a.node, b.node) })
	nodes, values := make([]string, len(machines)), make([]string, len(c.Values))
	for i, m := range machines {
		nodes[i] = m.node
		if len(values) > 0 {
			values[i] = m.value
		}
	}
	c.Nodes = nodes
	if len(values) > 0 {
		c.Values = values
	}
}

// collide finds the values that machines share. A board serial on two machines
// is a conflict (I1); so are machines that nothing tells apart.
func (d *decider) collide() []Chassis {
	byLabel := map[string]*Proposal{}
	facts := map[string][]identity.Facts{}
	for _, n := range d.tree.Nodes {
		facts[n.ID()] = append(facts[n.ID()], n.Facts())
	}
	for i := range d.proposals {
		p := &d.proposals[i]
		if p.Status != Answered {
			continue
		}
		label := p.label()
		byLabel[label] = p
		facts[label] = append(facts[label], p.Identity.Facts)
	}
	candidates := make([]identity.Candidate, 0, len(facts))
	for name, f := range facts {
		candidates = append(candidates, identity.Candidate{Name: name, Facts: f})
	}
	d.shared = map[string]bool{}
	var chassis []Chassis
	for _, c := range identity.NewIndex(candidates).Collisions() {
		seen := slices.ContainsFunc(c.Names, func(name string) bool { return byLabel[name] != nil })
		if !seen {
			continue
		}
		switch c.Key {
		case identity.KeyBoardSerial:
			for _, name := range c.Names {
				if p := byLabel[name]; p != nil && p.Action != Conflict {
					p.conflict("board serial %s is that of %s: a board is one machine, so correct the wrong one, or leave an address out if both lead to one BMC",
						c.Value, strings.Join(c.Names, " and "))
				}
			}
		case identity.KeyUUID:
			d.shared[identity.NormalizeUUID(c.Value)] = true
		case identity.KeyMAC:
			d.shared[identity.NormalizeMAC(c.Value)] = true
		case identity.KeySerial, identity.KeyChassisSerial:
			i := slices.IndexFunc(chassis, func(known Chassis) bool { return slices.Equal(known.Nodes, c.Names) })
			if i < 0 {
				i = len(chassis)
				chassis = append(chassis, tellApart(c.Names, facts))
			}
			chassis[i].Serials = append(chassis[i].Serials, Serial{c.Key, c.Value})
		}
	}
	for _, c := range chassis {
		if c.ToldApartBy != "" {
			continue
		}
		for _, name := range c.Nodes {
			if p := byLabel[name]; p != nil && p.Action != Conflict {
				p.conflict("%s is that of %s, and no board serial, UUID or MAC tells them apart: look at the machines, and give each node its boardSerial by hand",
					c, strings.Join(c.Nodes, " and "))
			}
		}
	}
	return chassis
}

// tellApart finds the strongest key of which each machine has a value that no
// other one of them has.
func tellApart(names []string, facts map[string][]identity.Facts) Chassis {
	found := Chassis{Nodes: names}
	for _, kind := range []struct {
		key    identity.Key
		values func(identity.Facts) []string
	}{
		{identity.KeyBoardSerial, func(f identity.Facts) []string { return []string{identity.NormalizeSerial(f.BoardSerial)} }},
		{identity.KeyUUID, func(f identity.Facts) []string { return []string{identity.NormalizeUUID(f.UUID)} }},
		{identity.KeyMAC, func(f identity.Facts) []string {
			macs := make([]string, len(f.MACs))
			for i, mac := range f.MACs {
				macs[i] = identity.NormalizeMAC(mac)
			}
			return macs
		}},
		{identity.KeySerial, func(f identity.Facts) []string { return []string{identity.NormalizeSerial(f.Serial)} }},
	} {
		if values, ok := distinct(names, facts, kind.values); ok {
			found.ToldApartBy, found.Values = kind.key, values
			return found
		}
	}
	return found
}

// distinct gives one value for each machine that no other of them has.
func distinct(names []string, facts map[string][]identity.Facts, values func(identity.Facts) []string) ([]string, bool) {
	owners := map[string]int{}
	all := make([][]string, len(names))
	for i, name := range names {
		for _, f := range facts[name] {
			for _, v := range values(f) {
				if v != "" && !slices.Contains(all[i], v) {
					all[i] = append(all[i], v)
					owners[v]++
				}
			}
		}
	}
	chosen := make([]string, len(names))
	for i := range names {
		for _, v := range all[i] {
			if owners[v] == 1 {
				chosen[i] = v
				break
			}
		}
		if chosen[i] == "" {
			return nil, false
		}
	}
	return chosen, true
}
