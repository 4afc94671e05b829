package dhcp

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// wallClock is a clock that a test turns while a server reads it.
type wallClock struct{ seconds atomic.Int64 }

func (c *wallClock) now() time.Time { return time.Unix(1_796_040_000+c.seconds.Load(), 0) }

func (c *wallClock) advance(d time.Duration) { c.seconds.Add(int64(d / time.Second)) }

const otherMAC = "52:54:00:aa:aa:aa"

func reservations(pairs ...string) map[string]netip.Addr {
	fixed := map[string]netip.Addr{}
	for i := 0; i < len(pairs); i += 2 {
		fixed[pairs[i]] = netip.MustParseAddr(pairs[i+1])
	}
	return fixed
}

func setReservations(t *testing.T, s *Server, pairs ...string) {
	t.Helper()
	if err := s.SetReservations(reservations(pairs...)); err != nil {
		t.Fatal(err)
	}
}

// leaseSeconds is the lease time that a reply gives.
func leaseSeconds(p *dhcpv4.DHCPv4) uint32 { return binary.BigEndian.Uint32(p.Options[51]) }

func TestReservationsAreReplacedWhileServing(t *testing.T) {
	t.Parallel()
	r, s, _ := serveRelay(t)
	if got := r.lease(testMAC); got != "127.10.1.0" {
		t.Fatalf("without a reservation it got %s", got)
	}
	setReservations(t, s, strings.ReplaceAll(testMAC, ":", "-"), "127.10.0.77", otherMAC, "127.10.1.1")
	if got := r.lease(testMAC); got != "127.10.0.77" {
		t.Errorf("the machine got %s, want its new reservation", got)
	}
	if got := r.lease("52:54:00:00:00:02"); got == "127.10.1.1" {
		t.Errorf("a stranger got the reserved %s", got)
	}
	setReservations(t, s, testMAC, "127.10.0.78", otherMAC, "127.10.0.77")
	if got := r.lease(testMAC); got != "127.10.0.78" {
		t.Errorf("after the next change it got %s", got)
	}
	if got := r.lease(otherMAC); got != "127.10.0.77" {
		t.Errorf("the other machine got %s, want the address that became free", got)
	}
}

func TestBadReservationsChangeNothing(t *testing.T) {
	t.Parallel()
	r, s, _ := serveRelay(t, func(o *Options) { o.Reservations = reservations(testMAC, "127.10.0.77") })
	for name, tc := range map[string]struct {
		fixed map[string]netip.Addr
		want  string
	}{
		"no MAC":           {reservations(otherMAC, "127.10.0.78", "node-1", "127.10.0.79"), "not a MAC"},
		"outside":          {reservations(otherMAC, "127.10.0.78", testMAC, "10.0.0.1"), "none of the subnets"},
		"this server":      {reservations(testMAC, serverAddress), "this server's"},
		"one for two":      {reservations(otherMAC, "127.10.0.78", testMAC, "127.10.0.78"), "both"},
		"two for one":      {reservations(testMAC, "127.10.0.78", strings.ReplaceAll(testMAC, ":", "-"), "127.10.0.79"), "keep one"},
		"no address given": {map[string]netip.Addr{otherMAC: {}}, "none of the subnets"},
	} {
		err := s.SetReservations(tc.fixed)
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "replace the DHCP reservations: ") {
			t.Errorf("%s: error %v, want one about %q", name, err, tc.want)
		}
		if got := r.lease(testMAC); got != "127.10.0.77" {
			t.Fatalf("%s: after the error the machine got %s", name, got)
		}
		if got := r.lease(otherMAC); got == "127.10.0.78" {
			t.Fatalf("%s: half of the reservations count", name)
		}
	}
}

func TestTheCallersReservationsAreCopied(t *testing.T) {
	t.Parallel()
	r, s, _ := serveRelay(t)
	fixed := reservations(testMAC, "127.10.0.77")
	if err := s.SetReservations(fixed); err != nil {
		t.Fatal(err)
	}
	fixed[testMAC] = netip.MustParseAddr("127.10.0.78")
	if got := r.lease(testMAC); got != "127.10.0.77" {
		t.Errorf("the machine got %s", got)
	}
}

func TestLeaseOfANewlyReservedAddressIsKeptUntilItEnds(t *testing.T) {
	t.Parallel()
	var c wallClock
	problems := make(chan Problem, 8)
	r, s, _ := serveRelay(t, func(o *Options) { o.Now, o.OnProblem = c.now, func(p Problem) { problems <- p } })
	held := r.lease(testMAC)
	setReservations(t, s, otherMAC, held)
	c.advance(time.Hour - time.Second)
	r.send(packet{mac: otherMAC, giaddr: relayAddress, options: with(discover, uefi())}.bytes())
	p := <-problems
	if p.Kind != ReservationBlocked || p.MAC != otherMAC || p.IP.String() != held {
		t.Errorf("problem %+v, want that the reservation of %s is blocked", p, held)
	}
	c.advance(time.Second)
	if got := r.lease(otherMAC); got != held { // the first answer that arrives: DISCOVER above got none
		t.Errorf("after the end of the lease the owner got %s, want %s", got, held)
	}
	if got := r.lease(testMAC); got == held {
		t.Errorf("the former holder got %s again", got)
	}
}

// A machine whose reservation went away: the address is outside the range, so
// that no renewal may add time.
func TestLeaseWithoutItsReservationIsKeptUntilItEnds(t *testing.T) {
	t.Parallel()
	var c wallClock
	r, s, _ := serveRelay(t, func(o *Options) { o.Now, o.Reservations = c.now, reservations(testMAC, "127.10.0.77") })
	if got := r.lease(testMAC); got != "127.10.0.77" {
		t.Fatalf("leased %s", got)
	}
	setReservations(t, s)
	left := uint32(3600)
	renewals := map[string]packet{
		"RENEWING":    {ciaddr: "127.10.0.77", options: with(request, plain())},
		"INIT-REBOOT": {options: with(request, plain(), address(50, "127.10.0.77"))},
		"SELECTING":   {options: with(request, plain(), address(54, serverAddress), address(50, "127.10.0.77"))},
		"DISCOVER":    {options: with(discover, plain())},
	}
	for _, step := range []time.Duration{10 * time.Minute, 49 * time.Minute, 59 * time.Second} {
		c.advance(step)
		left -= uint32(step / time.Second)
		for name, p := range renewals {
			got := r.ask(p)
			if got.MessageType() == dhcpv4.MessageTypeNak || got.YourIPAddr.String() != "127.10.0.77" || leaseSeconds(got) != left {
				t.Errorf("%s with %d s left: %s of %s for %d s", name, left, got.MessageType(), got.YourIPAddr, leaseSeconds(got))
			}
		}
		if got := r.lease(otherMAC); got == "127.10.0.77" {
			t.Errorf("%s was given to another", got)
		}
	}
	c.advance(time.Second)
	wantType(t, r.ask(renewals["RENEWING"]), dhcpv4.MessageTypeNak)
	offer := r.ask(renewals["DISCOVER"])
	if ip := offer.YourIPAddr.String(); !strings.HasPrefix(ip, "127.10.1.") || leaseSeconds(offer) != 3600 {
		t.Errorf("after the end it was offered %s for %d s, want one of the range for an hour", ip, leaseSeconds(offer))
	}
}

// A reservation that stays, or comes back in time, gives the full time again.
func TestReservationThatComesBackIsRenewedInFull(t *testing.T) {
	t.Parallel()
	var c wallClock
	r, s, _ := serveRelay(t, func(o *Options) { o.Now, o.Reservations = c.now, reservations(testMAC, "127.10.0.77") })
	r.lease(testMAC)
	renew := packet{ciaddr: "127.10.0.77", options: with(request, plain())}
	for _, step := range []struct {
		reserved []string
		want     uint32
	}{{[]string{testMAC, "127.10.0.77"}, 3600}, {nil, 3000}, {[]string{testMAC, "127.10.0.77"}, 3600}} {
		c.advance(10 * time.Minute)
		setReservations(t, s, step.reserved...)
		if got := leaseSeconds(r.ask(renew)); got != step.want {
			t.Errorf("with reservations %v renewed for %d s, want %d", step.reserved, got, step.want)
		}
	}
}

// The range never deals what belongs to the network, whatever a lease file says.
func TestLeaseOfAnAddressOfTheNetworkItselfIsNotKept(t *testing.T) {
	t.Parallel()
	for _, ip := range []string{"10.0.0.254", "10.0.0.1", "10.0.0.255"} {
		r := newRig(t)
		r.table.restore([]record{{MAC: "\x52\x54\x00\x12\x34\x56", IP: netip.MustParseAddr(ip), Until: r.now().Add(time.Hour).Unix()}})
		r.destination = netip.MustParseAddr("10.0.0.1")
		wantType(t, r.reply(packet{ciaddr: ip, options: with(request, plain())}), dhcpv4.MessageTypeNak)
	}
}

func TestAddressReservedNoLongerGoesBackToTheRange(t *testing.T) {
	t.Parallel()
	problems := make(chan Problem, 8)
	r, s, _ := serveRelay(t, func(o *Options) {
		o.Subnets[0].Last = o.Subnets[0].First.Next()
		o.Reservations = reservations(otherMAC, "127.10.1.0", "52:54:00:aa:aa:ab", "127.10.0.9")
		o.OnProblem = func(p Problem) { problems <- p }
	})
	if got := r.lease(testMAC); got != "127.10.1.1" {
		t.Fatalf("leased %s", got)
	}
	const late = "52:54:00:00:00:02"
	r.send(packet{mac: late, giaddr: relayAddress, options: with(discover, uefi())}.bytes())
	if p := <-problems; p.Kind != PoolExhausted {
		t.Fatalf("problem %+v", p)
	}
	setReservations(t, s)
	if got := r.lease(late); got != "127.10.1.0" {
		t.Errorf("leased %s", got)
	}
}

// An address that was only offered is nobody's: its new owner need not wait.
func TestOfferOfANewlyReservedAddressIsTakenBack(t *testing.T) {
	t.Parallel()
	r, s, _ := serveRelay(t)
	offered := r.ask(packet{options: with(discover, uefi())}).YourIPAddr.String()
	setReservations(t, s, otherMAC, offered)
	if got := r.lease(otherMAC); got != offered {
		t.Errorf("the owner got %s, want %s", got, offered)
	}
	late := r.ask(packet{options: with(request, uefi(), address(54, serverAddress), address(50, offered))})
	wantType(t, late, dhcpv4.MessageTypeNak)
}

func TestProxyHasNoReservations(t *testing.T) {
	t.Parallel()
	s, err := New(Options{Mode: ModeProxy})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetReservations(reservations(testMAC, "192.0.2.7")); err != nil {
		t.Error(err)
	}
}

// Reservations of many machines move to and fro while they lease: each is given
// one of its two reservations, and nobody's address is given to another.
func TestReservationsMoveUnderLoad(t *testing.T) {
	t.Parallel()
	const machines, rounds = 8, 60
	sets := [2]map[string]netip.Addr{{}, {}}
	for i := range machines {
		sets[0][benchMAC(i)] = netip.AddrFrom4([4]byte{127, 10, 0, byte(100 + i)})
		sets[1][benchMAC(i)] = netip.AddrFrom4([4]byte{127, 10, 1, byte(100 + i)})
	}
	r, s, _ := serveRelay(t, func(o *Options) { o.Reservations = sets[0] })
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-done:
				return
			default:
				if err := s.SetReservations(sets[i%2]); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for i := range machines * rounds {
		mac := benchMAC(i % machines)
		offer := r.ask(packet{mac: mac, options: with(discover, uefi())}).YourIPAddr.String()
		if offer != sets[0][mac].String() && offer != sets[1][mac].String() {
			t.Fatalf("%s was offered %s", mac, offer)
		}
		ack := r.ask(packet{mac: mac, options: with(request, uefi(), address(54, serverAddress), address(50, offer))})
		if ack.MessageType() == dhcpv4.MessageTypeAck && ack.YourIPAddr.String() != offer {
			t.Fatalf("%s chose %s and got %s", mac, offer, ack.YourIPAddr)
		}
	}
	close(done)
	group.Wait()
}
