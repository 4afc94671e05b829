package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/store"
)

// life is the order of a node's states, those that end a run apart.
var life = []provisioner.State{
	provisioner.Pending, provisioner.Identified, provisioner.Armed, provisioner.PowerCycled, provisioner.Booting,
	provisioner.Maintenance, provisioner.Configured, provisioner.Installed, provisioner.Ready,
}

// How a state was left.
const (
	advanced = "advanced" // for a later one
	retried  = "retried"  // for an earlier one: it is tried again
	failed   = "failed"
	held     = "held"
)

// stepBuckets are in seconds, up to half an hour.
var stepBuckets = []float64{1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600, 1200, 1800}

// steps follow the nodes of runs from state to state.
type steps struct {
	durations *prometheus.HistogramVec
	failures  *prometheus.CounterVec
	powerOns  prometheus.Counter
	retries   prometheus.Counter
	rank      map[string]int

	mu    sync.Mutex
	stays map[string]stay // by cluster/name
}

// stay is since when a node is in a state. There is one only when this process saw
// the node enter the state: a restart invents no durations.
type stay struct {
	run, state string
	since      time.Time
}

func newSteps() *steps {
	s := &steps{
		durations: histograms("step_duration_seconds", "How long nodes were in a state, by the state and how they left it: advanced, retried, failed, held. A state that was entered before the daemon began to work on the node is not counted.", stepBuckets, "state", "outcome"),
		failures:  counters("node_failures_total", "Nodes that a run gave up, by outcome (failed, or held because touching them is not safe) and cause.", "outcome", "cause"),
		powerOns:  counter("power_ons_total", "Nodes that were power cycled to boot from the network."),
		retries:   counter("node_retries_total", "Times that a node was begun anew, or given its config once more, because it did not get on."),
		rank:      map[string]int{},
		stays:     map[string]stay{},
	}
	for i, state := range life {
		s.rank[string(state)] = i + 1
		if state != provisioner.Ready {
			s.durations.WithLabelValues(string(state), advanced)
		}
	}
	return s
}

func (s *steps) collectors() []prometheus.Collector {
	return []prometheus.Collector{s.durations, s.failures, s.powerOns, s.retries}
}

// Events counts events before it hands them on to next, which may be nil.
func (s *Set) Events(next func(store.Event)) func(store.Event) {
	if s == nil {
		return next
	}
	return func(e store.Event) {
		s.steps.event(e)
		if next != nil {
			next(e)
		}
	}
}

// Forget ends the stays of a cluster's nodes, of all nodes with an empty name. It is
// for the beginning of a run and of a leadership: what was before may have been
// interrupted, or been another controller's.
func (s *Set) Forget(cluster string) {
	if s == nil {
		return
	}
	s.steps.mu.Lock()
	defer s.steps.mu.Unlock()
	for id := range s.steps.stays {
		if cluster == "" || len(id) > len(cluster) && id[:len(cluster)] == cluster && id[len(cluster)] == '/' {
			delete(s.steps.stays, id)
		}
	}
}

func (s *steps) event(e store.Event) {
	id := e.Cluster + "/" + e.Node
	s.mu.Lock()
	before, known := s.stays[id]
	switch begins := e.State == string(provisioner.Pending) && before.run != e.Run; {
	case e.State == e.Previous && !begins:
		s.mu.Unlock()
		return // more of the same state
	case s.ends(e.State):
		delete(s.stays, id)
	default:
		s.stays[id] = stay{run: e.Run, state: e.State, since: e.Time}
	}
	s.mu.Unlock()
	if e.State == e.Previous {
		return // the first of a run
	}
	outcome := s.outcome(e)
	if known && before.run == e.Run && before.state == e.Previous && !e.Time.Before(before.since) {
		s.durations.WithLabelValues(e.Previous, outcome).Observe(e.Time.Sub(before.since).Seconds())
	}
	switch {
	case s.ends(e.State):
		s.failures.WithLabelValues(outcome, e.Cause).Inc()
	case outcome == retried:
		s.retries.Inc()
	case e.State == string(provisioner.PowerCycled):
		s.powerOns.Inc()
	}
}

// ends says whether a state ends a run without its goal.
func (s *steps) ends(state string) bool { return provisioner.State(state).GivenUp() }

func (s *steps) outcome(e store.Event) string {
	switch {
	case e.State == string(provisioner.Failed):
		return failed
	case e.State == string(provisioner.Held):
		return held
	case s.rank[e.State] < s.rank[e.Previous]:
		return retried
	}
	return advanced
}
