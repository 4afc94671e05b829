package metrics

import (
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/talos-provision/provision/pxe/dhcp"
	"github.com/talos-provision/provision/pxe/httpboot"
	"github.com/talos-provision/provision/pxe/tftp"
)

// Services are the boot services as they are now. *pxe.Services has it.
type Services interface {
	// Pools tell how full the subnets of DHCP are; none while it does not serve.
	Pools() []dhcp.Pool
	// Sending is how many files are being sent over HTTP.
	Sending() int
}

// scriptBuckets are in seconds: a script is made in tens of microseconds, and a
// machine that waits for one for a second is late.
var scriptBuckets = []float64{0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5}

// The kinds of scripts: httpboot's, and the local boot of a machine that is nobody's.
const (
	scriptInstall = "install"
	scriptLocal   = "local"
	scriptWait    = "wait"
	scriptUnknown = "unknown"
)

type bootMetrics struct {
	services atomic.Pointer[Services]

	tftpTransfers              *prometheus.CounterVec
	tftpBytes                  prometheus.Counter
	requests, bytes, scriptVec *prometheus.CounterVec
	scriptDurations            prometheus.Histogram

	scripts map[string]prometheus.Counter
	sent    map[httpboot.What]prometheus.Counter

	mu     sync.RWMutex
	served map[served]prometheus.Counter // made as they come: most statuses never do
}

// served is what a request is counted by.
type served struct {
	what   httpboot.What
	status int
}

func newBoot() *bootMetrics {
	m := &bootMetrics{
		tftpTransfers:   counters("tftp_transfers_total", "TFTP requests that have ended, by outcome.", "outcome"),
		tftpBytes:       counter("tftp_sent_bytes_total", "Bytes of files sent over TFTP, each counted once. They are counted at the end of a transfer."),
		requests:        counters("http_requests_total", "Requests to the boot services over HTTP, by what was asked for and HTTP status.", "kind", "status"),
		bytes:           counters("http_sent_bytes_total", "Bytes of answers of the boot services over HTTP, by what was asked for. They are counted at the end of a request.", "kind"),
		scriptVec:       counters("boot_scripts_total", "Machines that were told what to boot: install, local (their own disk), wait, or unknown (their own disk, because they are no node of the inventory or not to be told apart).", "kind"),
		scriptDurations: histogram("boot_script_duration_seconds", "How long machines waited for a boot script.", scriptBuckets),
		scripts:         map[string]prometheus.Counter{}, sent: map[httpboot.What]prometheus.Counter{}, served: map[served]prometheus.Counter{},
	}
	for _, outcome := range []tftp.Outcome{tftp.Done, tftp.Probed, tftp.Aborted, tftp.Failed, tftp.Missing, tftp.Refused} {
		m.tftpTransfers.WithLabelValues(string(outcome))
	}
	for _, kind := range []string{scriptInstall, scriptLocal, scriptWait, scriptUnknown} {
		m.scripts[kind] = m.scriptVec.WithLabelValues(kind)
	}
	for _, what := range httpboot.Whats() {
		m.sent[what] = m.bytes.WithLabelValues(string(what))
		m.count(served{what, 200})
	}
	return m
}

func (m *bootMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.tftpTransfers, m.tftpBytes, m.requests, m.bytes, m.scriptVec, m.scriptDurations, m.now()}
}

// now are the gauges of the boot services that serve at the moment.
func (m *bootMetrics) now() now {
	sending := desc("http_transfers_in_flight", "Files that are being sent over HTTP.")
	size := desc("dhcp_pool_addresses", "Addresses that DHCP has for machines without a reservation, by subnet.", "subnet")
	used := desc("dhcp_pool_addresses_used", "Addresses of them that are leased, offered or found in use by a machine without a lease, by subnet.", "subnet")
	leases := desc("dhcp_leases", "Confirmed DHCP leases that last, those of reserved addresses among them, by subnet.", "subnet")
	return now{
		descs: []*prometheus.Desc{sending, size, used, leases},
		collect: func(to chan<- prometheus.Metric) {
			services := m.services.Load()
			if services == nil {
				gauge(to, sending, 0)
				return
			}
			gauge(to, sending, float64((*services).Sending()))
			for _, p := range (*services).Pools() {
				subnet := p.Subnet.String()
				gauge(to, size, float64(p.Size), subnet)
				gauge(to, used, float64(p.Used), subnet)
				gauge(to, leases, float64(p.Leases), subnet)
			}
		},
	}
}

// Serving says which boot services serve from now on.
func (s *Set) Serving(services Services) {
	if s != nil {
		s.boot.services.Store(&services)
	}
}

// TFTP counts a transfer: tftp.Options.OnTransfer.
func (s *Set) TFTP(t tftp.Transfer) {
	if s == nil {
		return
	}
	s.boot.tftpTransfers.WithLabelValues(string(t.Outcome)).Inc()
	s.boot.tftpBytes.Add(float64(t.Sent))
}

// HTTP counts a request: httpboot.Options.OnRequest.
func (s *Set) HTTP(r httpboot.Served) {
	if s == nil {
		return
	}
	key := served{r.What, r.Status}
	s.boot.mu.RLock()
	c, known := s.boot.served[key]
	s.boot.mu.RUnlock()
	if !known {
		c = s.boot.count(key)
	}
	c.Inc()
	if sent, known := s.boot.sent[r.What]; known {
		sent.Add(float64(r.Bytes))
	}
	if r.What == httpboot.WhatScript {
		s.boot.scriptDurations.Observe(r.Duration.Seconds())
	}
}

// count makes the counter of requests like this one.
func (m *bootMetrics) count(key served) prometheus.Counter {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.requests.WithLabelValues(string(key.what), strconv.Itoa(key.status))
	m.served[key] = c
	return c
}

// Script counts a machine that was told what to boot: httpboot.Options.OnScript.
func (s *Set) Script(_ httpboot.Request, a httpboot.Answer) {
	if s == nil {
		return
	}
	kind := scriptLocal
	switch {
	case a.Kind == httpboot.Install:
		kind = scriptInstall
	case a.Kind == httpboot.Wait:
		kind = scriptWait
	case a.Node == "":
		kind = scriptUnknown
	}
	s.boot.scripts[kind].Inc()
}
