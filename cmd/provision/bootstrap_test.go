package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner"
)

// I6: a control plane that failed before it was seen in maintenance may hold the
// data of an earlier cluster. The others wait for it, and the next run, after it
// was mended, goes on without a power cycle of what is installed.
func TestI6AControlPlaneThatFailsHoldsTheBootstrapUntilItIsMended(t *testing.T) {
	t.Parallel()
	f := newClusters(t, func(m *fleet.Machine) { m.Mute = m.Name == "node-02" }, fleet.Cluster{Name: "prod", ControlPlanes: 2, Workers: 1})
	edit(t, f, "provision.yaml", "bootTimeout: 2m", "bootTimeout: 20s")
	edit(t, f, "provision.yaml", "readyTimeout: 2m", "readyTimeout: 10s")
	edit(t, f, "provision.yaml", "attempts: 2", "attempts: 1")
	r, last := provisionCluster(t, f, "prod")
	causes := map[string]string{}
	for node, e := range last {
		causes[node] = e.State + ": " + e.Message
	}
	want := map[string]string{
		"node-01": "Failed: " + string(provisioner.CauseBootstrap), "node-02": "Failed: " + string(provisioner.CauseNoDHCP),
		// A worker is silent until a control plane signs its certificate.
		"node-03": causes["node-03"],
	}
	if diff := cmp.Diff(want, causes); diff != "" || r.status != exitFailed || !strings.Contains(last["node-01"].Error, "node-02") {
		t.Fatalf("status %d, %s; last states (-want +got):\n%s", r.status, last["node-01"].Error, diff)
	}
	if n := bootstraps(f); n != 0 {
		t.Fatalf("etcd was bootstrapped %d times beside a control plane that may have its data", n)
	}

	mended := f.Machines()[1]
	if err := mended.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	mended.Mute = false
	edit(t, f, "provision.yaml", "readyTimeout: 10s", "readyTimeout: 2m")
	r, last = provisionCluster(t, f, "prod")
	if diff := cmp.Diff(map[string]string{"node-01": "Ready", "node-02": "Ready", "node-03": "Ready"}, states(last)); diff != "" || r.status != exitDone {
		t.Errorf("mended: status %d, last states (-want +got):\n%s\n%s", r.status, diff, r.err)
	}
	if n := bootstraps(f); n != 1 {
		t.Errorf("etcd was bootstrapped %d times, want once", n)
	}
	if diff := cmp.Diff([]int{1, 2, 1}, powerOns(f)); diff != "" {
		t.Errorf("power-ons (-want +got):\n%s", diff)
	}
}
