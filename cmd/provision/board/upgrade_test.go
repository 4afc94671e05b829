package board

import (
	"testing"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
)

func TestANodeOfAnUpgradeIsDoneWhenItIsUpgraded(t *testing.T) {
	t.Parallel()
	f := NewFleet([]Node{{Cluster: "prod", Name: "n1", State: "Pending", Goal: "Upgraded"}})
	for _, step := range []struct {
		state string
		done  bool
	}{
		{"Gated", false}, {"Cordoned", false}, {"Drained", false}, {"Upgrading", false}, {"Rebooting", false}, {"Verifying", false},
		{"Uncordoned", false}, {"Upgraded", true}, {"Failed", false}, {"Held", false},
	} {
		f.Apply(store.Event{Time: time.Unix(1, 0), Cluster: "prod", Node: "n1", State: step.state})
		if got := f.byID["prod/n1"].done(); got != step.done {
			t.Errorf("in %s: done is %v", step.state, got)
		}
	}
}
