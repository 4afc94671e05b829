package dhcp

import (
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// told is what the clients of a property test were told: who may use an address
// until when, and until when by an ACK, which a restart does not forget.
type told map[netip.Addr]struct {
	mac           string
	until, leased time.Time
}

// Property: whatever clients do in whatever order, over restarts and changes of
// the reservations too, no address is offered or confirmed to one while another was told to use it.
func TestNoAddressIsGivenTwice(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		checkNeverTwice(t, seed)
	}
}

func checkNeverTwice(t *testing.T, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	fixed := map[string]netip.Addr{macOf(0): netip.MustParseAddr("10.0.0.105"), macOf(1): netip.MustParseAddr("10.0.0.50")}
	small := func(o *Options) {
		o.Subnets[0].Last = netip.MustParseAddr("10.0.0.111") // fewer addresses than clients
		o.Reservations = fixed
		o.Authoritative = seed%2 == 0
	}
	r := newRig(t, small)
	holders := told{}
	for step := range 1000 {
		mac := macOf(random.IntN(16))
		p := randomPacket(random, mac, r)
		d := r.ask(p)
		note(t, holders, d, r.now(), seed, step)
		if d.Reply == nil {
			forget(holders, mac, d)
		} else if q, _ := ParseRequest(p.bytes()); d.Reply.Packet.MessageType() == dhcpv4.MessageTypeNak {
			for _, refused := range []netip.Addr{q.wanted(), q.current()} { // the client gives it up
				if holders[refused].mac == mac {
					delete(holders, refused)
				}
			}
		}
		if random.IntN(20) == 0 { // offers may be taken back, leases not
			fixed = randomReservations(random)
			setTable(t, r, fixed)
			onlyLeases(holders)
		}
		r.advance(time.Duration(random.IntN(240)) * time.Second)
		if random.IntN(100) == 0 { // restart: offers are forgotten, leases are not
			restarted := newRig(t, small)
			restarted.at = r.at
			restarted.table.restore(r.table.records())
			for ip, h := range holders {
				if b := restarted.table.byIP[ip]; b == nil && h.leased.After(r.now()) && r.table.byIP[ip] != nil && r.table.byIP[ip].acked {
					t.Fatalf("seed %d step %d: lease of %s was lost by the restart", seed, step, ip)
				}
			}
			onlyLeases(holders)
			r = restarted
		}
	}
}

// onlyLeases drops the offers. A client whose offer was forgotten asks in vain,
// which does no harm: only an ACK gives an address.
func onlyLeases(holders told) {
	for ip, h := range holders {
		h.until = h.leased
		holders[ip] = h
	}
}

func randomReservations(random *rand.Rand) map[string]netip.Addr {
	fixed := map[string]netip.Addr{}
	for i, n := range random.Perm(16)[:random.IntN(6)] {
		fixed[macOf(n)] = netip.AddrFrom4([4]byte{10, 0, 0, byte(96 + 3*i)}) // two outside the range
	}
	return fixed
}

func setTable(t *testing.T, r *rig, reservations map[string]netip.Addr) {
	t.Helper()
	o := r.options
	o.Reservations = reservations
	fixed, err := o.reservations()
	if err != nil {
		t.Fatal(err)
	}
	r.table.reserve(fixed, ownersOf(fixed), r.now())
}

func macOf(n int) string {
	return "52:54:00:00:00:" + string("0123456789abcdef"[n/16]) + string("0123456789abcdef"[n%16])
}

func randomPacket(random *rand.Rand, mac string, r *rig) packet {
	ip := netip.AddrFrom4([4]byte{10, 0, 0, byte(98 + random.IntN(16))}).String()
	own := slices.SortedFunc(maps.Values(r.table.byKey), func(a, b *binding) int { return a.ip.Compare(b.ip) })
	for _, b := range own { // mostly the client's own address
		if hw := b.key.mac; random.IntN(3) > 0 && mac[len(mac)-1] == "0123456789abcdef"[hw[5]%16] {
			ip = b.ip.String()
		}
	}
	ours := address(54, "10.0.0.1")
	choices := []packet{
		{options: with(discover, uefi())},
		{options: with(discover, plain(), address(50, ip))},
		{options: with(request, plain(), ours, address(50, ip))},
		{options: with(request, plain(), ours, address(50, ip))},
		{options: with(request, plain(), address(54, "10.0.0.2"), address(50, ip))},
		{options: with(request, plain(), address(50, ip))},
		{ciaddr: ip, options: with(request, plain())},
		{options: with(request, plain())},
		{ciaddr: ip, options: with(release, nil, ours)},
		{options: with(decline, nil, ours, address(50, ip))},
	}
	p := choices[random.IntN(len(choices))]
	p.mac = mac
	return p
}

// note checks a decision against what others were told and remembers it.
func note(t *testing.T, holders told, d Decision, now time.Time, seed uint64, step int) {
	t.Helper()
	if d.Lease == nil {
		return
	}
	if h, held := holders[d.Lease.IP]; held && h.mac != d.Lease.MAC && h.until.After(now) {
		t.Fatalf("seed %d step %d: %s of %s to %s, but %s has it until %s", seed, step, d.Lease.Type, d.Lease.IP, d.Lease.MAC, h.mac, h.until)
	}
	h := holders[d.Lease.IP]
	if h.mac != d.Lease.MAC {
		h.mac, h.until, h.leased = d.Lease.MAC, time.Time{}, time.Time{}
	}
	if h.until.Before(d.Lease.Expires) {
		h.until = d.Lease.Expires
	}
	if d.Lease.Type == TypeACK {
		h.leased = d.Lease.Expires
	}
	for ip, other := range holders { // a client that takes an address leaves the one it had
		if other.mac == d.Lease.MAC && ip != d.Lease.IP {
			delete(holders, ip)
		}
	}
	holders[d.Lease.IP] = h
}

// forget drops what a client gave up by RELEASE, DECLINE or another server's offer.
func forget(holders told, mac string, d Decision) {
	gone := d.Reason == "released" || d.Reason == "declined" || d.Reason == "the client chose another server"
	for ip, h := range holders {
		if gone && h.mac == mac {
			delete(holders, ip)
		}
	}
}

func TestPoolDealsEveryAddressOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) {
		o.ServerAddress = netip.MustParseAddr("10.20.1.7")
		o.Subnets[1].Gateway = netip.MustParseAddr("10.20.1.9")
	})
	seen := map[string]bool{}
	for i := range uint16(254) { // 256 addresses less server and gateway
		mac := binary.BigEndian.AppendUint16([]byte{2, 0, 0, 0}, i)
		offer := r.reply(packet{giaddr: "10.20.0.1", mac: netMAC(mac), options: with(discover, uefi())})
		ip := offer.YourIPAddr.String()
		if seen[ip] || ip == "10.20.1.7" || ip == "10.20.1.9" {
			t.Fatalf("address %s was dealt twice or is not free", ip)
		}
		seen[ip] = true
	}
	r.silent(packet{giaddr: "10.20.0.1", options: with(discover, uefi())})
}

// A flood of invented clients holds addresses only as long as an offer lasts
// and leaves nothing behind.
func TestFloodOfInventedClientsIsForgotten(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range uint16(5000) {
		mac := binary.BigEndian.AppendUint16([]byte{2, 0, 0, 1}, i)
		r.ask(packet{mac: netMAC(mac), options: with(discover, uefi())})
		r.advance(100 * time.Millisecond)
	}
	r.advance(2 * time.Minute)
	r.lease(testMAC)
	if n, q := len(r.table.byKey), len(r.table.pools[0].queue); n != 1 || q > 100 {
		t.Errorf("%d bindings and %d queued addresses remain", n, q)
	}
}

func netMAC(b []byte) string {
	s := ""
	for i, x := range b {
		if i > 0 {
			s += ":"
		}
		s += string("0123456789abcdef"[x>>4]) + string("0123456789abcdef"[x&15])
	}
	return s
}
