package dhcp

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// warewulf3#104: an iPXE that cannot run our script loads our binary first.
func TestForeignIPXE(t *testing.T) {
	t.Parallel()
	all := []byte{0xb1, 5, 1, 0x80, 0x86, 0x10, 0x0e, 0xeb, 3, 1, 21, 1, 0x13, 1, 1, 0x15, 1, 1, 0x18, 1, 1, 0x21, 1, 1}
	noLinux := []byte{0xeb, 3, 1, 0, 0, 0x13, 1, 1, 0x15, 1, 1}
	noHTTP := []byte{0xeb, 3, 1, 0, 0, 0x15, 1, 1, 0x18, 1, 1}
	class := text(77, "iPXE")
	cases := map[string]struct {
		arch   byte
		extra  [][]byte
		binary string // empty: the script
	}{
		"Debian's undionly":                   {0, [][]byte{class, option(175, all...)}, ""},
		"QEMU's ROM":                          {7, [][]byte{class, option(175, all...)}, ""},
		"VirtualBox: class, no bzImage":       {0, [][]byte{class, option(175, noLinux...)}, "undionly.kpxe"},
		"FlexBoot BIOS: no class, no bzImage": {0, [][]byte{option(175, noLinux...)}, "undionly.kpxe"},
		"FlexBoot BIOS with everything":       {0, [][]byte{option(175, all...)}, ""},
		"FlexBoot UEFI":                       {7, [][]byte{option(175, noLinux...)}, ""},
		"UEFI without HTTP":                   {7, [][]byte{class, option(175, noHTTP...)}, "snponly.efi"},
		"arm64 without HTTP":                  {11, [][]byte{class, option(175, noHTTP...)}, "ipxe-arm64.efi"},
		"option 175 empty":                    {0, [][]byte{option(175)}, "undionly.kpxe"},
		"option 175 torn":                     {0, [][]byte{option(175, 0x13, 9, 1)}, "undionly.kpxe"},
		"gPXE":                                {0, [][]byte{text(77, "gPXE"), option(175, all...)}, "undionly.kpxe"},
		"class alone is believed":             {0, [][]byte{class}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			offer := r.reply(packet{options: with(discover, romOptions(c.arch, c.extra...))})
			want := c.binary
			if want == "" {
				want = scriptURL
			}
			wantOption(t, offer, 67, []byte(want+"\x00"))
			wantOption(t, offer, 175, []byte{176, 1, 1})
			if offer.ServerIPAddr.String() != "10.0.0.1" {
				t.Errorf("siaddr %s", offer.ServerIPAddr)
			}
		})
	}
}

// boots runs the ROM's four-way exchange and returns the ACK and its decision.
func (r *rig) boots(xid uint32, options [][]byte) (*dhcpv4.DHCPv4, Decision) {
	r.t.Helper()
	offer := r.reply(packet{xid: xid, options: with(discover, options)})
	d := r.ask(packet{xid: xid, options: with(request, options, address(54, "10.0.0.1"), address(50, offer.YourIPAddr.String()))})
	if d.Reply == nil {
		r.t.Fatalf("no ACK: %s", d.Reason)
	}
	return onWire(r.t, d.Reply), d
}

func TestBootLoop(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for attempt := range uint32(mostBinaries + 1) {
		for range 3 { // a request that is repeated is one attempt
			ack, d := r.boots(100+attempt, uefi())
			wantOption(t, ack, 67, []byte("snponly.efi\x00"))
			if last := attempt == mostBinaries; d.Problem != nil && (!last || d.Problem.Kind != BootLoop) {
				t.Fatalf("attempt %d: problem %+v", attempt, d.Problem)
			} else if d.Problem != nil {
				break
			} else if last {
				t.Fatal("the loop was not noticed")
			}
		}
		r.advance(10 * time.Second)
	}
	ack, d := r.boots(200, uefi())
	wantNoOptions(t, ack, 67, 60, 43)
	if d.Problem != nil || d.Lease.BootFile != "" {
		t.Errorf("decision %+v, want a plain lease without a second report", d)
	}
	r.advance(loopPause)
	ack, _ = r.boots(201, uefi())
	wantOption(t, ack, 67, []byte("snponly.efi\x00"))
}

func TestScriptEndsTheWatch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for xid := range uint32(20) {
		ack, d := r.boots(xid+1, uefi())
		wantOption(t, ack, 67, []byte("snponly.efi\x00"))
		if d.Problem != nil {
			t.Fatalf("problem %+v", d.Problem)
		}
		r.loops.forget(string(ack.ClientHWAddr))
		r.advance(time.Second)
	}
	for xid := range uint32(20) { // iPXE that gets the script loads no binary
		if _, d := r.boots(xid+100, ipxe()); d.Problem != nil {
			t.Fatalf("problem %+v", d.Problem)
		}
	}
}

func TestSlowBootsAreNoLoop(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for xid := range uint32(20) {
		if _, d := r.boots(xid+1, uefi()); d.Problem != nil {
			t.Fatalf("problem %+v", d.Problem)
		}
		r.advance(25 * time.Second)
	}
}

func TestLoopWatchIsBounded(t *testing.T) {
	t.Parallel()
	var l loops
	c := newClock()
	for i := range uint32(3 * mostWatched) {
		l.count(string(binary.BigEndian.AppendUint32(nil, i)), i, c.now())
	}
	if len(l.machines) > mostWatched {
		t.Errorf("%d machines are watched, want at most %d", len(l.machines), mostWatched)
	}
	c.advance(2 * loopWindow)
	l.count("one more", 1, c.now())
	if len(l.machines) != 1 {
		t.Errorf("%d machines after the window, want the new one alone", len(l.machines))
	}
}

func TestServerForgetsALoopByAnyNotation(t *testing.T) {
	t.Parallel()
	s, err := New(testOptions())
	if err != nil {
		t.Fatal(err)
	}
	s.engine.loops.count("\x52\x54\x00\x12\x34\x56", 1, time.Now())
	s.ScriptRequested("no mac")
	s.ScriptRequested("52-54-00-12-34-56")
	if n := len(s.engine.loops.machines); n != 0 {
		t.Errorf("%d machines are still watched", n)
	}
}

func TestAdmission(t *testing.T) {
	t.Parallel()
	asked := map[string]bool{}
	policy := map[string]Admission{testMAC: Boot, "52:54:00:00:00:01": LeaseOnly, "52:54:00:00:00:02": Silent}
	admit := func(o *Options) {
		o.Admit = func(mac string) Admission { asked[mac] = true; return policy[mac] }
	}
	for name, options := range map[string][][]byte{"ROM": uefi(), "iPXE": ipxe(), "unsupported": romOptions(10)} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, admit)
			offer := r.reply(packet{mac: "52:54:00:00:00:01", options: with(discover, options)})
			wantNoOptions(t, offer, 43, 60, 66, 67, 175)
			if !fromIP(offer.YourIPAddr).IsValid() || offer.BootFileName != "" {
				t.Errorf("address %s file %q, want a plain lease", offer.YourIPAddr, offer.BootFileName)
			}
			r.silent(packet{mac: "52:54:00:00:00:02", options: with(discover, options)})
			p := newRig(t, admit, func(o *Options) { o.Mode, o.Subnets = ModeProxy, nil })
			for _, mac := range []string{"52:54:00:00:00:01", "52:54:00:00:00:02"} {
				p.silent(packet{mac: mac, options: with(discover, options)})
			}
		})
	}
	r := newRig(t, admit)
	wantOption(t, r.reply(packet{options: with(discover, uefi())}), 67, []byte("snponly.efi\x00"))
	if !asked[testMAC] {
		t.Errorf("asked about %v", asked)
	}
}

func TestReplyDelay(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.ReplyDelay = map[string]time.Duration{"52-54-00": 2 * time.Second} })
	if d := r.ask(packet{options: with(discover, uefi())}); d.Reply.Delay != 2*time.Second {
		t.Errorf("delay %s", d.Reply.Delay)
	}
	for name, p := range map[string]packet{
		"plain client":   {options: with(discover, plain())},
		"another vendor": {mac: "52:54:01:00:00:01", options: with(discover, uefi())},
	} {
		if d := r.ask(p); d.Reply.Delay != 0 {
			t.Errorf("%s: delay %s", name, d.Reply.Delay)
		}
	}
}

func TestDelayedReplyArrives(t *testing.T) {
	t.Parallel()
	r, _, _ := serveRelay(t, func(o *Options) { o.ReplyDelay = map[string]time.Duration{"52:54:00": 50 * time.Millisecond} })
	start := time.Now()
	r.ask(packet{options: with(discover, uefi())})
	if took := time.Since(start); took < 50*time.Millisecond {
		t.Errorf("the answer came after %s", took)
	}
}

// RFC 2131 4.1: a frame to yiaddr at chaddr, if the client did not ask for a broadcast.
func TestUnicastToClientsWithoutAddress(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.Unicast = true })
	d := r.ask(packet{options: with(discover, uefi())})
	if d.Reply.Frame.String() != testMAC || d.Reply.To.String() != "10.0.0.100:68" || d.Reply.From.String() != "10.0.0.1" {
		t.Fatalf("reply %+v", d.Reply)
	}
	for name, p := range map[string]packet{
		"broadcast flag":   {flags: 0x8000, options: with(discover, uefi())},
		"GUID for address": {hlen: 16, options: with(discover, uefi())},
		"relayed":          {giaddr: "10.20.0.1", options: with(discover, uefi())},
		"NAK":              {options: with(request, uefi(), address(54, "10.0.0.1"), address(50, "10.0.0.7"))},
	} {
		if d := r.ask(p); d.Reply == nil || d.Reply.Frame != nil {
			t.Errorf("%s: reply %+v, want none by frame", name, d.Reply)
		}
	}
}

// A header whose checksums add up to nothing (RFC 1071), and the payload behind it.
func TestUDPPacket(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{"", "odd", "even"} {
		b := udpPacket(netip.MustParseAddrPort("10.0.0.1:67"), netip.MustParseAddrPort("10.0.0.100:68"), []byte(payload))
		if got := checksum(0, b[:ipHeader]); got != 0 {
			t.Errorf("%q: IPv4 checksum is off by %04x", payload, got)
		}
		if got := checksum(uint32(17+len(b)-ipHeader)+add(b[12:20]), b[ipHeader:]); got != 0 {
			t.Errorf("%q: UDP checksum is off by %04x", payload, got)
		}
		if string(b[ipHeader+udpHeader:]) != payload || int(binary.BigEndian.Uint16(b[2:])) != len(b) {
			t.Errorf("packet % x", b)
		}
	}
}

// Several interfaces: each client is told of the address of its own link.
func TestSeveralLinks(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.ServerAddress, o.BootURL, o.BootPort = netip.Addr{}, "", 8080 })
	for i, want := range []string{"10.0.0.1", "10.20.0.1"} {
		r.link = Link{Index: 7 + i, Addresses: []netip.Prefix{netip.MustParsePrefix(want + "/16")}}
		d := r.ask(packet{mac: netMAC([]byte{2, 0, 0, 0, 0, byte(i)}), options: with(discover, ipxe())})
		offer := onWire(t, d.Reply)
		wantOption(t, offer, 54, netip.MustParseAddr(want).AsSlice())
		wantOption(t, offer, 67, []byte("http://"+want+":8080/autoexec.ipxe\x00"))
		if d.Reply.From.String() != want || d.Reply.Interface != 7+i {
			t.Errorf("leaves from %s by %d", d.Reply.From, d.Reply.Interface)
		}
	}
}

func TestRivalOnTheWire(t *testing.T) {
	t.Parallel()
	s, err := New(testOptions())
	if err != nil {
		t.Fatal(err)
	}
	from := func(server string, op byte, k byte) []byte {
		p := packet{op: op, options: [][]byte{kind(k), address(54, server)}}
		return udpPacket(netip.AddrPortFrom(netip.MustParseAddr(server), 67), netip.MustParseAddrPort("255.255.255.255:68"), p.bytes())
	}
	p, found := s.rival(from("10.0.0.3", 2, 2))
	if !found || p.Kind != RivalServer || p.IP.String() != "10.0.0.3" || p.MAC != testMAC {
		t.Errorf("problem %+v", p)
	}
	for name, packet := range map[string][]byte{"our own": from("10.0.0.1", 2, 2), "a request": from("10.0.0.3", 1, 1), "torn": from("10.0.0.3", 2, 2)[:40], "nothing": nil} {
		if p, found := s.rival(packet); found {
			t.Errorf("%s is a rival: %+v", name, p)
		}
	}
}
