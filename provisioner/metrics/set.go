// Package metrics counts what the daemon and its boot services do, for a scrape by
// Prometheus. Labels are from closed sets or from the configuration, never a node,
// an address or a name that somebody sent (I9): what is counted stays bounded.
package metrics

import (
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// prefix is what every name begins with.
const prefix = "provision_"

// Set is all that is counted while events pass by. It is a prometheus.Collector, and
// safe for concurrent use. A nil Set counts nothing.
type Set struct {
	steps    *steps
	bmc      *bmcMetrics
	dhcp     *dhcpMetrics
	boot     *bootMetrics
	assets   *assetMetrics
	webhooks *webhookMetrics

	all []prometheus.Collector
}

var _ prometheus.Collector = (*Set)(nil)

// New makes a set of zeros. version is that of the program.
func New(version string) *Set {
	s := &Set{
		steps: newSteps(), bmc: newBMC(), dhcp: newDHCP(), boot: newBoot(), assets: newAssets(), webhooks: newWebhooks(),
	}
	for _, part := range [][]prometheus.Collector{
		{buildInfo(version)}, s.steps.collectors(), s.bmc.collectors(), s.dhcp.collectors(), s.boot.collectors(),
		s.assets.collectors(), s.webhooks.collectors(),
	} {
		s.all = append(s.all, part...)
	}
	return s
}

// Describe implements prometheus.Collector.
func (s *Set) Describe(to chan<- *prometheus.Desc) {
	if s == nil {
		return
	}
	for _, c := range s.all {
		c.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (s *Set) Collect(to chan<- prometheus.Metric) {
	if s == nil {
		return
	}
	for _, c := range s.all {
		c.Collect(to)
	}
}

// buildInfo tells which program a scrape is of.
func buildInfo(version string) prometheus.Collector {
	revision := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				revision = setting.Value
			}
		}
	}
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: prefix + "build_info", Help: "Always 1; the labels say which version this is, and which Go and which commit it was built from.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version(), "revision": revision},
	}, func() float64 { return 1 })
}

// counter and its like keep the definitions of a part on a line each.
func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets})
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets}, labels)
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prefix+name, help, labels, nil)
}

// gauge sends one value of now.
func gauge(to chan<- prometheus.Metric, d *prometheus.Desc, value float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

// now is a collector of what is asked for at the moment of a scrape.
type now struct {
	descs   []*prometheus.Desc
	collect func(to chan<- prometheus.Metric)
}

// Describe implements prometheus.Collector.
func (n now) Describe(to chan<- *prometheus.Desc) {
	for _, d := range n.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (n now) Collect(to chan<- prometheus.Metric) { n.collect(to) }
