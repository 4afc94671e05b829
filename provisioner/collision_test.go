package provisioner

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
)

func TestCollisionsSayWhoIsFrozenByThem(t *testing.T) {
	t.Parallel()
	f := NewFleet([]inventory.Node{
		// Four boards of one chassis: the serial is shared, and each has a board serial of its own.
		{Name: "node-1", Cluster: "a", Serial: "S1"},
		{Name: "node-2", Cluster: "a", Serial: "S1"},
		// Two that nothing tells apart.
		{Name: "node-3", Cluster: "a", Serial: "S2"},
		{Name: "node-4", Cluster: "b", Serial: "S2"},
		{Name: "node-5", Cluster: "b", Serial: "S3"},
	})
	f.Learn("a/node-1", board1)
	f.Learn("a/node-2", board2)
	want := []Collision{
		{Collision: identity.Collision{Key: identity.KeySerial, Value: "S1", Names: []string{"a/node-1", "a/node-2"}}},
		{Collision: identity.Collision{Key: identity.KeySerial, Value: "S2", Names: []string{"a/node-3", "b/node-4"}}, Frozen: []string{"a/node-3", "b/node-4"}},
	}
	if diff := cmp.Diff(want, f.Collisions()); diff != "" {
		t.Error(diff)
	}
	c := &Controller{fleet: f}
	for id, conflict := range map[string]bool{"a/node-1": false, "a/node-3": true, "b/node-5": false, "b/node-9": false} {
		if got := c.Conflict(id); (got != "") != conflict {
			t.Errorf("the conflict of %s is %q", id, got)
		}
	}
}
