package identity_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory/identity"
)

func TestTraitsSayWhatACandidateSharesWithWhom(t *testing.T) {
	t.Parallel()
	x := identity.NewIndex([]identity.Candidate{
		candidate("node-01", identity.Facts{Serial: "S1", BoardSerial: "b1 ", UUID: "None", MACs: []string{"0C-C4-7A-00-00-01"}}),
		candidate("node-02", identity.Facts{Serial: "s1"}, identity.Facts{Serial: "S1", BoardSerial: ".TAG0001.CN0000001.01a."}),
		candidate("node-03", identity.Facts{Serial: "S1", MACs: []string{"0c:c4:7a:00:00:01"}}),
		candidate("node-04"),
	})
	want := [][]identity.Trait{
		{
			{Key: identity.KeyBoardSerial, Value: "B1"},
			{Key: identity.KeyMAC, Value: "0c:c4:7a:00:00:01", Shared: []string{"node-03"}},
			{Key: identity.KeySerial, Value: "S1", Shared: []string{"node-02", "node-03"}},
		},
		{
			{Key: identity.KeyBoardSerial, Value: "CN0000001"},
			{Key: identity.KeySerial, Value: "S1", Shared: []string{"node-01", "node-03"}},
			{Key: identity.KeySerial, Value: "TAG0001"},
		},
		{
			{Key: identity.KeyMAC, Value: "0c:c4:7a:00:00:01", Shared: []string{"node-01"}},
			{Key: identity.KeySerial, Value: "S1", Shared: []string{"node-01", "node-02"}},
		},
		{},
	}
	for i := range want {
		if diff := cmp.Diff(want[i], x.Traits(i)); diff != "" {
			t.Errorf("traits of candidate %d (-want +got):\n%s", i, diff)
		}
	}
	if x.Traits(-1) != nil || x.Traits(4) != nil {
		t.Error("a candidate that is not there has traits")
	}
}
