package dhcp

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// mORMot2#581, odhcpd#16: a reservation that moved refuses the old address and
// never confirms another one than asked for.
func TestMovedReservationRefusesTheOldAddress(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]packet{
		"INIT-REBOOT": {options: with(request, plain(), address(50, "10.0.0.100"))},
		"RENEWING":    {ciaddr: "10.0.0.100", options: with(request, plain())},
		"SELECTING":   {options: with(request, plain(), address(54, "10.0.0.1"), address(50, "10.0.0.100"))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := newRig(t)
			before.lease(testMAC)
			r := newRig(t, func(o *Options) { o.Reservations = map[string]netip.Addr{testMAC: netip.MustParseAddr("10.0.0.50")} })
			r.table.restore(before.table.records())
			r.destination = netip.MustParseAddr("10.0.0.1")
			wantType(t, r.reply(p), dhcpv4.MessageTypeNak)
			if got := r.lease(testMAC); got.String() != "10.0.0.50" {
				t.Errorf("then leased %s, want the reservation", got)
			}
		})
	}
}

func TestReservedAddressIsNobodyElses(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) {
		o.Reservations = map[string]netip.Addr{"52-54-00-AA-AA-AA": netip.MustParseAddr("10.0.0.100")}
	})
	if got := r.lease(testMAC); got.String() != "10.0.0.101" {
		t.Errorf("first pool lease %s, want the reservation skipped", got)
	}
	if got := r.lease("52:54:00:aa:aa:aa"); got.String() != "10.0.0.100" {
		t.Errorf("reservation leased %s", got)
	}
}

func TestReservedAddressStillHeldByAnother(t *testing.T) {
	t.Parallel()
	before := newRig(t)
	before.lease(testMAC) // 10.0.0.100
	const owner = "52:54:00:aa:aa:aa"
	r := newRig(t, func(o *Options) { o.Reservations = map[string]netip.Addr{owner: netip.MustParseAddr("10.0.0.100")} })
	r.table.restore(before.table.records())
	d := r.silent(packet{mac: owner, options: with(discover, uefi())})
	if d.Problem == nil || d.Problem.Kind != ReservationBlocked {
		t.Errorf("problem %+v, want a blocked reservation", d.Problem)
	}
	r.destination = netip.MustParseAddr("10.0.0.1")
	wantType(t, r.reply(packet{ciaddr: "10.0.0.100", options: with(request, plain())}), dhcpv4.MessageTypeNak)
	if got := r.lease(owner); got.String() != "10.0.0.100" {
		t.Errorf("after the NAK the owner got %s", got)
	}
}

func TestDeclinedAddressIsAvoidedForAWhile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ip := r.lease(testMAC).String()
	d := r.silent(packet{options: with(decline, plain(), address(54, "10.0.0.1"), address(50, ip))})
	if d.Problem == nil || d.Problem.Kind != AddressInUse {
		t.Errorf("problem %+v", d.Problem)
	}
	if got := r.lease(testMAC).String(); got == ip {
		t.Errorf("declined %s was given again", ip)
	}
	r.advance(11 * time.Minute)
	if got := r.reply(packet{mac: "52:54:00:00:00:02", options: with(discover, plain(), address(50, ip))}); got.YourIPAddr.String() != ip {
		t.Errorf("after the hold %s was offered, want %s usable again", got.YourIPAddr, ip)
	}
}

func TestDeclineOfAnothersAddressIsIgnored(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ip := r.lease(testMAC).String()
	r.silent(packet{mac: "52:54:00:00:00:66", options: with(decline, plain(), address(50, ip))})
	if got := r.lease(testMAC).String(); got != ip {
		t.Errorf("the holder lost %s to a stranger's DECLINE", ip)
	}
}

func TestDeclinedReservationIsNotOfferedUntilTheHoldEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.Reservations = map[string]netip.Addr{testMAC: netip.MustParseAddr("10.0.0.50")} })
	r.lease(testMAC)
	r.silent(packet{options: with(decline, plain(), address(50, "10.0.0.50"))})
	if d := r.silent(packet{options: with(discover, plain())}); d.Problem == nil || d.Problem.Kind != ReservationBlocked {
		t.Errorf("problem %+v, want a blocked reservation", d.Problem)
	}
	r.advance(11 * time.Minute)
	if got := r.lease(testMAC).String(); got != "10.0.0.50" {
		t.Errorf("leased %s after the hold", got)
	}
}

func TestReleasedAddressStaysTheFirstChoice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ip := r.lease(testMAC)
	r.silent(packet{ciaddr: ip.String(), options: with(release, nil, address(54, "10.0.0.1"))})
	if b := r.table.byIP[ip]; b != nil && b.live(r.now()) {
		t.Error("the lease did not end")
	}
	if other := r.lease("52:54:00:00:00:02"); other == ip {
		t.Error("a released address was reused though others were free")
	}
	if again := r.lease(testMAC); again != ip {
		t.Errorf("the client got %s, had %s", again, ip)
	}
}

func TestDuplicateRequestsChangeNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.reply(packet{options: with(discover, uefi())}).YourIPAddr.String()
	for range 5 {
		if got := r.reply(packet{options: with(discover, uefi())}).YourIPAddr.String(); got != first {
			t.Fatalf("duplicate DISCOVER got %s, want %s", got, first)
		}
	}
	p := packet{options: with(request, uefi(), address(54, "10.0.0.1"), address(50, first))}
	for range 1000 {
		wantType(t, r.reply(p), dhcpv4.MessageTypeAck)
	}
	if len(r.table.changes) != 1 || len(r.table.byIP) != 1 || len(r.table.due) != 1 {
		t.Errorf("%d lease records, %d addresses, %d timers; want one of each", len(r.table.changes), len(r.table.byIP), len(r.table.due))
	}
}

func TestPoolExhaustedIsAProblem(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.Subnets[0].Last = netip.MustParseAddr("10.0.0.101") })
	r.lease("52:54:00:00:00:01")
	r.lease("52:54:00:00:00:02")
	d := r.silent(packet{options: with(discover, uefi())})
	if d.Problem == nil || d.Problem.Kind != PoolExhausted || !strings.Contains(d.Problem.Message, "10.0.0.0/24") {
		t.Errorf("problem %+v", d.Problem)
	}
	r.advance(2 * time.Hour)
	if got := r.lease(testMAC); !got.IsValid() {
		t.Error("expired addresses were not reused")
	}
}

func TestPacketWithoutEndOptionIsServed(t *testing.T) {
	t.Parallel()
	newRig(t).reply(packet{noEnd: true, options: with(discover, uefi())})
}

func TestGUIDAsHardwareAddressIsServed(t *testing.T) {
	t.Parallel()
	offer := newRig(t).reply(packet{hlen: 16, options: with(discover, uefi())})
	if len(offer.ClientHWAddr) != 16 {
		t.Errorf("hardware address of %d bytes, want 16", len(offer.ClientHWAddr))
	}
}

func TestServerIdentifierOverrideOfARelay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	agent := option(82, append([]byte{11, 4}, netip.MustParseAddr("10.20.0.1").AsSlice()...)...)
	offer := r.reply(packet{giaddr: "10.20.0.1", options: with(discover, uefi(), agent)})
	wantOption(t, offer, 54, []byte{10, 20, 0, 1})
	if offer.ServerIPAddr.String() != "10.0.0.1" {
		t.Errorf("siaddr %s, want this server's", offer.ServerIPAddr)
	}
	ack := r.reply(packet{giaddr: "10.20.0.1", options: with(request, uefi(), agent, address(54, "10.20.0.1"), address(50, offer.YourIPAddr.String()))})
	wantType(t, ack, dhcpv4.MessageTypeAck)
}
