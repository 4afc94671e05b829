package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/store"
)

// Nodes of which there is the same to say are one line, however many they are.
func TestTheSummaryTellsEachThingOnce(t *testing.T) {
	t.Parallel()
	failed := func(name, cause, err string) store.Node {
		return store.Node{Name: name, State: "Failed", Cause: cause, Message: cause, Error: err, Hint: "look at the " + cause}
	}
	s := provisioner.Summary{
		Done:       []store.Node{{Name: "node-189", State: "Maintenance"}},
		Failed:     []store.Node{failed("node-191", "no DHCP seen", "silent for 15m0s"), failed("node-190", "BMC", "HTTP 500\x1b[2J"), failed("node-192", "no DHCP seen", "silent for 15m0s")},
		Held:       []store.Node{{Name: "node-193", State: "Held", Cause: "already configured", Error: "a configured Talos answers", Hint: "leave it alone"}},
		Unfinished: []store.Node{{Name: "node-194", State: "Booting"}, {Name: "node-196", State: "Armed"}, {Name: "node-195", State: "Booting"}},
	}
	for i := range 188 {
		s.Skipped = append(s.Skipped, provisioner.PlanNode{Node: fmt.Sprintf("node-%03d", i+1), Reason: "install is not true in the inventory"})
	}
	s.Skipped = append(s.Skipped, provisioner.PlanNode{Node: "spare", Reason: "configured since its run"})
	var out bytes.Buffer
	printSummary(&out, s)
	want := `
1 done, 3 failed, 1 held, 189 skipped, 3 not finished

node-190 failed, BMC: HTTP 500[2J
  -> look at the BMC

node-[191-192] (2 nodes) failed, no DHCP seen: silent for 15m0s
  -> look at the no DHCP seen

node-193 held, already configured: a configured Talos answers
  -> leave it alone

2 not finished, Booting: node-[194-195]
1 not finished, Armed: node-196

188 skipped: install is not true in the inventory: node-[001-188]
1 skipped: configured since its run: spare
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("the summary (-want +got):\n%s", diff)
	}
}

func TestASummaryWithoutTroubleIsOneLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	printSummary(&out, provisioner.Summary{Done: make([]store.Node, 12)})
	if got, want := out.String(), "\n12 done, 0 failed, 0 held, 0 skipped\n"; got != want {
		t.Errorf("it is %q, want %q", got, want)
	}
}

func TestNamesAreFoldedIntoAHostlist(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		want  string
		names []string
	}{
		{"", nil},
		{"a", []string{"a", "a"}},
		{"node-01", []string{"node-01"}},
		{"node-[01-03,09]", []string{"node-09", "node-02", "node-01", "node-03"}},
		{"node-1,node-[01-02]", []string{"node-01", "node-02", "node-1"}},
		{"node-[9-10,100]", []string{"node-9", "node-100", "node-10"}},
		{"node-9,node-[08-11]", []string{"node-9", "node-10", "node-08", "node-09", "node-11"}}, // 09 is not 9
		{"db,rack1-n[2-3].site", []string{"rack1-n2.site", "db", "rack1-n3.site"}},
		{"n-12345678901", []string{"n-12345678901"}},
		{"rack1-n[1-2],rack2-n1", []string{"rack1-n1", "rack1-n2", "rack2-n1"}},
	} {
		if got := foldNames(tc.names); got != tc.want {
			t.Errorf("%v is %q, want %q", tc.names, got, tc.want)
		}
	}
}

// What is printed can be given to --node, and means the same nodes.
func TestAFoldedHostlistMeansTheSameNodes(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same names every time
	for range 300 {
		var names []string
		for range 1 + random.IntN(40) {
			forms := []string{"node-%d", "node-%02d", "n%d-rack", "r%03dx2", "db"}
			name := forms[random.IntN(len(forms))]
			if name != "db" {
				name = fmt.Sprintf(name, random.IntN(30))
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		folded := foldNames(names)
		got, err := inventory.ParseHostlist(folded)
		if err != nil {
			t.Fatalf("%q of %v: %v", folded, names, err)
		}
		slices.Sort(got)
		slices.Sort(names)
		if diff := cmp.Diff(names, got); diff != "" {
			t.Fatalf("%q means other names (-want +got):\n%s", folded, diff)
		}
	}
}
