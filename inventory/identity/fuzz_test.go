package identity_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory/identity"
)

// FuzzVerdict gives any text as a fact, where FuzzMatch makes collisions of
// plausible ones. Whatever a machine shows, at most one node matches, the
// verdict is whole, and it depends on no order.
func FuzzVerdict(f *testing.F) {
	f.Add("S1", "B1", "00000000-0000-0000-0000-0cc47a000001", "0c:c4:7a:00:00:01", "S1", "B2", "S1", "B1")
	f.Add("None", "  ", "ffffffff-ffff-ffff-ffff-ffffffffffff", "00:00:00:00:00:00", "To be filled by O.E.M.", "", "0", "x")
	f.Add("ABC1234", ".ABC1234.CN0000000A0001.01a.", "44454c4c-4200-1043-8031-b2c04f333334", "", "ABC1234", "CN0000000A0001", "/F54P1G3/CNIVC0014M0388/", "F54P1G3")
	f.Add("PWAMT%%LM/B N02", "\x00\xff", "{4C4C4544004243108031B2C04F333334}", "0cc4.7a00.0001", "a//b", "..", "/./", "%")
	f.Fuzz(func(t *testing.T, serial, board, uuid, mac, serial1, board1, serial2, board2 string) {
		observed := identity.Facts{Serial: serial, BoardSerial: board, UUID: uuid, MACs: []string{mac}}
		nodes := []identity.Candidate{
			candidate("n1", identity.Facts{Serial: serial1, BoardSerial: board1}),
			candidate("n2", identity.Facts{Serial: serial2, BoardSerial: board2}, identity.Facts{UUID: uuid}),
			candidate("n3", identity.Facts{Serial: board1, MACs: []string{mac}}),
		}
		v := identity.NewIndex(nodes).Match(observed)
		switch {
		case v.Reason == "":
			t.Errorf("no reason: %+v", v)
		case v.Outcome == identity.Match && (v.Name == "" || v.Names != nil || v.Key == "" || v.Value == ""),
			v.Outcome == identity.Conflict && (v.Name != "" || len(v.Names) == 0 || !slices.IsSorted(v.Names)),
			v.Outcome == identity.Nobody && (v.Name != "" || v.Names != nil):
			t.Errorf("not whole: %+v", v)
		}
		slices.Reverse(nodes)
		if diff := cmp.Diff(v, identity.NewIndex(nodes).Match(observed)); diff != "" {
			t.Errorf("order matters:\n%s", diff)
		}
		if identity.IsPlaceholder(serial) {
			observed.Serial = ""
			if diff := cmp.Diff(v, identity.NewIndex(nodes).Match(observed)); diff != "" {
				t.Errorf("the placeholder %q matters:\n%s", serial, diff)
			}
		}
	})
}
