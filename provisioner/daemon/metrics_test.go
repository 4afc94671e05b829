package daemon

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/inventory/source"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/store/storetest"
)

// refusing is a source whose newest inventory is refused.
type refusing struct {
	fakeSource
	refusal source.Refusal
}

func (r refusing) Status() source.Status { return source.Status{Good: r.first, Refusal: &r.refusal} }

// A scrape tells of the site, the inventory with its findings, the nodes by state and
// the holds; a registry that checks everything takes it.
func TestAScrapeTellsHowThingsStand(t *testing.T) {
	t.Parallel()
	state := openState(t)
	d := newDaemon(t, &fakeHost{state: state})
	g := generation("1", node("a", true), node("b", false))
	d.generation = g
	d.src = refusing{fakeSource{g}, source.Refusal{
		Err:      errors.New("two errors"),
		Findings: inventory.Findings{{Severity: inventory.Error}, {Severity: inventory.Error}, {Severity: inventory.Warning}},
	}}
	err := errors.Join(
		state.Record(store.Node{Cluster: "demo", Name: "a", State: "Maintenance"}, store.Event{}),
		state.Record(store.Node{Cluster: "demo", Name: "b", State: "Failed"}, store.Event{}),
		state.SetHold(store.Hold{Cluster: "demo", Node: "b", Reason: "fan"}),
		state.RecordUnknown(store.Unknown{Facts: identity.Facts{Serial: "X1"}}),
		state.RecordUnknown(store.Unknown{Facts: identity.Facts{Serial: "X2"}}),
	)
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(d.Collector())
	want := map[string]float64{
		"provision_site_leader{site=}":                     0,
		"provision_state_reachable{}":                      1,
		"provision_inventory_refused{}":                    1,
		"provision_inventory_findings{severity=error}":     2,
		"provision_inventory_findings{severity=warning}":   1,
		"provision_inventory_nodes{cluster=demo}":          2,
		"provision_inventory_install_nodes{cluster=demo}":  1,
		"provision_runs_active{}":                          0,
		"provision_nodes{cluster=demo}{state=Failed}":      1,
		"provision_nodes{cluster=demo}{state=Maintenance}": 1,
		"provision_nodes_held_by_a_person{cluster=demo}":   1,
		"provision_unknown_machines{}":                     2,
	}
	if diff := cmp.Diff(want, scrape(t, registry)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// The age of a state is that of the node which has been in it for longest, among those
// that a run still works on.
func TestTheLongestStayInAStateIsTold(t *testing.T) {
	t.Parallel()
	now := time.Now()
	plans := map[string]provisioner.Plan{
		"1": {Nodes: []provisioner.PlanNode{
			{Cluster: "demo", Node: "a", Until: provisioner.UntilReady}, {Cluster: "demo", Node: "b", Until: provisioner.UntilReady},
			{Cluster: "demo", Node: "c", Until: provisioner.UntilMaintenance}, {Cluster: "demo", Node: "d", Until: provisioner.UntilConfigured},
			{Cluster: "demo", Node: "e", Until: provisioner.UntilReady}, {Cluster: "demo", Node: "f", Until: provisioner.UntilReady},
			{Cluster: "demo", Node: "g", Until: provisioner.UntilReady},
		}},
	}
	at := func(node, run, state string, age time.Duration) store.Node {
		return store.Node{Cluster: "demo", Name: node, Run: run, State: state, Since: now.Add(-age)}
	}
	got := ages([]store.Node{
		at("a", "1", "Booting", time.Minute), at("b", "1", "Booting", time.Hour),
		at("c", "1", "Maintenance", 2*time.Hour),                                  // its goal
		at("d", "1", "Installed", 3*time.Hour),                                    // beyond its goal
		at("e", "1", "Failed", 4*time.Hour), at("f", "0", "Booting", 5*time.Hour), // of a run that is over
		at("g", "1", "Maintenance", 5*time.Minute), at("h", "1", "Booting", 6*time.Hour), // not of the plan
	}, plans, now)
	want := map[[2]string]time.Duration{{"demo", "Booting"}: time.Hour, {"demo", "Maintenance"}: 5 * time.Minute}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ages (-want +got):\n%s", diff)
	}
}

// While the state is out of reach a scrape says so at once, and tells nothing that it
// does not know.
func TestAScrapeDoesNotWaitForAStateThatIsOutOfReach(t *testing.T) {
	t.Parallel()
	endpoint, etcd := storetest.StartEtcd(t)
	state, err := store.Connect(t.Context(), "etcd://"+endpoint, store.Options{TTL: 2 * time.Second, Timeout: 6 * time.Second, Controller: "a"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = state.Close() }) // etcd is gone
	if err := state.Record(store.Node{Cluster: "demo", Name: "a", State: "Booting"}, store.Event{}); err != nil {
		t.Fatal(err)
	}
	d := newDaemon(t, &fakeHost{state: state})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(d.Collector())
	if got := scrape(t, registry)["provision_nodes{cluster=demo}{state=Booting}"]; got != 1 {
		t.Errorf("%v nodes boot while etcd answers, want 1", got)
	}
	etcd.Kill()
	until(t, "the state to be out of reach", func() bool { return state.Alive() != nil })
	begun := time.Now()
	got := scrape(t, registry)
	if took := time.Since(begun); took > 3*time.Second { // each look at etcd would take six
		t.Errorf("the scrape took %s", took)
	}
	if reachable, told := got["provision_state_reachable{}"]; !told || reachable != 0 {
		t.Errorf("the state is told as reachable: %v", got)
	}
	for name := range got {
		if strings.HasPrefix(name, "provision_nodes") {
			t.Errorf("%s is told, and cannot be known", name)
		}
	}
}

func scrape(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				name += fmt.Sprintf("{%s=%s}", label.GetName(), label.GetValue())
			}
			if len(m.GetLabel()) == 0 {
				name += "{}"
			}
			values[name] = m.GetGauge().GetValue()
		}
	}
	return values
}
