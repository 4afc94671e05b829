package daemon

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/store"
)

// metrics are what a scrape tells of the daemon. All of it is read at that moment.
type metrics struct {
	d *Daemon

	leads, alive, refused, findings, install, nodes, runs, states, ages, holds, unknown *prometheus.Desc
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
		ages:     desc("node_longest_in_state_seconds", "For how long a node of a run that goes on has been in its state, of those in the state the longest. Nodes that have reached their goal or were given up do not count.", "cluster", "state"),
		unknown:  desc("unknown_machines", "Machines that asked for a boot script and were no node of the inventory, or not to be told apart; at most 1,000 are kept."),
		holds:    desc("nodes_held_by_a_person", "Nodes that a person holds.", "cluster"),
	}
}

// Describe implements prometheus.Collector.
func (m metrics) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{m.leads, m.alive, m.refused, m.findings, m.install, m.nodes, m.runs, m.states, m.ages, m.holds, m.unknown} {
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
	plans := map[string]provisioner.Plan{} // of the runs that go on, by run
	for _, j := range m.d.jobs {
		plans[j.id] = j.plan
	}
	m.d.mu.Unlock()
	gauge(m.leads, truth(leads), m.d.opts.Site)
	alive := m.d.opts.Store.Alive() == nil
	gauge(m.alive, truth(alive))
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
	if alive { // else each look would take its timeout, and the scrape be given up
		m.state(to, gauge, plans)
	}
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
func (m metrics) state(to chan<- prometheus.Metric, gauge setGauge, plans map[string]provisioner.Plan) {
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
	for key, age := range ages(records, plans, time.Now()) {
		gauge(m.ages, age.Seconds(), key[0], key[1])
	}
	unknown, err := m.d.opts.Store.UnknownMachines()
	if err != nil {
		to <- prometheus.NewInvalidMetric(m.unknown, err)
		return
	}
	gauge(m.unknown, float64(len(unknown)))
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

// ages are for how long nodes of runs that go on have been in their states, by
// cluster and state: of each the longest.
func ages(records []store.Node, plans map[string]provisioner.Plan, now time.Time) map[[2]string]time.Duration {
	goals := map[[3]string]provisioner.Goal{} // by run, cluster and node
	for run, plan := range plans {
		for _, n := range plan.Nodes {
			goals[[3]string{run, n.Cluster, n.Node}] = n.Until
		}
	}
	longest := map[[2]string]time.Duration{}
	for _, r := range records {
		goal, worked := goals[[3]string{r.Run, r.Cluster, r.Name}]
		if !worked || provisioner.State(r.State).GivenUp() || reached(goal, r.State) {
			continue
		}
		key := [2]string{r.Cluster, r.State}
		longest[key] = max(longest[key], now.Sub(r.Since))
	}
	return longest
}

// reached says whether a node in this state has nothing more to do for its goal.
func reached(goal provisioner.Goal, state string) bool {
	order := []provisioner.Goal{provisioner.UntilMaintenance, provisioner.UntilConfigured, provisioner.UntilInstalled, provisioner.UntilReady}
	at := slices.IndexFunc(order, func(g provisioner.Goal) bool { return strings.EqualFold(string(g), state) })
	return at >= 0 && at >= slices.Index(order, goal)
}

func truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
