package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/talos-provision/provision/inventory"
)

// metrics are what a scrape tells of the daemon. All of it is read at that moment.
type metrics struct {
	d *Daemon

	leads, alive, refused, findings, install, nodes, runs, states, holds *prometheus.Desc
}

// Collector tells of the daemon in Prometheus' form. Names follow its conventions;
// labels are few and bounded: clusters, states, severities.
func (d *Daemon) Collector() prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("provision_"+name, help, labels, nil)
	}
	return metrics{
		d:        d,
		leads:    desc("site_leader", "Whether this controller leads its site (1) or stands by (0).", "site"),
		alive:    desc("state_reachable", "Whether the state store is within reach."),
		refused:  desc("inventory_refused", "Whether the newest inventory is refused (1), so that the last good one goes on."),
		findings: desc("inventory_findings", "Findings of the newest inventory, by severity.", "severity"),
		install:  desc("inventory_install_nodes", "Nodes of the inventory in use that are marked install: true.", "cluster"),
		nodes:    desc("inventory_nodes", "Nodes of the inventory in use.", "cluster"),
		runs:     desc("runs_active", "Runs that go on in this controller."),
		states:   desc("nodes", "Nodes by the state that they were last known in.", "cluster", "state"),
		holds:    desc("nodes_held_by_a_person", "Nodes that a person holds.", "cluster"),
	}
}

// Describe implements prometheus.Collector.
func (m metrics) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{m.leads, m.alive, m.refused, m.findings, m.install, m.nodes, m.runs, m.states, m.holds} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (m metrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	m.d.mu.Lock()
	leads, g, src, runs := m.d.leading != nil, m.d.generation, m.d.src, len(m.d.jobs)
	m.d.mu.Unlock()
	gauge(m.leads, truth(leads), m.d.opts.Site)
	gauge(m.alive, truth(m.d.opts.Store.Alive() == nil))
	gauge(m.runs, float64(runs))
	if src != nil {
		status := src.Status()
		found := status.Good.Warnings
		if status.Refusal != nil {
			found = status.Refusal.Findings
		}
		gauge(m.refused, truth(status.Refusal != nil))
		for _, severity := range []inventory.Severity{inventory.Error, inventory.Warning} {
			gauge(m.findings, float64(found.Count(severity)), severity.String())
		}
	}
	if g.Tree != nil {
		m.inventory(g.Tree.Nodes, gauge)
	}
	m.state(to, gauge)
}

type setGauge func(desc *prometheus.Desc, value float64, labels ...string)

func (m metrics) inventory(nodes []inventory.Node, gauge setGauge) {
	all, install := map[string]int{}, map[string]int{}
	for _, n := range nodes {
		all[n.Cluster]++
		if n.Install {
			install[n.Cluster]++
		}
	}
	for cluster, count := range all {
		gauge(m.nodes, float64(count), cluster)
		gauge(m.install, float64(install[cluster]), cluster)
	}
}

// state tells of the store. What cannot be read is an error of the scrape: numbers
// that are not known are not told.
func (m metrics) state(to chan<- prometheus.Metric, gauge setGauge) {
	records, err := m.d.opts.Store.Status("")
	if err != nil {
		to <- prometheus.NewInvalidMetric(m.states, err)
		return
	}
	states := map[[2]string]int{}
	for _, r := range records {
		states[[2]string{r.Cluster, r.State}]++
	}
	for key, count := range states {
		gauge(m.states, float64(count), key[0], key[1])
	}
	holds, err := m.d.opts.Store.Holds()
	if err != nil {
		to <- prometheus.NewInvalidMetric(m.holds, err)
		return
	}
	held := map[string]int{}
	for _, h := range holds {
		held[h.Cluster]++
	}
	for cluster, count := range held {
		gauge(m.holds, float64(count), cluster)
	}
}

func truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
