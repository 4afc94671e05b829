package identity_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory/identity"
)

// fleets generates machines and inventories from one seed. Values come from
// small sets, so that every kind of collision and contradiction happens.
type fleets struct{ *rand.Rand }

func fleet(seed uint64) fleets { return fleets{rand.New(rand.NewPCG(seed, 1))} }

func (g fleets) pick(values ...string) string { return values[g.IntN(len(values))] }

func (g fleets) facts() identity.Facts {
	serials := []string{
		"", "", "S1", "S2", "s1 ", "B1", "B2", "TAG0001", "CN0000001", ".TAG0001.CN0000001.01a.", "/TAG0001/CN0000002/", "None", "00000000",
	}
	f := identity.Facts{
		Serial: g.pick(serials...), BoardSerial: g.pick(serials...), ChassisSerial: g.pick(serials...),
		UUID: g.pick("", "", "005CB4E7-0989-EB11-8000-7CC255000001", "e7b45c00-8909-11eb-8000-7cc255000001",
			"00000000-0000-0000-0000-0cc47a000002", "00000000-0000-0000-0000-000000000000"),
	}
	for range g.IntN(3) {
		f.MACs = append(f.MACs, g.pick("52:54:00:aa:bb:01", "52-54-00-AA-BB-01", "52:54:00:aa:bb:02", "00:00:00:00:00:00"))
	}
	return f
}

func (g fleets) candidates(n int) []identity.Candidate {
	all := make([]identity.Candidate, 0, n)
	for i := range n {
		c := identity.Candidate{Name: fmt.Sprintf("n%d", i)}
		for range g.IntN(3) {
			c.Facts = append(c.Facts, g.facts())
		}
		all = append(all, c)
	}
	return all
}

// orderDoesNotMatter: neither of candidates, nor of their facts, nor of MACs.
func orderDoesNotMatter(t *testing.T, g fleets) {
	nodes, observed := g.candidates(4), g.facts()
	want := identity.NewIndex(nodes).Match(observed)
	shuffled := slices.Clone(nodes)
	g.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	for i := range shuffled {
		shuffled[i].Facts = slices.Clone(shuffled[i].Facts)
		slices.Reverse(shuffled[i].Facts)
	}
	again := observed
	again.MACs = slices.Clone(observed.MACs)
	slices.Reverse(again.MACs)
	x := identity.NewIndex(shuffled)
	if diff := cmp.Diff(want, x.Match(again)); diff != "" {
		t.Errorf("order matters for %+v among %+v:\n%s", observed, nodes, diff)
	}
	if diff := cmp.Diff(identity.NewIndex(nodes).Collisions(), x.Collisions()); diff != "" {
		t.Errorf("order matters for the collisions of %+v:\n%s", nodes, diff)
	}
}

// additionOnlyRestricts: a new candidate never makes a machine another old
// candidate's, and never frees an old one from a conflict.
func additionOnlyRestricts(t *testing.T, g fleets) {
	nodes, observed := g.candidates(4), g.facts()
	newcomer := nodes[3]
	before := identity.NewIndex(nodes[:3]).Match(observed)
	after := identity.NewIndex(nodes).Match(observed)
	fail := func(rule string) {
		t.Errorf("%s: %+v among %+v\nbefore %+v\nafter  %+v", rule, observed, nodes, before, after)
	}
	switch {
	case after.Outcome == identity.Match && after.Name == newcomer.Name:
		strong := after.Key == identity.KeyBoardSerial || after.Key == identity.KeyUUID || after.Key == identity.KeyMAC
		if before.Outcome == identity.Match && !strong {
			fail("a newcomer takes a match over by a serial alone")
		}
		if before.Outcome == identity.Match && !claimsAllOf(nodes[:3], before.Name, newcomer, observed) {
			fail("a newcomer takes a match over although the machine shows a value of the former alone")
		}
	case before.Outcome == identity.Nobody:
		if after.Outcome != identity.Nobody && !slices.Contains(after.Names, newcomer.Name) {
			fail("a newcomer causes a verdict that it has no part in")
		}
	case before.Outcome == identity.Match:
		if after.Outcome == identity.Nobody || after.Outcome == identity.Match && after.Name != before.Name {
			fail("a newcomer moves a match to another node")
		}
	case before.Outcome == identity.Conflict:
		if after.Outcome != identity.Conflict {
			fail("a newcomer resolves a conflict between others")
		}
	}
}

// claimsAllOf tells whether the newcomer claims everything that the machine shows
// of the candidate whose match it took over: the only case in which a match
// goes to another node, and not into a conflict.
func claimsAllOf(old []identity.Candidate, name string, newcomer identity.Candidate, observed identity.Facts) bool {
	i := slices.IndexFunc(old, func(c identity.Candidate) bool { return c.Name == name })
	x := identity.NewIndex([]identity.Candidate{old[i], newcomer, {Name: "machine", Facts: []identity.Facts{observed}}})
	return !slices.ContainsFunc(x.Traits(0), func(trait identity.Trait) bool {
		return slices.Contains(trait.Shared, "machine") && !slices.Contains(trait.Shared, newcomer.Name)
	})
}

// placeholdersSayNothing: one in any field is like an empty field.
func placeholdersSayNothing(t *testing.T, g fleets) {
	nodes, observed := g.candidates(3), g.facts()
	blank := observed
	filled := observed
	placeholder := g.pick("To be filled by O.E.M.", "0123456789", "   ", "xxxxxx", "Default string")
	switch g.IntN(4) {
	case 0:
		blank.Serial, filled.Serial = "", placeholder
	case 1:
		blank.BoardSerial, filled.BoardSerial = "", placeholder
	case 2:
		blank.ChassisSerial, filled.ChassisSerial = "", placeholder
	case 3:
		blank.UUID, filled.UUID = "", "ffffffff-ffff-ffff-ffff-ffffffffffff"
	}
	nodes = append(nodes, identity.Candidate{Name: "p", Facts: []identity.Facts{{Serial: placeholder, BoardSerial: placeholder}}})
	x := identity.NewIndex(nodes)
	if diff := cmp.Diff(x.Match(blank), x.Match(filled)); diff != "" {
		t.Errorf("placeholder %q matters for %+v among %+v:\n%s", placeholder, observed, nodes, diff)
	}
}

// neverTheWrongMachine: in a fleet of real machines, whose boards and UUIDs are
// unique and whose serials are shared by a chassis, a machine that shows board
// serial and UUID is never taken for a node of which one of them is known,
// whatever else its inventory leaves out.
func neverTheWrongMachine(t *testing.T, g fleets) {
	const machines = 8
	truth := make([]identity.Facts, machines)
	nodes := make([]identity.Candidate, 0, machines)
	for i := range truth {
		truth[i] = identity.Facts{
			Serial: fmt.Sprintf("SYS%04d", i/g.pickInt(1, 4)), ChassisSerial: fmt.Sprintf("CHA%04d", i/4),
			BoardSerial: fmt.Sprintf("BRD%04d", i), UUID: fmt.Sprintf("%08x-1111-2222-3333-444444444444", i+1),
			MACs: []string{fmt.Sprintf("52:54:00:00:00:%02x", i)},
		}
		known := truth[i]
		known.Serial = g.pick("", known.Serial, known.BoardSerial, known.ChassisSerial, strings.ToLower(known.Serial)+" ")
		if g.IntN(2) == 0 {
			known.BoardSerial = ""
		} else if g.IntN(2) == 0 {
			known.UUID = ""
		}
		if g.IntN(2) == 0 {
			known.MACs = nil
		}
		if g.IntN(4) > 0 {
			nodes = append(nodes, identity.Candidate{Name: fmt.Sprint(i), Facts: []identity.Facts{known}})
		}
	}
	x := identity.NewIndex(nodes)
	for i, machine := range truth {
		machine.ChassisSerial = "" // iPXE has no name for it
		if v := x.Match(machine); v.Outcome == identity.Match && v.Name != fmt.Sprint(i) {
			t.Errorf("machine %d %+v is taken for node %s (%s) among %+v", i, machine, v.Name, v.Reason, nodes)
		}
	}
}

func (g fleets) pickInt(values ...int) int { return values[g.IntN(len(values))] }

// comparisonAgrees: what Compare calls another board or UUID never matches,
// and a match has something that Compare finds as well.
func comparisonAgrees(t *testing.T, g fleets) {
	nodes, observed := g.candidates(3), g.facts()
	v := identity.NewIndex(nodes).Match(observed)
	if v.Outcome != identity.Match {
		return
	}
	i := slices.IndexFunc(nodes, func(c identity.Candidate) bool { return c.Name == v.Name })
	key, agrees, reason := identity.Compare(nodes[i].Facts, observed)
	if !agrees && key != identity.KeySerial {
		t.Errorf("%+v matches %+v, but compared: %q %s", observed, nodes[i], key, reason)
	}
	if agrees && key != v.Key {
		t.Errorf("%+v matches %+v by %s, but compared by %s", observed, nodes[i], v.Key, key)
	}
}

var properties = map[string]func(*testing.T, fleets){
	"order does not matter":               orderDoesNotMatter,
	"addition only restricts":             additionOnlyRestricts,
	"placeholders say nothing":            placeholdersSayNothing,
	"never the wrong machine":             neverTheWrongMachine,
	"comparison agrees with the matching": comparisonAgrees,
}

func TestMatchProperties(t *testing.T) {
	t.Parallel()
	for name, holds := range properties {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(1000) {
				holds(t, fleet(seed))
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

func FuzzMatch(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		for _, holds := range properties {
			holds(t, fleet(seed))
		}
	})
}

func BenchmarkIndex(b *testing.B) {
	const boards = 10_000
	nodes := make([]identity.Candidate, 0, boards)
	for i := range boards {
		nodes = append(nodes, identity.Candidate{Name: fmt.Sprintf("node-%05d", i), Facts: []identity.Facts{{
			Serial: fmt.Sprintf("SYS%04d", i/4), BoardSerial: fmt.Sprintf("BRD%05d", i), ChassisSerial: fmt.Sprintf("CHA%04d", i/4),
			UUID: fmt.Sprintf("%08x-1111-2222-3333-444444444444", i+1), MACs: []string{fmt.Sprintf("52:54:00:00:%02x:%02x", i>>8, i&0xff)},
		}}})
	}
	x := identity.NewIndex(nodes)
	b.Run("build", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			identity.NewIndex(nodes)
		}
	})
	b.Run("match", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if x.Match(nodes[4711].Facts[0]).Name != nodes[4711].Name {
				b.Fatal("wrong node")
			}
		}
	})
}
