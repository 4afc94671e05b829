package dhcp

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// P1, decided without sockets: addresses, ports and bytes of the original case.
func TestRelayedReplyGoesToTheRelay(t *testing.T) {
	t.Parallel()
	agent := text(82, "\x01\x04eth1")
	for _, flags := range []uint16{0x8000, 0} {
		r := newRig(t)
		r.source = netip.MustParseAddrPort("10.20.0.1:1067")
		d := r.ask(packet{hops: 1, giaddr: "10.20.0.1", flags: flags, options: with(discover, uefi(), agent)})
		if want := netip.MustParseAddrPort("10.20.0.1:67"); d.Reply == nil || d.Reply.To != want {
			t.Fatalf("reply %+v, want it to %s", d.Reply, want)
		}
		wire := d.Reply.Packet.ToBytes()
		offer := onWire(t, d.Reply)
		if offer.Flags != flags || offer.GatewayIPAddr.String() != "10.20.0.1" || offer.HopCount != 1 {
			t.Errorf("flags %04x giaddr %s hops %d, want them as in the request", offer.Flags, offer.GatewayIPAddr, offer.HopCount)
		}
		if !bytes.HasSuffix(bytes.TrimRight(wire, "\x00"), append(agent, 255)) {
			t.Errorf("option 82 is not last and verbatim: % x", wire[240:])
		}
		if !r.options.Subnets[1].CIDR.Contains(fromIP(offer.YourIPAddr)) {
			t.Errorf("address %s is not of the relay's subnet", offer.YourIPAddr)
		}
	}
}

func TestRelayedNAKIsMarkedBroadcast(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.Authoritative = true })
	d := r.ask(packet{giaddr: "10.20.0.1", options: with(request, plain(), address(50, "10.0.0.100"))})
	if d.Reply == nil || d.Reply.Packet.MessageType() != dhcpv4.MessageTypeNak || !d.Reply.Packet.IsBroadcast() {
		t.Fatalf("decision %+v, want a broadcast NAK", d)
	}
}

func TestUnknownRelayIsAProblemNotAReply(t *testing.T) {
	t.Parallel()
	d := newRig(t).silent(packet{giaddr: "172.16.0.1", options: with(discover, uefi())})
	if d.Problem == nil || d.Problem.Kind != UnknownSubnet || !strings.Contains(d.Problem.Message, "172.16.0.1") {
		t.Errorf("problem %+v", d.Problem)
	}
}

func TestRelayMayNameAnotherLink(t *testing.T) {
	t.Parallel()
	link := option(82, append([]byte{5, 4}, netip.MustParseAddr("10.20.0.0").AsSlice()...)...)
	offer := newRig(t).reply(packet{giaddr: "172.16.0.1", options: with(discover, uefi(), link)})
	if !strings.HasPrefix(offer.YourIPAddr.String(), "10.20.") {
		t.Errorf("address %s, want one of the link selected by RFC 3527", offer.YourIPAddr)
	}
}

func TestLinkWithoutSubnetIsNotServed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.link = Link{Index: 3, Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.1.1/24")}}
	r.silent(packet{options: with(discover, uefi())})
}

// P2: the client of another server is never answered and our offer is free again.
func TestRequestToAnotherServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	offer := r.reply(packet{options: with(discover, uefi())})
	d := r.silent(packet{options: with(request, uefi(), address(54, "10.98.0.3"), address(50, "10.98.0.77"))})
	if d.Problem == nil || d.Problem.Kind != RivalServer || d.Problem.IP.String() != "10.98.0.3" {
		t.Errorf("problem %+v, want the rival 10.98.0.3", d.Problem)
	}
	if b := r.table.byIP[fromIP(offer.YourIPAddr)]; b != nil {
		t.Errorf("the offer of %s is still held", b.ip)
	}
}

// P2: a lease that the client already has survives its choosing another server.
func TestRequestToAnotherServerKeepsALease(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ip := r.lease(testMAC)
	r.silent(packet{options: with(request, uefi(), address(54, "10.98.0.3"), address(50, "10.98.0.77"))})
	if b := r.table.byIP[ip]; b == nil || !b.live(r.now()) {
		t.Error("the lease is gone")
	}
}

// P3: ROM, iPXE and Talos of one machine have three client ids and one address.
func TestOneMACThreeClientIDsOneAddress(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	got := make([]string, 0, 3)
	for _, id := range [][]byte{nil, option(61, 1, 0x52, 0x54, 0, 0x12, 0x34, 0x56), option(61, 0xff, 0, 0x12, 0x34, 0x56, 0, 1, 2, 3)} {
		offer := r.reply(packet{options: with(discover, uefi(), id)})
		got = append(got, offer.YourIPAddr.String())
	}
	if got[0] != got[1] || got[1] != got[2] {
		t.Errorf("addresses %v, want one", got)
	}
}

func TestReplyAddressing(t *testing.T) {
	t.Parallel()
	leased := func(t *testing.T) (*rig, string) {
		r := newRig(t)
		return r, r.lease(testMAC).String()
	}
	t.Run("no address and no broadcast flag: broadcast all the same", func(t *testing.T) {
		t.Parallel()
		d := newRig(t).ask(packet{options: with(discover, ipxe())})
		if d.Reply.To.String() != "255.255.255.255:68" || d.Reply.Interface != 7 || d.Reply.From.String() != "10.0.0.1" {
			t.Errorf("leaves to %s by %d from %s", d.Reply.To, d.Reply.Interface, d.Reply.From)
		}
	})
	t.Run("renewal: unicast to the client", func(t *testing.T) {
		t.Parallel()
		r, ip := leased(t)
		r.destination = netip.MustParseAddr("10.0.0.1")
		d := r.ask(packet{ciaddr: ip, options: with(request, plain())})
		if d.Reply == nil || d.Reply.To.String() != ip+":68" {
			t.Errorf("reply %+v, want it to %s:68", d.Reply, ip)
		}
	})
	t.Run("source equals ciaddr: its port counts", func(t *testing.T) {
		t.Parallel()
		r, ip := leased(t)
		r.destination, r.source = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddrPort(ip+":1068")
		d := r.ask(packet{ciaddr: ip, options: with(request, plain())})
		if d.Reply == nil || d.Reply.To.String() != ip+":1068" {
			t.Errorf("reply %+v, want it to %s:1068", d.Reply, ip)
		}
	})
	t.Run("NAK: broadcast even to a client with an address", func(t *testing.T) {
		t.Parallel()
		r, _ := leased(t)
		r.destination = netip.MustParseAddr("10.0.0.1")
		d := r.ask(packet{ciaddr: "10.0.0.150", options: with(request, plain())})
		if d.Reply == nil || d.Reply.Packet.MessageType() != dhcpv4.MessageTypeNak || d.Reply.To.String() != "255.255.255.255:68" {
			t.Errorf("reply %+v, want a broadcast NAK", d.Reply)
		}
		if fromIP(d.Reply.Packet.YourIPAddr).IsValid() || fromIP(d.Reply.Packet.ClientIPAddr).IsValid() {
			t.Error("a NAK carries no address")
		}
	})
}

func TestRequestStates(t *testing.T) {
	t.Parallel()
	const other = "52:54:00:00:00:99"
	unicast := netip.MustParseAddr("10.0.0.1")
	none := dhcpv4.MessageTypeNone
	cases := map[string]struct {
		authoritative bool
		known         bool // the client has a lease of 10.0.0.100; otherwise the other MAC has it
		destination   netip.Addr
		p             packet
		want          dhcpv4.MessageType
		wantIP        string
	}{
		"INIT-REBOOT, right address":                      {known: true, p: packet{options: with(request, plain(), address(50, "10.0.0.100"))}, want: dhcpv4.MessageTypeAck, wantIP: "10.0.0.100"},
		"INIT-REBOOT, known client, other address":        {known: true, p: packet{options: with(request, plain(), address(50, "10.0.0.101"))}, want: dhcpv4.MessageTypeNak},
		"INIT-REBOOT, known client, wrong network":        {known: true, p: packet{options: with(request, plain(), address(50, "192.168.7.7"))}, want: dhcpv4.MessageTypeNak},
		"INIT-REBOOT, unknown client":                     {p: packet{options: with(request, plain(), address(50, "10.0.0.120"))}, want: none},
		"INIT-REBOOT, unknown, wrong network":             {p: packet{options: with(request, plain(), address(50, "192.168.7.7"))}, want: none},
		"INIT-REBOOT, another's address":                  {p: packet{options: with(request, plain(), address(50, "10.0.0.100"))}, want: none},
		"INIT-REBOOT, authoritative, free address":        {authoritative: true, p: packet{options: with(request, plain(), address(50, "10.0.0.120"))}, want: dhcpv4.MessageTypeAck, wantIP: "10.0.0.120"},
		"INIT-REBOOT, authoritative, wrong network":       {authoritative: true, p: packet{options: with(request, plain(), address(50, "192.168.7.7"))}, want: dhcpv4.MessageTypeNak},
		"INIT-REBOOT, authoritative, another's":           {authoritative: true, p: packet{options: with(request, plain(), address(50, "10.0.0.100"))}, want: dhcpv4.MessageTypeNak},
		"RENEWING, known":                                 {known: true, destination: unicast, p: packet{ciaddr: "10.0.0.100", options: with(request, plain())}, want: dhcpv4.MessageTypeAck, wantIP: "10.0.0.100"},
		"RENEWING, unknown (staticdhcpd#43)":              {destination: unicast, p: packet{ciaddr: "10.0.0.120", options: with(request, plain())}, want: none},
		"RENEWING, unknown, authoritative":                {authoritative: true, destination: unicast, p: packet{ciaddr: "10.0.0.100", options: with(request, plain())}, want: dhcpv4.MessageTypeNak},
		"REBINDING, known":                                {known: true, destination: broadcastAddress, p: packet{ciaddr: "10.0.0.100", options: with(request, plain())}, want: dhcpv4.MessageTypeAck, wantIP: "10.0.0.100"},
		"REBINDING, unknown, authoritative":               {authoritative: true, destination: broadcastAddress, p: packet{ciaddr: "10.0.0.120", options: with(request, plain())}, want: none},
		"REBINDING relayed, unknown, authoritative":       {authoritative: true, destination: unicast, p: packet{giaddr: "10.0.0.5", ciaddr: "10.0.0.120", options: with(request, plain())}, want: none},
		"SELECTING, ours, free address, no offer pending": {p: packet{options: with(request, plain(), address(54, "10.0.0.1"), address(50, "10.0.0.130"))}, want: dhcpv4.MessageTypeAck, wantIP: "10.0.0.130"},
		"SELECTING, ours, another's address":              {p: packet{options: with(request, plain(), address(54, "10.0.0.1"), address(50, "10.0.0.100"))}, want: dhcpv4.MessageTypeNak},
		"SELECTING, ours, address outside the pool":       {p: packet{options: with(request, plain(), address(54, "10.0.0.1"), address(50, "10.0.0.7"))}, want: dhcpv4.MessageTypeNak},
		"SELECTING, ours, this server's address":          {p: packet{options: with(request, plain(), address(54, "10.0.0.1"), address(50, "10.0.0.1"))}, want: dhcpv4.MessageTypeNak},
		"no option 50 after our offer":                    {known: true, p: packet{options: with(request, romOptions(0))}, want: dhcpv4.MessageTypeAck, wantIP: "10.0.0.100"},
		"no option 50, 54 ours, after our offer":          {known: true, p: packet{options: with(request, romOptions(0), address(54, "10.0.0.1"))}, want: dhcpv4.MessageTypeAck, wantIP: "10.0.0.100"},
		"names nothing, nothing pending":                  {p: packet{options: with(request, romOptions(0))}, want: none},
		"INFORM":                                          {destination: unicast, p: packet{ciaddr: "10.0.0.9", options: with(inform, plain())}, want: dhcpv4.MessageTypeAck},
		"INFORM without an address":                       {p: packet{options: with(inform, plain())}, want: none},
		"a server's message":                              {p: packet{options: with(2, plain())}, want: none},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(o *Options) { o.Authoritative = c.authoritative })
			holder := other
			if c.known {
				holder = testMAC
			}
			if ip := r.lease(holder); ip.String() != "10.0.0.100" {
				t.Fatalf("first lease is %s", ip)
			}
			if c.destination.IsValid() {
				r.destination = c.destination
			}
			if c.want == none {
				r.silent(c.p)
				return
			}
			got := r.reply(c.p)
			wantType(t, got, c.want)
			if c.wantIP != "" && got.YourIPAddr.String() != c.wantIP || c.wantIP == "" && fromIP(got.YourIPAddr).IsValid() {
				t.Errorf("yiaddr %s, want %q", got.YourIPAddr, c.wantIP)
			}
		})
	}
}

func TestInformGetsNoLeaseTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.destination = netip.MustParseAddr("10.0.0.1")
	ack := r.reply(packet{ciaddr: "10.0.0.9", options: with(inform, plain())})
	wantNoOptions(t, ack, 51, 58, 59)
	wantOption(t, ack, 54, []byte{10, 0, 0, 1})
	if len(r.table.byIP) != 0 {
		t.Error("INFORM made a lease")
	}
}
