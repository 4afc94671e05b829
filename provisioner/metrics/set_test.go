package metrics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/provisioner/webhook"
	"github.com/talos-provision/provision/pxe/dhcp"
	"github.com/talos-provision/provision/pxe/httpboot"
	"github.com/talos-provision/provision/pxe/tftp"
)

// gathered is what a registry that checks everything takes of a set: metrics by name
// and by their label values.
func gathered(t *testing.T, s *Set) map[string]map[string]*dto.Metric {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]*dto.Metric{}
	for _, family := range families {
		metrics := map[string]*dto.Metric{}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			if family.GetName() == "provision_step_duration_seconds" {
				slices.Reverse(labels) // state, then outcome
			}
			metrics[strings.Join(labels, " ")] = m
		}
		all[family.GetName()] = metrics
	}
	return all
}

// values are the counters and gauges of a set that are not zero, and how many values
// its histograms saw.
func values(t *testing.T, s *Set) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for name, family := range gathered(t, s) {
		for labels, m := range family {
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			if value != 0 && name != "provision_build_info" {
				all[strings.TrimSpace(strings.TrimPrefix(name, prefix)+" "+labels)] = value
			}
		}
	}
	return all
}

// site is what boot services and a cache show.
type site struct{ broken error }

func (site) Pools() []dhcp.Pool {
	return []dhcp.Pool{{Subnet: netip.MustParsePrefix("10.0.0.0/24"), Size: 100, Used: 30, Leases: 40}}
}
func (site) Sending() int                                         { return 7 }
func (s site) Usage(context.Context) (used, quota int64, _ error) { return 1000, 5000, s.broken }
func (s site) Free() (int64, error)                               { return 9000, s.broken }

func TestWhatIsSeenIsCounted(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		seen func(*Set)
		want map[string]float64
	}{
		{"nothing", func(*Set) {}, map[string]float64{}},
		{"a BMC", func(s *Set) {
			s.BMC(bmc.Exchange{Operation: bmc.OperationPower, Outcome: bmc.OutcomeOK, Duration: time.Second})
			s.BMC(bmc.Exchange{Operation: bmc.OperationPower, Outcome: bmc.OutcomeTimeout, Duration: time.Minute})
		}, map[string]float64{"bmc_requests_total power ok": 1, "bmc_requests_total power timeout": 1, "bmc_request_duration_seconds power": 2}},
		{"DHCP", func(s *Set) {
			s.DHCP(dhcp.Packet{Message: dhcpv4.MessageTypeDiscover, Reply: dhcpv4.MessageTypeOffer})
			s.DHCP(dhcp.Packet{Message: dhcpv4.MessageTypeRequest, Ignored: dhcp.OtherServer})
			s.DHCP(dhcp.Packet{Ignored: dhcp.Malformed})
			s.DHCP(dhcp.Packet{Message: 200, Ignored: "a reason that nobody listed"})
		}, map[string]float64{
			"dhcp_packets_total DISCOVER": 1, "dhcp_packets_total REQUEST": 1, "dhcp_packets_total other": 2, "dhcp_replies_total OFFER": 1,
			"dhcp_ignored_total other server": 1, "dhcp_ignored_total malformed": 1,
		}},
		{"TFTP", func(s *Set) {
			s.TFTP(tftp.Transfer{Outcome: tftp.Done, Sent: 500, Requested: "a-name-that-somebody-sent"})
			s.TFTP(tftp.Transfer{Outcome: tftp.Missing})
		}, map[string]float64{"tftp_transfers_total done": 1, "tftp_transfers_total missing": 1, "tftp_sent_bytes_total": 500}},
		{"HTTP", func(s *Set) {
			s.HTTP(httpboot.Served{What: httpboot.WhatKernel, Status: 200, Bytes: 1000})
			s.HTTP(httpboot.Served{What: httpboot.WhatKernel, Status: 200, Bytes: 24})
			s.HTTP(httpboot.Served{What: httpboot.WhatKernel, Status: 503})
			s.HTTP(httpboot.Served{What: httpboot.WhatScript, Status: 200, Bytes: 10, Duration: time.Millisecond})
		}, map[string]float64{
			"http_requests_total kernel 200": 2, "http_requests_total kernel 503": 1, "http_requests_total script 200": 1,
			"http_sent_bytes_total kernel": 1024, "http_sent_bytes_total script": 10, "boot_script_duration_seconds": 1,
		}},
		{"scripts", func(s *Set) {
			for _, a := range []httpboot.Answer{
				{Kind: httpboot.Install, Node: "a"}, {Kind: httpboot.LocalBoot, Node: "a"}, {Kind: httpboot.LocalBoot}, {Kind: httpboot.LocalBoot}, {Kind: httpboot.Wait, Node: "b"},
			} {
				s.Script(httpboot.Request{}, a)
			}
		}, map[string]float64{"boot_scripts_total install": 1, "boot_scripts_total local": 1, "boot_scripts_total unknown": 2, "boot_scripts_total wait": 1}},
		{"boot files", func(s *Set) {
			s.AssetOpened(true)
			s.AssetOpened(false)
			s.AssetFetched(1<<20, nil)
			s.AssetFetched(0, errors.New("the factory is away"))
			s.AssetFetched(0, fmt.Errorf("after 3 of 9 bytes: %w", context.Canceled))
		}, map[string]float64{
			"assets_opens_total hit": 1, "assets_opens_total miss": 1, "assets_downloads_total done": 1, "assets_downloads_total failed": 1,
			"assets_downloads_total cancelled": 1, "assets_downloaded_bytes_total": 1 << 20,
		}},
		{"webhooks", func(s *Set) {
			s.Webhook(webhook.Delivered, time.Second)
			s.Webhook(webhook.GivenUp, time.Second)
			s.Webhook("https://hooks.example.com/secret", time.Second)
		}, map[string]float64{
			"webhook_deliveries_total delivered": 1, "webhook_deliveries_total given up": 1, "webhook_deliveries_total other": 1,
			"webhook_delivery_duration_seconds": 3,
		}},
		{"how things stand", func(s *Set) {
			s.Serving(site{})
			s.Caching(site{})
		}, map[string]float64{
			"http_transfers_in_flight": 7, "dhcp_pool_addresses 10.0.0.0/24": 100, "dhcp_pool_addresses_used 10.0.0.0/24": 30, "dhcp_leases 10.0.0.0/24": 40,
			"assets_size_bytes": 1000, "assets_quota_bytes": 5000, "assets_disk_free_bytes": 9000,
		}},
		{"a cache that cannot be read", func(s *Set) { s.Caching(site{errors.New("the disk is gone")}) }, map[string]float64{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := New("test")
			test.seen(s)
			if diff := cmp.Diff(test.want, values(t, s)); diff != "" {
				t.Errorf("what is not zero (-want +got):\n%s", diff)
			}
			test.seen(nil) // counts nothing, and does not mind
		})
	}
}

// What comes from a closed set is there from the beginning: a rate over a counter that
// appears with its first event misses that event.
func TestClosedSetsBeginAtZero(t *testing.T) {
	t.Parallel()
	all := gathered(t, New("test"))
	for name, least := range map[string]int{
		"provision_step_duration_seconds": len(life) - 1, "provision_power_ons_total": 1, "provision_node_retries_total": 1,
		"provision_bmc_requests_total": len(bmc.Operations()) * len(bmc.Outcomes()), "provision_bmc_request_duration_seconds": len(bmc.Operations()),
		"provision_dhcp_packets_total": 6, "provision_dhcp_replies_total": 3, "provision_dhcp_ignored_total": len(dhcp.IgnoredReasons()),
		"provision_tftp_transfers_total": 6, "provision_tftp_sent_bytes_total": 1,
		"provision_http_requests_total": len(httpboot.Whats()), "provision_http_sent_bytes_total": len(httpboot.Whats()),
		"provision_boot_scripts_total": 4, "provision_boot_script_duration_seconds": 1, "provision_http_transfers_in_flight": 1,
		"provision_assets_opens_total": 2, "provision_assets_downloads_total": 3, "provision_webhook_deliveries_total": 3,
		"provision_webhook_delivery_duration_seconds": 1,
	} {
		if n := len(all[name]); n != least {
			t.Errorf("%s begins with %d series, want %d", name, n, least)
		}
	}
	build := all["provision_build_info"]
	for _, m := range build {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if got := slices.Sorted(maps.Keys(labels)); !slices.Equal(got, []string{"goversion", "revision", "version"}) || labels["version"] != "test" || !strings.HasPrefix(labels["goversion"], "go1.") {
			t.Errorf("the build is told as %v", labels)
		}
	}
	if len(build) != 1 {
		t.Errorf("%d builds are told", len(build))
	}
}

// Everything counts from several goroutines, while it is scraped.
func TestCountingIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	s := New("test")
	const each, workers = 200, 4
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i := range each {
				s.HTTP(httpboot.Served{What: httpboot.WhatScript, Status: 200 + i%5, Bytes: 1})
				s.DHCP(dhcp.Packet{Message: dhcpv4.MessageTypeDiscover, Reply: dhcpv4.MessageTypeOffer})
				s.told(tell{fmt.Sprint(i), "Armed", "PowerCycled", "", 0})
				s.Forget("demo")
				s.Serving(site{})
			}
		})
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)
	for range 5 {
		if _, err := registry.Gather(); err != nil {
			t.Error(err)
		}
	}
	group.Wait()
	got := values(t, s)
	for what, want := range map[string]float64{
		"dhcp_packets_total DISCOVER": each * workers, "http_sent_bytes_total script": each * workers, "power_ons_total": each * workers,
		"http_requests_total script 203": each * workers / 5,
	} {
		if got[what] != want {
			t.Errorf("%s is %v, want %v", what, got[what], want)
		}
	}
}

// What is counted for every packet and every request must not cost an allocation.
func TestCountingAllocatesNothing(t *testing.T) {
	s := New("test")
	packet := dhcp.Packet{Message: dhcpv4.MessageTypeDiscover, Reply: dhcpv4.MessageTypeOffer}
	request := httpboot.Served{What: httpboot.WhatScript, Status: 200, Bytes: 1000, Duration: time.Millisecond}
	for what, count := range map[string]func(){
		"a packet": func() { s.DHCP(packet) }, "a request": func() { s.HTTP(request) }, "a script": func() { s.Script(httpboot.Request{}, httpboot.Answer{}) },
	} {
		if n := testing.AllocsPerRun(100, count); n != 0 {
			t.Errorf("counting %s costs %v allocations", what, n)
		}
	}
}

func BenchmarkCountRequest(b *testing.B) {
	s := New("test")
	request := httpboot.Served{What: httpboot.WhatScript, Status: 200, Bytes: 1000, Duration: time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		s.HTTP(request)
	}
}

func BenchmarkCountPacket(b *testing.B) {
	s := New("test")
	packet := dhcp.Packet{Message: dhcpv4.MessageTypeDiscover, Reply: dhcpv4.MessageTypeOffer}
	b.ReportAllocs()
	for b.Loop() {
		s.DHCP(packet)
	}
}
