package dhcp

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// The cases P1 to P8 that firmware makes, over real sockets: relayed on
// loopback here, broadcast on a wire in wire_test.go.

// P1: the reply goes to giaddr at the relay port, wherever the request left
// from; flags, giaddr and option 82 return unchanged.
func TestP1Relay(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string]uint16{"broadcast": 0x8000, "unicast, from another port": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, s, _ := serveRelay(t)
			agent := text(82, "\x01\x04eth1")
			q := packet{hops: 1, giaddr: relayAddress, flags: flags, options: with(discover, uefi(), agent)}.bytes()
			if flags != 0 {
				r.send(q)
			} else {
				other := newRelay(t)
				other.to = s.Addr()
				other.send(q)
			}
			offer, from := r.receive()
			if from != s.Addr() || offer.Flags != flags || offer.GatewayIPAddr.String() != relayAddress {
				t.Errorf("from %s flags %04x giaddr %s", from, offer.Flags, offer.GatewayIPAddr)
			}
			wire := strings.TrimRight(string(offer.ToBytes()), "\x00")
			if !strings.HasSuffix(wire, string(agent)+"\xff") {
				t.Error("option 82 is not last and verbatim")
			}
			if !strings.HasPrefix(offer.YourIPAddr.String(), "127.10.") {
				t.Errorf("address %s is not of the relay's subnet", offer.YourIPAddr)
			}
		})
	}
}

// P2: who chose another server gets no packet, and our offer is free at once.
func TestP2AnotherServerSelected(t *testing.T) {
	t.Parallel()
	r, _, _ := serveRelay(t, func(o *Options) { o.Subnets[0].Last = o.Subnets[0].First }) // one address
	const other = "52:54:00:00:00:02"
	offer := r.ask(packet{options: with(discover, uefi())})
	r.send(packet{giaddr: relayAddress, options: with(request, uefi(), address(54, "10.98.0.3"), address(50, "10.98.0.77"))}.bytes())
	next := r.ask(packet{mac: other, options: with(discover, uefi())})
	if next.ClientHWAddr.String() != other {
		t.Fatalf("the request was answered by %s", next.MessageType())
	}
	if !next.YourIPAddr.Equal(offer.YourIPAddr) {
		t.Errorf("offered %s, want the address that was given back, %s", next.YourIPAddr, offer.YourIPAddr)
	}
}

// P3: ROM, iPXE and Talos send three client ids from one machine.
func TestP3OneMACThreeClientIDs(t *testing.T) {
	t.Parallel()
	r, _, _ := serveRelay(t)
	ids := [][]byte{nil, option(61, 1, 0x52, 0x54, 0, 0x12, 0x34, 0x56), option(61, 0xff, 0, 0x12, 0x34, 0x56, 0, 1, 0, 1, 9, 9)}
	ips := make([]string, 0, len(ids))
	for _, id := range ids {
		options := uefi()
		if id != nil {
			options = append(options, id)
		}
		ips = append(ips, r.ask(packet{options: with(discover, options)}).YourIPAddr.String())
	}
	if ips[0] != ips[1] || ips[1] != ips[2] {
		t.Errorf("one machine was offered %v", ips)
	}
}

const loopbackScript = "http://127.10.0.1:8080/autoexec.ipxe"

// P4: both forms of iPXE's user class; 175.176 in full mode only; never a binary.
func TestP4IPXEUserClass(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{ModeServer, ModeProxy} {
		for _, class := range []string{"iPXE", "\x04iPXE"} {
			r, _, _ := serveRelay(t, func(o *Options) { o.Mode = mode })
			offer := r.ask(packet{options: with(discover, uefi(text(77, class), option(175, 0x13, 1, 1)))})
			wantOption(t, offer, 67, []byte(loopbackScript+"\x00"))
			if offer.BootFileName != loopbackScript || offer.ServerIPAddr.String() != serverAddress {
				t.Errorf("file %q, siaddr %s", offer.BootFileName, offer.ServerIPAddr)
			}
			if mode == ModeServer {
				wantOption(t, offer, 175, []byte{176, 1, 1})
				wantNoOptions(t, offer, 60, 43)
			} else {
				wantNoOptions(t, offer, 175, 51)
				wantOption(t, offer, 60, []byte("PXEClient"))
			}
		}
	}
}

// P5: option 67 ends in NUL, the header holds the same name.
func TestP5BootFileOption(t *testing.T) {
	t.Parallel()
	r, _, _ := serveRelay(t)
	offer := r.ask(packet{options: with(discover, uefi())})
	wantOption(t, offer, 67, []byte("snponly.efi\x00"))
	if offer.BootFileName != "snponly.efi" {
		t.Errorf("file header %q", offer.BootFileName)
	}
}

// P6: UEFI HTTP boot, in both modes.
func TestP6UEFIHTTPBoot(t *testing.T) {
	t.Parallel()
	for arch, file := range map[byte]string{16: "snponly.efi", 19: "ipxe-arm64.efi"} {
		for _, mode := range []Mode{ModeServer, ModeProxy} {
			r, _, _ := serveRelay(t, func(o *Options) { o.Mode = mode })
			offer := r.ask(packet{options: with(discover, [][]byte{option(93, 0, arch), text(60, "HTTPClient:Arch:00016:UNDI:003000")})})
			wantOption(t, offer, 60, []byte("HTTPClient"))
			wantOption(t, offer, 67, []byte("http://127.10.0.1:8080/ipxe/"+file+"\x00"))
			wantNoOptions(t, offer, 43, 175)
			if got := fromIP(offer.YourIPAddr).IsValid(); got != (mode == ModeServer) {
				t.Errorf("mode %q: address %s", mode, offer.YourIPAddr)
			}
		}
	}
}

// P7: plain and assertive offers of the full server; a plain client.
func TestP7FullMode(t *testing.T) {
	t.Parallel()
	r, _, _ := serveRelay(t)
	wantNoOptions(t, r.ask(packet{options: with(discover, uefi())}), 60, 43)
	client := r.ask(packet{mac: "52:54:00:00:00:02", options: with(discover, plain())})
	wantNoOptions(t, client, 43, 60, 66, 67, 175)
	if client.BootFileName != "" || fromIP(client.ServerIPAddr).IsValid() {
		t.Errorf("file %q, siaddr %s", client.BootFileName, client.ServerIPAddr)
	}
	r, _, _ = serveRelay(t, func(o *Options) { o.Assertive = true })
	offer := r.ask(packet{options: with(discover, uefi())})
	wantOption(t, offer, 60, []byte("PXEClient"))
	wantOption(t, offer, 43, []byte{6, 1, 8, 255})
}

// P8: the proxy's offers, and its port where firmware asks for the boot file.
func TestP8ProxyAndBootPort(t *testing.T) {
	t.Parallel()
	r, s, _ := serveRelay(t, func(o *Options) { o.Mode, o.BootListen = ModeProxy, serverAddress+":0" })
	offer := r.ask(packet{options: with(discover, uefi())})
	wantType(t, offer, dhcpv4.MessageTypeOffer)
	wantOption(t, offer, 54, []byte{127, 10, 0, 1})
	wantOption(t, offer, 60, []byte("PXEClient"))
	wantOption(t, offer, 67, []byte("snponly.efi\x00"))
	wantOption(t, offer, 97, testGUID)
	wantNoOptions(t, offer, 43, 51, 1, 3, 6)
	if fromIP(offer.YourIPAddr).IsValid() || offer.ServerIPAddr.String() != serverAddress {
		t.Errorf("yiaddr %s siaddr %s", offer.YourIPAddr, offer.ServerIPAddr)
	}
	wantOption(t, r.ask(packet{options: with(discover, romOptions(0))}), 43, []byte{6, 1, 8, 255})

	// A REQUEST at the DHCP port is the other server's: the answer to the next
	// packet shows that it got none.
	r.send(packet{giaddr: relayAddress, options: with(request, uefi(), address(54, "10.0.0.9"), address(50, "127.10.0.57"))}.bytes())
	r.send(packet{giaddr: relayAddress, options: with(discover, plain())}.bytes())
	wantType(t, r.ask(packet{xid: 7, options: with(discover, uefi())}), dhcpv4.MessageTypeOffer)

	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP("127.10.0.57")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	c := &relay{t: t, conn: conn, to: s.BootAddr()}
	c.send(packet{ciaddr: "127.10.0.57", options: with(request, uefi())}.bytes())
	ack, from := c.receive()
	wantType(t, ack, dhcpv4.MessageTypeAck)
	wantOption(t, ack, 67, []byte("snponly.efi\x00"))
	wantOption(t, ack, 60, []byte("PXEClient"))
	if from != s.BootAddr() || ack.BootFileName != "snponly.efi" || ack.ClientIPAddr.String() != "127.10.0.57" {
		t.Errorf("from %s file %q ciaddr %s", from, ack.BootFileName, ack.ClientIPAddr)
	}
	c.send(packet{ciaddr: "127.10.0.57", options: with(request, romOptions(0), option(43, 71, 4, 0x80, 0, 0, 0, 255))}.bytes())
	ack, _ = c.receive()
	wantOption(t, ack, 43, []byte{71, 4, 0x80, 0, 0, 0, 255})
	wantOption(t, ack, 67, []byte("undionly.kpxe\x00"))
	for _, junk := range [][]byte{option(43, 71, 4, 1), option(43, 71), option(43, 71, 2, 1, 1), option(43, 255, 71, 4, 1, 1, 1, 1)} {
		c.send(packet{ciaddr: "127.10.0.57", options: with(request, romOptions(0), junk)}.bytes())
		ack, _ = c.receive()
		wantOption(t, ack, 43, []byte{6, 1, 8, 255})
	}
}

// The full server answers at the ProxyDHCP port too: firmware asks there when
// an offer was marked PXEClient (PXE-E16, PXE-E55 otherwise).
func TestBootPortOfAFullServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.source = netip.MustParseAddrPort("10.0.0.57:4011")
	ask := func(p packet) Decision {
		q, err := ParseRequest(p.bytes())
		if err != nil {
			t.Fatal(err)
		}
		q.Link, q.Destination, q.Source, q.BootPort = r.link, netip.MustParseAddr("10.0.0.1"), r.source, true
		return r.decide(q, r.now())
	}
	d := ask(packet{ciaddr: "10.0.0.57", options: with(request, uefi())})
	if d.Reply == nil || d.Reply.To != r.source || d.Reply.From.String() != "10.0.0.1" {
		t.Fatalf("decision %+v, want an answer to %s", d, r.source)
	}
	if d.Lease == nil || d.Lease.Type != TypeProxy || d.Lease.IP.String() != "10.0.0.57" {
		t.Errorf("observed %+v", d.Lease)
	}
	// iPXE that asks there gets the script, HTTP boot its URL.
	wantOption(t, onWire(t, ask(packet{ciaddr: "10.0.0.57", options: with(inform, ipxe())}).Reply), 67, []byte(scriptURL+"\x00"))
	r.source = netip.AddrPortFrom(netip.IPv4Unspecified(), 68) // infra#1363: no broadcast while an address is known
	if d := ask(packet{ciaddr: "10.0.0.57", options: with(request, uefi())}); d.Reply.To.String() != "10.0.0.57:68" {
		t.Errorf("answer to %s, want ciaddr", d.Reply.To)
	}
	if d := ask(packet{options: with(request, uefi())}); d.Reply.To.String() != "255.255.255.255:68" {
		t.Errorf("answer to %s, want a broadcast", d.Reply.To)
	}
	for name, p := range map[string]packet{
		"plain client":  {ciaddr: "10.0.0.57", options: with(request, plain())},
		"DISCOVER":      {options: with(discover, uefi())},
		"RELEASE":       {ciaddr: "10.0.0.57", options: with(release, uefi())},
		"unknown to us": {ciaddr: "10.0.0.57", options: with(request, romOptions(10))},
	} {
		if d := ask(p); d.Reply != nil {
			t.Errorf("%s was answered: %s", name, d.Reason)
		}
	}
	if len(r.table.byIP) != 0 {
		t.Error("a question at the ProxyDHCP port made a lease")
	}
}

// The quirk switch for UEFI firmware that does not ask at the ProxyDHCP port.
func TestAssertiveProxy(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.Mode, o.Assertive, o.Subnets = ModeProxy, true, nil })
	wantOption(t, r.reply(packet{options: with(discover, uefi())}), 43, []byte{6, 1, 8, 255})
}

// A proxy knows its address from the interface alone.
func TestProxyWithoutConfiguredAddress(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) {
		o.Mode, o.Subnets, o.ServerAddress, o.BootURL, o.BootPort = ModeProxy, nil, netip.Addr{}, "", 8080
	})
	offer := r.reply(packet{options: with(discover, ipxe())})
	wantOption(t, offer, 54, []byte{10, 0, 0, 1})
	wantOption(t, offer, 67, []byte(scriptURL+"\x00"))
	if !offer.IsBroadcast() {
		t.Error("a proxy offer to a client without an address is not marked broadcast")
	}
	r.silent(packet{options: with(discover, plain())})
	d := r.silent(packet{options: with(request, ipxe(), address(54, "10.0.0.9"), address(50, "10.0.0.77"))})
	if d.Problem != nil || d.Lease == nil || d.Lease.IP.String() != "10.0.0.77" || d.Lease.Class != ClassIPXE {
		t.Errorf("decision %+v, want the address noted and no problem: the other server is there by intention", d)
	}
	if d := r.silent(packet{options: with(discover, romOptions(10))}); d.Problem == nil || d.Problem.Kind != UnsupportedArch {
		t.Errorf("problem %+v", d.Problem)
	}
}
