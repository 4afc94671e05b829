package metrics

import (
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/talos-provision/provision/pxe/dhcp"
)

// Types of messages that have a count of their own.
var (
	asked    = []dhcpv4.MessageType{dhcpv4.MessageTypeDiscover, dhcpv4.MessageTypeRequest, dhcpv4.MessageTypeDecline, dhcpv4.MessageTypeRelease, dhcpv4.MessageTypeInform}
	answered = []dhcpv4.MessageType{dhcpv4.MessageTypeOffer, dhcpv4.MessageTypeAck, dhcpv4.MessageTypeNak}
)

// dhcpMetrics are counted for every packet: the counters are found without a hash of labels.
type dhcpMetrics struct {
	packetsVec, repliesVec, ignoredVec *prometheus.CounterVec

	packets, replies map[dhcpv4.MessageType]prometheus.Counter
	ignored          map[dhcp.Ignored]prometheus.Counter
	other            prometheus.Counter
}

func newDHCP() *dhcpMetrics {
	m := &dhcpMetrics{
		packetsVec: counters("dhcp_packets_total", "DHCP packets of clients, by type; other is what no client sends.", "type"),
		repliesVec: counters("dhcp_replies_total", "DHCP replies, by type.", "type"),
		ignoredVec: counters("dhcp_ignored_total", "DHCP packets without a reply, by reason.", "reason"),
		packets:    map[dhcpv4.MessageType]prometheus.Counter{}, replies: map[dhcpv4.MessageType]prometheus.Counter{},
		ignored: map[dhcp.Ignored]prometheus.Counter{},
	}
	m.other = m.packetsVec.WithLabelValues("other")
	for _, kind := range asked {
		m.packets[kind] = m.packetsVec.WithLabelValues(kind.String())
	}
	for _, kind := range answered {
		m.replies[kind] = m.repliesVec.WithLabelValues(kind.String())
	}
	for _, reason := range dhcp.IgnoredReasons() {
		m.ignored[reason] = m.ignoredVec.WithLabelValues(string(reason))
	}
	return m
}

func (m *dhcpMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.packetsVec, m.repliesVec, m.ignoredVec}
}

// DHCP counts a packet: dhcp.Options.OnPacket.
func (s *Set) DHCP(p dhcp.Packet) {
	if s == nil {
		return
	}
	if c, known := s.dhcp.packets[p.Message]; known {
		c.Inc()
	} else {
		s.dhcp.other.Inc()
	}
	if c, known := s.dhcp.replies[p.Reply]; known {
		c.Inc()
	}
	if c, known := s.dhcp.ignored[p.Ignored]; known {
		c.Inc()
	}
}
