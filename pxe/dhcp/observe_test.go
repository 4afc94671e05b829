package dhcp

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/net/ipv4"
)

// counted is a server whose packets are counted by "MESSAGE REPLY reason".
func counted(t *testing.T, change ...func(*Options)) (*Server, map[string]int) {
	t.Helper()
	told := map[string]int{}
	o := testOptions()
	o.OnPacket = func(p Packet) { told[fmt.Sprintf("%s %s %s", typeName(p.Message), typeName(p.Reply), p.Ignored)]++ }
	for _, c := range change {
		c(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s, told
}

func typeName(m dhcpv4.MessageType) string {
	if m == dhcpv4.MessageTypeNone {
		return "-"
	}
	return m.String()
}

func (s *Server) asked(packets ...packet) {
	messages := make([]ipv4.Message, 0, len(packets))
	for _, p := range packets {
		messages = append(messages, message(p))
	}
	s.answer(&port{}, messages)
}

// Every packet is told once: what it was, what it was answered, or why not.
func TestEveryPacketIsToldWithItsAnswer(t *testing.T) {
	t.Parallel()
	s, told := counted(t, func(o *Options) {
		o.Admit = func(mac string) Admission {
			if mac == "52:54:00:00:00:01" {
				return Silent
			}
			return Boot
		}
	})
	const relay, stranger = "10.0.0.2", "192.0.2.1"
	ours, other := address(54, "10.0.0.1"), address(54, "10.0.0.9")
	s.asked(
		packet{options: with(discover, uefi())},
		packet{options: with(request, uefi(), ours, address(50, "10.0.0.100"))},
		packet{giaddr: relay, ciaddr: "10.0.0.100", options: with(inform, plain())},
		packet{options: with(request, plain(), ours, address(50, "10.0.0.7"))},              // an address of no range
		packet{mac: "52:54:00:00:00:01", options: with(discover, plain())},                  // kept off
		packet{mac: "52:54:00:00:00:02", options: with(request, plain(), other)},            // chose another server
		packet{mac: "52:54:00:00:00:03", giaddr: stranger, options: with(discover, uefi())}, // from a network that is not served
		packet{mac: "52:54:00:00:00:04", options: with(discover, romOptions(4))},            // an architecture without iPXE
		packet{mac: "52:54:00:00:00:05", options: with(decline, plain(), address(50, "10.0.0.100"))},
		packet{mac: "52:54:00:00:00:06", options: with(request, plain())},
		packet{options: with(9, plain())}, // a message type that no client sends
		packet{op: 2, options: with(2, plain())},
		packet{options: with(discover, uefi())},
	)
	s.answer(&port{}, []ipv4.Message{{Buffers: [][]byte{{1, 2, 3}}, N: 3}})
	want := map[string]int{
		"DISCOVER OFFER ": 2, "REQUEST ACK ": 1, "INFORM ACK ": 1, "REQUEST NAK ": 1,
		"DISCOVER - not admitted": 1, "REQUEST - other server": 1, "DISCOVER - unknown network": 1, "DISCOVER - no binary": 1,
		"DECLINE - unknown client": 1, "REQUEST - incomplete": 1, "- - malformed": 1,
		"- - foreign message": 1, "unknown (9) - foreign message": 1,
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// An address that could not be written down is not told as confirmed.
func TestAConfirmationThatWasNotSentIsNotTold(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "leases")
	s, told := counted(t, func(o *Options) { o.LeaseFile = file })
	var err error
	if s.journal, _, err = openJournal(file, silentLog()); err != nil {
		t.Fatal(err)
	}
	good := s.journal.file
	if s.journal.file, err = os.Open(file); err != nil { // read-only: writing fails
		t.Fatal(err)
	}
	s.asked(
		packet{options: with(discover, uefi())},
		packet{options: with(request, uefi(), address(54, "10.0.0.1"), address(50, "10.0.0.100"))},
	)
	if diff := cmp.Diff(map[string]int{"DISCOVER OFFER ": 1, "REQUEST - not durable": 1}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	_ = s.journal.file.Close()
	s.journal.file = good
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// A pool has as many addresses as can be given to anybody, and those in use are the
// ones that were given, offered or declined.
func TestPoolsTellHowFullTheyAre(t *testing.T) {
	t.Parallel()
	at := newClock()
	s, _ := counted(t, func(o *Options) {
		o.Now = at.now
		o.Subnets[0].Gateway = netip.MustParseAddr("10.0.0.150") // within the range
		o.Reservations = map[string]netip.Addr{
			"52:54:00:00:00:aa": netip.MustParseAddr("10.0.0.160"), // within it
			"52:54:00:00:00:ab": netip.MustParseAddr("10.0.0.50"),  // outside of it
		}
	})
	pools := func() []Pool { return s.Pools() }
	first, second := netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("10.20.0.0/16")
	compare := func(when string, want ...Pool) {
		t.Helper()
		if diff := cmp.Diff(want, pools(), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	compare("at the beginning", Pool{Subnet: first, Size: 98}, Pool{Subnet: second, Size: 256})
	ours := address(54, "10.0.0.1")
	s.asked(
		packet{options: with(discover, plain())}, packet{options: with(request, plain(), ours, address(50, "10.0.0.100"))}, // leased
		packet{mac: "52:54:00:00:00:aa", options: with(discover, plain())}, // reserved
		packet{mac: "52:54:00:00:00:aa", options: with(request, plain(), ours, address(50, "10.0.0.160"))},
		packet{mac: "52:54:00:00:00:02", options: with(discover, plain())}, // offered: .101
		packet{mac: "52:54:00:00:00:03", options: with(discover, plain())}, // declined: .102
		packet{mac: "52:54:00:00:00:03", options: with(decline, plain(), ours, address(50, "10.0.0.102"))},
	)
	compare("after some machines", Pool{Subnet: first, Size: 98, Used: 3, Leases: 2}, Pool{Subnet: second, Size: 256})
	at.advance(5 * time.Minute) // the offer is over
	compare("after the offer", Pool{Subnet: first, Size: 98, Used: 2, Leases: 2}, Pool{Subnet: second, Size: 256})
	at.advance(2 * time.Hour)
	compare("at the end", Pool{Subnet: first, Size: 98}, Pool{Subnet: second, Size: 256})
}

// A class that is not listed would not be counted.
func TestEveryReasonOfSilenceIsListed(t *testing.T) {
	t.Parallel()
	if n := len(IgnoredReasons()); n != 13 {
		t.Errorf("%d classes are listed: adapt the test when one was added", n)
	}
	seen := slices.Clone(IgnoredReasons())
	slices.Sort(seen)
	if compact := slices.Compact(seen); len(compact) != len(IgnoredReasons()) || slices.Contains(compact, "") {
		t.Errorf("classes: %v", IgnoredReasons())
	}
}

// Who counts packets must not make the server slower: counting allocates nothing.
func TestTellingAPacketAllocatesNothing(t *testing.T) {
	var packets int
	o := testOptions()
	o.OnPacket = func(Packet) { packets++ }
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	offer, err := dhcpv4.New(dhcpv4.WithMessageType(dhcpv4.MessageTypeOffer))
	if err != nil {
		t.Fatal(err)
	}
	silence, answer := silent(OtherServer, ""), Decision{Reply: &Reply{Packet: offer}}
	if typeOf(offer) != offer.MessageType() {
		t.Errorf("an offer is taken for %s", typeOf(offer))
	}
	tell := func() {
		silence.asked = typeOf(offer)
		s.tell(silence)
		s.tell(answer)
	}
	if n := testing.AllocsPerRun(100, tell); n != 0 || packets == 0 {
		t.Errorf("%v allocations for each of %d packets", n, packets)
	}
}
