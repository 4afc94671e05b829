package dhcp

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// FuzzDecide feeds packets of any content into a server that knows one client.
// Whatever arrives, a reply is well formed and promises only what is ours.
func FuzzDecide(f *testing.F) {
	seeds := []packet{
		{options: with(discover, uefi())},
		{options: with(discover, ipxe())},
		{options: with(discover, plain())},
		{options: with(request, uefi(), address(54, "10.0.0.1"), address(50, "10.0.0.100"))},
		{options: with(request, uefi(), address(50, "10.0.0.100"))},
		{ciaddr: "10.0.0.100", options: with(request, plain())},
		{ciaddr: "10.0.0.100", options: with(release, nil)},
		{options: with(decline, nil, address(50, "10.0.0.100"))},
		{ciaddr: "10.0.0.9", options: with(inform, plain())},
		{giaddr: "10.20.0.1", hops: 1, options: with(discover, uefi(), text(82, "\x01\x04eth1"))},
		{giaddr: "10.20.0.1", options: with(discover, uefi(), option(82, 5, 4, 10, 20, 0, 0, 11, 4, 10, 20, 0, 1))},
		{hlen: 16, options: with(discover, romOptions(0))},
		{hlen: 255, options: with(discover, romOptions(16))},
		{noEnd: true, options: with(discover, nil)},
		{op: 2, options: with(2, nil)},
		{options: [][]byte{option(77, 0, 0xff), option(93, 1), option(97, 1), option(57, 1), kind(1)}},
	}
	for _, s := range seeds {
		f.Add(s.bytes(), true, false)
		f.Add(s.bytes(), false, true)
	}
	f.Add([]byte{}, false, false)
	f.Add(seeds[0].bytes()[:240], false, false)
	f.Fuzz(func(t *testing.T, payload []byte, authoritative, assertive bool) {
		q, err := ParseRequest(payload)
		if err != nil {
			return
		}
		r := newRig(t, func(o *Options) { o.Authoritative, o.Assertive = authoritative, assertive })
		known := r.lease(testMAC)
		q.Link, q.Destination = r.link, r.destination
		for _, change := range []func(*Options){func(*Options) {}, func(o *Options) { o.Mode, o.Subnets = ModeProxy, nil }} {
			p := newRig(t, change, func(o *Options) { o.Assertive, o.Unicast = assertive, authoritative })
			q.BootPort = authoritative
			if q.BootPort || p.options.Mode == ModeProxy {
				if d := p.decide(q, p.now()); d.Reply != nil {
					checkBootReply(t, q, d.Reply)
				}
			}
		}
		q.BootPort = false
		for range 2 { // twice: a repeated packet meets the state that the first one left
			if d := r.decide(q, r.now()); d.Reply != nil {
				checkReply(t, r, q, d.Reply, known)
			}
		}
	})
}

func checkReply(t *testing.T, r *rig, q Request, reply *Reply, known netip.Addr) {
	t.Helper()
	p := onWire(t, reply)
	if p.OpCode != dhcpv4.OpcodeBootReply || p.TransactionID != q.Packet.TransactionID || !bytes.Equal(p.ClientHWAddr, q.Packet.ClientHWAddr) {
		t.Errorf("the reply is not the request's: %s", p.Summary())
	}
	if !reply.To.IsValid() {
		t.Error("the reply has no destination")
	}
	ip := fromIP(p.YourIPAddr)
	if ip.IsValid() {
		i := subnetIndex(r.options.Subnets, ip)
		if i < 0 || !r.table.pools[i].contains(ip) {
			t.Errorf("address %s is in no pool", ip)
		}
		if mac := "\x52\x54\x00\x12\x34\x56"; ip == known && string(q.MAC()) != mac {
			t.Errorf("address %s of another client was given to %x", ip, q.MAC())
		}
	}
	if p.MessageType() == dhcpv4.MessageTypeNak && ip.IsValid() {
		t.Error("a NAK gives an address")
	}
	if q.ClientClass() == ClassPlain {
		wantNoOptions(t, p, 43, 60, 66, 67, 175)
	}
	if file := p.Options[67]; file != nil && file[len(file)-1] != 0 {
		t.Errorf("option 67 does not end in NUL: %q", file)
	}
	if !bytes.Equal(p.Options[82], q.Packet.Options[82]) {
		t.Error("option 82 was changed")
	}
}

// checkBootReply: an answer of the proxy says what to boot and gives no address.
func checkBootReply(t *testing.T, q Request, reply *Reply) {
	t.Helper()
	p := onWire(t, reply)
	if p.OpCode != dhcpv4.OpcodeBootReply || p.TransactionID != q.Packet.TransactionID || !reply.To.IsValid() {
		t.Errorf("the reply is not the request's: %s", p.Summary())
	}
	if fromIP(p.YourIPAddr).IsValid() {
		t.Errorf("a proxy gives the address %s", p.YourIPAddr)
	}
	wantNoOptions(t, p, 1, 3, 6, 51)
	if q.ClientClass() == ClassPlain || p.Options[67] == nil || p.Options[60] == nil {
		t.Errorf("a proxy answers %s without boot file or class", q.ClientClass())
	}
}

// FuzzLeaseFile opens a lease file of any content.
func FuzzLeaseFile(f *testing.F) {
	f.Add([]byte(`{"mac":"52:54:00:12:34:56","ip":"10.0.0.100","until":1796040000}` + "\n"))
	f.Add([]byte(`{"ip":"10.0.0.100","until":1796040000,"bad":true}` + "\n" + `{"mac":"52:54`))
	f.Add([]byte("{}\nnull\n[]\n\n{\"mac\":\"zz\",\"ip\":\"::1\"}\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		for line := range bytes.SplitSeq(content, []byte{'\n'}) {
			got, err := decodeLine(line)
			if err != nil {
				continue
			}
			again, err := decodeLine(bytes.TrimSpace(encodeLines([]record{got})))
			if err != nil || again != got {
				t.Errorf("record %+v is read back as %+v (%v)", got, again, err)
			}
		}
	})
}

// FuzzWire looks for a rival's answer in packets of any content.
func FuzzWire(f *testing.F) {
	good := packet{op: 2, options: [][]byte{kind(2), address(54, "10.0.0.3")}}
	f.Add(udpPacket(netip.MustParseAddrPort("10.0.0.3:67"), netip.MustParseAddrPort("255.255.255.255:68"), good.bytes()))
	f.Add([]byte{0x4f})
	f.Add(make([]byte, 28))
	s, err := New(testOptions())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		if p, found := s.rival(packet); found && (!p.IP.IsValid() || p.IP == s.engine.options.ServerAddress) {
			t.Errorf("rival %+v", p)
		}
	})
}
