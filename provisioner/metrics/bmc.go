package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/talos-provision/provision/bmc"
)

// bmcBuckets are in seconds: BMCs answer in tenths of a second, and some take a minute.
var bmcBuckets = []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60}

type bmcMetrics struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

func newBMC() *bmcMetrics {
	m := &bmcMetrics{
		requests:  counters("bmc_requests_total", "Requests to BMCs, by what they are about and what came of them.", "operation", "outcome"),
		durations: histograms("bmc_request_duration_seconds", "How long BMCs took to answer a request, or not to, by what it is about.", bmcBuckets, "operation"),
	}
	for _, operation := range bmc.Operations() {
		m.durations.WithLabelValues(string(operation))
		for _, outcome := range bmc.Outcomes() {
			m.requests.WithLabelValues(string(operation), string(outcome))
		}
	}
	return m
}

func (m *bmcMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.durations}
}

// BMC counts a request to a BMC: bmc.Config.OnRequest.
func (s *Set) BMC(e bmc.Exchange) {
	if s == nil {
		return
	}
	s.bmc.requests.WithLabelValues(string(e.Operation), string(e.Outcome)).Inc()
	s.bmc.durations.WithLabelValues(string(e.Operation)).Observe(e.Duration.Seconds())
}
