package daemon

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/source"
	"github.com/talos-provision/provision/provisioner/store"
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
	}
	if diff := cmp.Diff(want, scrape(t, registry)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
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
