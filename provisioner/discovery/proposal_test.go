package discovery

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/inventory/identity"
)

// saw is a BMC at an address that reported these facts.
func saw(address string, facts identity.Facts) Sighting {
	return Sighting{Job: Job{Target: Target{address, address + ":443"}}, Status: Answered, Identity: bmc.Identity{Vendor: "Acme", Model: "R1", Facts: facts}}
}

// facts are those of the n-th board of a chassis.
func facts(n int) identity.Facts {
	return identity.Facts{
		Serial: "S4CHASSIS", ChassisSerial: "C4CHASSIS", BoardSerial: fmt.Sprintf("ZM4BOARD%02d", n),
		UUID: fmt.Sprintf("7a1e0000-0000-4000-8000-0cc47a0000%02x", n), MACs: []string{fmt.Sprintf("0c:c4:7a:00:00:%02x", n)},
	}
}

// propose joins sightings with the nodes of an inventory that have their address.
func propose(t *testing.T, files map[string]string, seen ...Sighting) (Report, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		put(t, dir, name, text)
	}
	tree := load(t, dir)
	for i := range seen {
		for j := range tree.Nodes {
			if tree.Nodes[j].BMC.Address == seen[i].Address {
				seen[i].Node = &tree.Nodes[j]
			}
		}
	}
	report, err := Propose(seen, tree, Options{Inventory: dir, Cluster: "prod", NameFormat: "node-%02d", BMC: []Field{{"bmc.username", []string{"jo"}}}})
	if err != nil {
		t.Fatal(err)
	}
	return report, dir
}

func diffs(r Report) string {
	var all strings.Builder
	for _, c := range r.Changes {
		all.WriteString(c.Diff())
	}
	return all.String()
}

func TestANewMachineIsAFileThatInstallsNothing(t *testing.T) {
	t.Parallel()
	f := facts(1)
	f.MACs = append(f.MACs, "02:00:00:00:00:01")
	s := saw("10.9.0.1", f)
	s.Identity.Sources = map[string]string{"mac 02:00:00:00:00:01": "/redfish/v1/x#/MACAddress (link between host and BMC)"}
	s.Identity.Model = "R1\n# install: true"
	report, _ := propose(t, map[string]string{"prod/_defaults.yaml": "install: true\n"}, s)
	want := `--- /dev/null
+++ prod/node-01.yaml
@@ -0,0 +1,10 @@
+# Found at 10.9.0.1: Acme R1 # install: true
+serial: S4CHASSIS
+boardSerial: ZM4BOARD01
+uuid: 7a1e0000-0000-4000-8000-0cc47a000001
+macs:
+- 0c:c4:7a:00:00:01
+install: false # set ip first, then true
+bmc:
+  address: 10.9.0.1
+  username: jo
`
	if diff := cmp.Diff(want, diffs(report)); diff != "" {
		t.Error(diff)
	}
}

func TestPlaceholdersAreNotWritten(t *testing.T) {
	t.Parallel()
	report, _ := propose(t, nil, saw("10.9.0.1", identity.Facts{
		Serial: "To be filled by O.E.M.", BoardSerial: "0123456789", UUID: "00000000-0000-0000-0000-000000000000", MACs: []string{"00:00:00:00:00:00"},
	}))
	got := diffs(report)
	for _, key := range []string{"serial:", "boardSerial:", "uuid:", "macs:"} {
		if strings.Contains(got, key) {
			t.Errorf("%s is written:\n%s", key, got)
		}
	}
}

// The serials of a chassis are reported with what tells its boards apart.
func TestSharedChassisAreReported(t *testing.T) {
	t.Parallel()
	report, _ := propose(t, map[string]string{"prod/node-07.yaml": "serial: S4CHASSIS\nboardSerial: ZM4BOARD07\n"},
		saw("10.9.0.1", facts(1)), saw("10.9.0.2", facts(2)))
	// The chassis serial is the two BMCs' alone: the inventory of node-07 does not have it.
	want := []Chassis{
		{Serials: []Serial{{identity.KeySerial, "S4CHASSIS"}}, Nodes: []string{"prod/node-07", "prod/node-08", "prod/node-09"}, ToldApartBy: identity.KeyBoardSerial, Values: []string{"ZM4BOARD07", "ZM4BOARD01", "ZM4BOARD02"}},
		{Serials: []Serial{{identity.KeyChassisSerial, "C4CHASSIS"}}, Nodes: []string{"prod/node-08", "prod/node-09"}, ToldApartBy: identity.KeyBoardSerial, Values: []string{"ZM4BOARD01", "ZM4BOARD02"}},
	}
	if diff := cmp.Diff(want, report.Chassis); diff != "" {
		t.Error(diff)
	}
	if report.Count(Add) != 2 || report.Count(Conflict) != 0 {
		t.Errorf("%+v", report.Proposals)
	}
}

func TestConflictsAreReportedAndNotWritten(t *testing.T) {
	t.Parallel()
	same := facts(1)
	same.UUID, same.MACs = facts(2).UUID, facts(2).MACs
	nothing := identity.Facts{Serial: "S4CHASSIS"}
	for _, tc := range []struct {
		name   string
		files  map[string]string
		seen   []Sighting
		counts map[Action]int
		want   string
	}{
		{"one board behind two BMCs (I1)", nil, []Sighting{saw("10.9.0.1", facts(1)), saw("10.9.0.2", same), saw("10.9.0.3", facts(3))},
			map[Action]int{Conflict: 2, Add: 1}, "board serial ZM4BOARD01 is that of"},
		{"a BMC of another machine than the node's", map[string]string{"prod/a.yaml": "boardSerial: OTHER9\nbmc: {address: 10.9.0.1}\n"}, []Sighting{saw("10.9.0.1", facts(1))},
			map[Action]int{Conflict: 1}, "expected OTHER9"},
		{"a node's machine behind another address", map[string]string{"prod/a.yaml": "boardSerial: ZM4BOARD01\nbmc: {address: 10.9.0.77}\n"}, []Sighting{saw("10.9.0.1", facts(1))},
			map[Action]int{Conflict: 1}, "whose bmc.address is 10.9.0.77"},
		{"a serial of one node on two machines", map[string]string{"prod/a.yaml": "serial: S4CHASSIS\n"}, []Sighting{saw("10.9.0.1", facts(1)), saw("10.9.0.2", facts(2))},
			map[Action]int{Conflict: 2}, "all show what prod/a is known by"},
		{"nothing tells them apart", nil, []Sighting{saw("10.9.0.1", nothing), saw("10.9.0.2", nothing)},
			map[Action]int{Conflict: 2}, "tells them apart"},
		{"a file that cannot be added to", map[string]string{"prod/a.yaml": "boardSerial: null\nbmc: {address: 10.9.0.1}\n"}, []Sighting{saw("10.9.0.1", facts(1))},
			map[Action]int{Conflict: 1}, "by hand"},
	} {
		report, _ := propose(t, tc.files, tc.seen...)
		for action, count := range tc.counts {
			if got := report.Count(action); got != count {
				t.Errorf("%s: %d %s, want %d: %+v", tc.name, got, action, count, report.Proposals)
			}
		}
		for _, p := range report.Proposals {
			if p.Action == Conflict && !strings.Contains(p.Reason, tc.want) {
				t.Errorf("%s: %s, want %q", tc.name, p.Reason, tc.want)
			}
			for _, c := range report.Changes {
				if p.Action == Conflict && strings.Contains(string(c.After), p.Address+"\n") {
					t.Errorf("%s: a file is written for %s:\n%s", tc.name, p.Address, c.After)
				}
			}
		}
	}
}

// A UUID that every board of a batch has is no error of the inventory's.
func TestASharedUUIDIsLeftOut(t *testing.T) {
	t.Parallel()
	one, two := facts(1), facts(2)
	two.UUID = one.UUID
	report, dir := propose(t, nil, saw("10.9.0.1", one), saw("10.9.0.2", two))
	if got := diffs(report); strings.Contains(got, "uuid") || report.Count(Add) != 2 || len(report.Proposals[0].Notes) != 1 {
		t.Errorf("%+v\n%s", report.Proposals, got)
	}
	if findings, err := Check(dir, report.Changes); err != nil || len(findings) > 0 {
		t.Error(findings, err)
	}
}

// An inventory that was made by hand for serials gets the rest from the BMCs.
func TestExistingFilesArePatchedAndKeepTheirComments(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"prod/_defaults.yaml": "netmask: 255.255.255.0\n",
		"prod/a.yaml":         "# left of the door\nserial:  S4CHASSIS   # shared\nip: 10.0.0.1\nbmc:\n  address: 10.9.0.1 # VLAN 9\n",
		"prod/b.yaml":         "serial: ZM4BOARD02 # the board's\nip: 10.0.0.2\nlabels: {rack: r1}\n",
		"prod/c.yaml":         "boardSerial: zm4board03\nuuid: 7A1E0000-0000-4000-8000-0CC47A000003\nmac: 0C-C4-7A-00-00-03\nserial: S4CHASSIS\nbmc: {address: 10.9.0.3}\n",
	}
	report, dir := propose(t, files, saw("10.9.0.1", facts(1)), saw("10.9.0.2", facts(2)), saw("10.9.0.3", facts(3)))
	if report.Count(Patch) != 2 || report.Count(Unchanged) != 1 {
		t.Errorf("%+v", report.Proposals)
	}
	if _, err := Write(dir, report.Changes); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"prod/_defaults.yaml": files["prod/_defaults.yaml"],
		"prod/a.yaml": "# left of the door\nserial:  S4CHASSIS   # shared\nboardSerial: ZM4BOARD01\nuuid: 7a1e0000-0000-4000-8000-0cc47a000001\nmacs:\n- 0c:c4:7a:00:00:01\n" +
			"ip: 10.0.0.1\nbmc:\n  address: 10.9.0.1 # VLAN 9\n",
		"prod/b.yaml": "serial: ZM4BOARD02 # the board's\nboardSerial: ZM4BOARD02\nuuid: 7a1e0000-0000-4000-8000-0cc47a000002\nmacs:\n- 0c:c4:7a:00:00:02\n" +
			"ip: 10.0.0.2\nlabels: {rack: r1}\nbmc:\n  address: 10.9.0.2\n  username: jo\n",
		"prod/c.yaml": files["prod/c.yaml"],
	}
	for name, text := range want {
		if diff := cmp.Diff(text, read(t, dir, name)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	load(t, dir)
}
