package provisioner

import (
	"testing"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
)

func TestAnInventoryThatSaysTheSameKeepsTheIndex(t *testing.T) {
	t.Parallel()
	nodes := []inventory.Node{
		{Name: "node-1", Cluster: "a", Serial: "S1", BMC: inventory.BMC{Address: "10.0.0.1"}},
		{Name: "node-2", Cluster: "a", Serial: "S2", BMC: inventory.BMC{Address: "10.0.0.2"}},
	}
	f := NewFleet(nodes)
	f.Learn("a/node-1", identity.Facts{Serial: "S1", BoardSerial: "B1"})
	index := f.indexed()
	f.Replace(nodes)
	if f.indexed() != index {
		t.Error("the index was made anew for the same nodes")
	}
	moved := []inventory.Node{nodes[0], nodes[1]}
	moved[0].BMC.Address = "10.0.0.3" // what the other BMC reported is of another machine
	f.Replace(moved)
	if f.indexed() == index || f.Match(identity.Facts{BoardSerial: "B1"}).Outcome != identity.Nobody {
		t.Error("a node that has another BMC keeps the board of the old one")
	}
	moved[1].Serial = "S3"
	f.Replace(moved)
	if v := f.Match(identity.Facts{Serial: "S3"}); v.Outcome != identity.Match || v.Name != "a/node-2" {
		t.Errorf("the new serial is %+v", v)
	}
}
