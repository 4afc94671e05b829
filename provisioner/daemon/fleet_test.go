package daemon

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
)

func TestANodeIsShownByAllWhoSawIt(t *testing.T) {
	t.Parallel()
	h := &fakeHost{state: openState(t)}
	d := newDaemon(t, h)
	d.settings.AutoInstall = false
	first, second := node("node-01", true), node("node-02", true)
	first.Cluster, second.Cluster = "demo", "demo"
	first.Serial, second.Serial = "S1", "S1"
	first.Labels = map[string]string{"rack": "r1"}
	first.BMC = inventory.BMC{Address: "10.0.0.1", Username: "admin", PasswordEnv: "SECRET"}
	record := store.Node{Cluster: first.Cluster, Name: first.Name, State: "Ready", Facts: identity.Facts{Serial: "S1"}}
	err := errors.Join(
		h.state.Record(record, store.Event{Cluster: first.Cluster, Node: first.Name, State: "Ready"}),
		h.state.RecordBoot(store.Boot{Cluster: first.Cluster, Node: first.Name, Kind: "install"}),
		h.state.SetHold(store.Hold{Cluster: first.Cluster, Node: first.Name, Reason: "fan"}),
		h.state.Record(store.Node{Cluster: "gone", Name: "old"}, store.Event{Cluster: "gone", Node: "old"}),
		h.state.RecordUpgrade("demo", "node-01", map[string]string{"cluster": "demo", "node": "node-01", "state": "Drained", "run": "u1"}, store.Event{Cluster: "demo", Node: "node-01", State: "Drained"}),
		h.state.SaveUpgradeRun("demo", map[string]string{"run": "u1", "target": "v1.13.9"}),
	)
	if err != nil {
		t.Fatal(err)
	}
	start(t, d, generation("g1", first, second))

	fleet, err := d.Fleet(t.Context(), first.Cluster)
	want := web.InventoryNode{
		Cluster: first.Cluster, Node: first.Name, File: first.File, Install: true, BMC: "10.0.0.1", Arch: first.Arch, Labels: first.Labels,
		IP: first.IP, TalosVersion: first.TalosVersion, SchematicID: first.SchematicID, Facts: identity.Facts{Serial: "S1"},
	}
	if err != nil || len(fleet) != 2 {
		t.Fatalf("the fleet is %+v, error %v", fleet, err)
	}
	if diff := cmp.Diff(want, fleet[0]); diff != "" {
		t.Error(diff)
	}
	detail, err := d.Detail(t.Context(), first.Cluster, first.Name)
	switch {
	case err != nil:
		t.Fatal(err)
	case detail.Inventory == nil || detail.Record == nil || detail.Boot == nil || detail.Hold == nil:
		t.Errorf("something is missing in %+v", detail)
	case detail.Conflict == "":
		t.Error("two nodes of one serial, and no conflict is told")
	case len(detail.Events) != 2 || detail.Events[0].State != "Ready" || detail.Events[1].State != "Drained":
		t.Errorf("the timeline is %+v", detail.Events)
	}
	collisions, err := d.Collisions(t.Context())
	both := []string{first.ID(), second.ID()}
	if diff := cmp.Diff([]web.Collision{{Key: identity.KeySerial, Value: "S1", Nodes: both, Frozen: both}}, collisions); diff != "" || err != nil {
		t.Errorf("error %v, %s", err, diff)
	}
	upgrades, err := d.Upgrades(t.Context())
	wantUpgrades := []web.UpgradeInfo{{
		ID: "u1", Cluster: "demo", Target: "v1.13.9", Nodes: []web.UpgradeNode{{Node: "node-01", State: "Drained"}},
		Stopped: "whoever worked on it has ended: carry it on with `provision upgrade --cluster demo --continue`", // nobody has its nodes
	}}
	if diff := cmp.Diff(wantUpgrades, upgrades); diff != "" || err != nil {
		t.Errorf("error %v, %s", err, diff)
	}
	claim, err := h.state.Claim(t.Context(), []string{first.ID()}, "upgrade of demo")
	if err != nil {
		t.Fatal(err)
	}
	if upgrades, err := d.Upgrades(t.Context()); err != nil || upgrades[0].Stopped != "" {
		t.Errorf("one that another works on: %+v, error %v", upgrades, err)
	}
	if err := claim.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	// One that left the inventory is still shown, one that nobody knows is not.
	if gone, err := d.Detail(t.Context(), "gone", "old"); err != nil || gone.Inventory != nil || gone.Record == nil {
		t.Errorf("a node that left the inventory: %+v, error %v", gone, err)
	}
	if _, err := d.Detail(t.Context(), "a", "nobody"); !errors.Is(err, web.ErrNotFound) {
		t.Errorf("a node that nobody knows: error %v", err)
	}
}
