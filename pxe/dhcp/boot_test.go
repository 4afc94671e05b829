package dhcp

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

const scriptURL = "http://10.0.0.1:8080/autoexec.ipxe"

// P4: an iPXE user class, raw or as RFC 3004 has it, gets the script and never a binary.
func TestIPXEGetsTheScript(t *testing.T) {
	t.Parallel()
	cases := map[string][][]byte{
		"raw user class (ipxe)":           uefi(text(77, "iPXE"), option(175, 0x13, 1, 1)),
		"user class of RFC 3004":          uefi(text(77, "\x04iPXE"), option(175, 0x13, 1, 1)),
		"second of two RFC 3004 classes":  uefi(text(77, "\x03abc\x04iPXE")),
		"FlexBoot: option 175 alone":      uefi(option(175, 0x13, 1, 1)),
		"BIOS iPXE":                       romOptions(0, text(77, "iPXE")),
		"foreign class beside option 175": uefi(text(77, "Tinkerbell"), option(175, 0x13, 1, 1)),
	}
	for name, options := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			offer := r.reply(packet{options: with(discover, options)})
			wantOption(t, offer, 67, []byte(scriptURL+"\x00"))
			wantOption(t, offer, 175, []byte{176, 1, 1})
			wantNoOptions(t, offer, 60, 43)
			ack := r.reply(packet{options: with(request, options, address(54, "10.0.0.1"), address(50, offer.YourIPAddr.String()))})
			wantOption(t, ack, 67, []byte(scriptURL+"\x00"))
		})
	}
}

func TestUserClassThatOnlyResemblesIPXEIsNotIPXE(t *testing.T) {
	t.Parallel()
	for _, class := range []string{"iPXE2", "\x04iPX", "\x00iPXE", "\x05iPXE", "\xffiPXE", ""} {
		r := newRig(t)
		offer := r.reply(packet{options: with(discover, uefi(text(77, class)))})
		wantOption(t, offer, 67, []byte("snponly.efi\x00"))
	}
}

// P5: option 67 ends in NUL and the header carries the same name if it fits.
func TestBootFileIsNULTerminatedAndRepeatedInTheHeader(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	offer := r.reply(packet{options: with(discover, uefi())})
	wantOption(t, offer, 67, []byte("snponly.efi\x00"))
	if offer.BootFileName != "snponly.efi" {
		t.Errorf("file header %q, want snponly.efi", offer.BootFileName)
	}
}

// P5: lengths around the 128-byte header and the 255-byte option.
func TestLongBootURLs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		length int
		header bool
	}{{127, true}, {128, false}, {200, false}, {248, false}} {
		base := "http://10.0.0.1:8080/"
		base += strings.Repeat("x", c.length-len(base)-len(pathScript))
		r := newRig(t, func(o *Options) { o.BootURL = base })
		offer := r.reply(packet{options: with(discover, ipxe())})
		want := base + pathScript
		wantOption(t, offer, 67, []byte(want+"\x00"))
		if got := offer.BootFileName; c.header != (got == want) || !c.header && got != "" {
			t.Errorf("URL of %d characters: file header %q", c.length, got)
		}
	}
}

func TestBootURLThatDoesNotFitIsRefused(t *testing.T) {
	t.Parallel()
	o := testOptions()
	o.BootURL = "http://10.0.0.1:8080/" + strings.Repeat("x", 220)
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "shorten") {
		t.Errorf("error %v, want one that says to shorten the base", err)
	}
	o.BootURL = "http://10.0.0.1:8080/" + strings.Repeat("x", 205)
	if _, err := New(o); err != nil {
		t.Error(err)
	}
	o.HTTPPath = func(string, string) string { return "" }
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), longestHTTPPath) {
		t.Errorf("error %v, want one that names the longest path", err)
	}
}

// P6: UEFI HTTP boot needs its class back and a URL that ends in .efi.
func TestUEFIHTTPBoot(t *testing.T) {
	t.Parallel()
	for arch, file := range map[byte]string{16: "snponly.efi", 19: "ipxe-arm64.efi", 20: "undionly.kpxe", 7: "snponly.efi"} {
		r := newRig(t)
		offer := r.reply(packet{options: with(discover, [][]byte{option(93, 0, arch), text(60, "HTTPClient:Arch:00016:UNDI:003000")})})
		wantOption(t, offer, 60, []byte("HTTPClient"))
		wantOption(t, offer, 67, []byte("http://10.0.0.1:8080/ipxe/"+file+"\x00"))
		wantNoOptions(t, offer, 43, 175)
	}
}

// I3: one machine loads an image of its own, and no other does; PXE ROMs and iPXE
// get what they always got.
func TestOneMachineHasAnHTTPBootPathOfItsOwn(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) {
		o.HTTPPath = func(mac, arch string) string {
			if mac != testMAC {
				return ""
			}
			return "/uki/52-54-00-12-34-56/" + arch + ".efi"
		}
	})
	http := func(arch byte) [][]byte {
		return [][]byte{option(93, 0, arch), text(60, "HTTPClient:Arch:00016:UNDI:003000")}
	}
	for _, tc := range []struct {
		mac     string
		options [][]byte
		want    string
	}{
		{testMAC, http(16), "http://10.0.0.1:8080/uki/52-54-00-12-34-56/amd64.efi"},
		{testMAC, http(19), "http://10.0.0.1:8080/uki/52-54-00-12-34-56/arm64.efi"},
		{testMAC, http(7), "http://10.0.0.1:8080/uki/52-54-00-12-34-56/amd64.efi"},
		{testMAC, http(20), "http://10.0.0.1:8080/ipxe/undionly.kpxe"}, // a BIOS starts no EFI program
		{testMAC, uefi(), "snponly.efi"},
		{testMAC, ipxe(), scriptURL},
		{"52:54:00:12:34:57", http(16), "http://10.0.0.1:8080/ipxe/snponly.efi"},
	} {
		for _, p := range []packet{{mac: tc.mac, options: with(discover, tc.options)}, {mac: tc.mac, options: with(request, tc.options, address(54, "10.0.0.1"))}} {
			reply := r.reply(p)
			wantOption(t, reply, 67, []byte(tc.want+"\x00"))
			if reply.BootFileName != tc.want {
				t.Errorf("%s: file header %q, want %q", tc.mac, reply.BootFileName, tc.want)
			}
		}
	}
}

// A machine that loads its signed image again and again is in no loop of iPXE.
func TestAnImageOfItsOwnIsNotCountedAsIPXE(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.HTTPPath = func(string, string) string { return "/uki/x/amd64.efi" } })
	options := [][]byte{option(93, 0, 16), text(60, "HTTPClient")}
	for i := range 2 * mostBinaries {
		r.reply(packet{xid: uint32(i + 1), options: with(discover, options)})
		d := r.ask(packet{xid: uint32(i + 1), options: with(request, options, address(54, "10.0.0.1"))})
		if d.Problem != nil || d.Reply == nil {
			t.Fatalf("boot %d: %+v", i, d)
		}
	}
}

// P6: the class text names the architecture when option 93 is missing.
func TestArchitectureFromTheClassText(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	offer := r.reply(packet{options: with(discover, [][]byte{text(60, "HTTPClient:Arch:00016:UNDI:003000")})})
	wantOption(t, offer, 67, []byte("http://10.0.0.1:8080/ipxe/snponly.efi\x00"))
}

// P7: without assertive an offer is not marked PXEClient (smee#225).
func TestPXEOfferIsPlainByDefault(t *testing.T) {
	t.Parallel()
	offer := newRig(t).reply(packet{flags: 0x8000, options: with(discover, uefi())})
	wantNoOptions(t, offer, 60, 43, 66, 175)
	wantOption(t, offer, 97, testGUID)
	if got := offer.ServerIPAddr.String(); got != "10.0.0.1" {
		t.Errorf("siaddr %s, want 10.0.0.1", got)
	}
	if offer.Flags != 0x8000 {
		t.Errorf("flags %04x, want them echoed", offer.Flags)
	}
}

// P7: assertive wins against a second DHCP server.
func TestAssertivePXEOffer(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.Assertive = true })
	offer := r.reply(packet{options: with(discover, uefi())})
	wantOption(t, offer, 60, []byte("PXEClient"))
	if !bytes.Contains(offer.ToBytes(), []byte{0x2b, 4, 6, 1, 8, 0xff}) {
		t.Error("no option 43 with discovery control 8")
	}
	wantNoOptions(t, r.reply(packet{mac: "52:54:00:00:00:01", options: with(discover, ipxe())}), 60, 43)
}

// P7: an ordinary client gets an address and nothing of the boot.
func TestPlainClientGetsNoBootOptions(t *testing.T) {
	t.Parallel()
	for _, assertive := range []bool{false, true} {
		r := newRig(t, func(o *Options) { o.Assertive = assertive })
		offer := r.reply(packet{options: with(discover, plain())})
		wantNoOptions(t, offer, 43, 60, 66, 67, 175)
		if offer.BootFileName != "" || offer.ServerHostName != "" || fromIP(offer.ServerIPAddr).IsValid() {
			t.Errorf("file %q, sname %q, siaddr %s, want none", offer.BootFileName, offer.ServerHostName, offer.ServerIPAddr)
		}
		wantOption(t, offer, 1, []byte{255, 255, 255, 0})
		wantOption(t, offer, 3, []byte{10, 0, 0, 254})
		wantOption(t, offer, 6, []byte{1, 1, 1, 1, 8, 8, 8, 8})
		wantOption(t, offer, 51, []byte{0, 0, 0x0e, 0x10})
		wantOption(t, offer, 54, []byte{10, 0, 0, 1})
		wantOption(t, offer, 58, []byte{0, 0, 0x07, 0x08})
		wantOption(t, offer, 59, []byte{0, 0, 0x0c, 0x4e})
	}
}

func TestArchitectureTable(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		mac  string
		arch []byte
		file string // empty: no offer
	}{
		"BIOS":                       {arch: []byte{0, 0}, file: "undionly.kpxe"},
		"EFI x64":                    {arch: []byte{0, 7}, file: "snponly.efi"},
		"EFI x64 in old numbering":   {arch: []byte{0, 9}, file: "snponly.efi"},
		"EFI ARM64":                  {arch: []byte{0, 11}, file: "ipxe-arm64.efi"},
		"U-Boot ARM64":               {arch: []byte{0, 22}, file: "ipxe-arm64.efi"},
		"first known of a list":      {arch: []byte{0x77, 0x77, 0, 7, 0, 0}, file: "snponly.efi"},
		"odd length":                 {arch: []byte{0, 7, 9}, file: "snponly.efi"},
		"PC98":                       {arch: []byte{0, 1}},
		"EFI IA32":                   {arch: []byte{0, 6}},
		"EFI Xscale":                 {arch: []byte{0, 8}},
		"EFI ARM32":                  {arch: []byte{0, 10}},
		"RISC-V":                     {arch: []byte{0, 27}},
		"never heard of":             {arch: []byte{0x77, 0x77}},
		"Raspberry Pi calls it BIOS": {mac: "d8:3a:dd:00:00:01", arch: []byte{0, 0}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			p := packet{mac: c.mac, options: with(discover, [][]byte{option(93, c.arch...), text(60, "PXEClient")})}
			if c.file == "" {
				if d := r.silent(p); d.Problem == nil || d.Problem.Kind != UnsupportedArch {
					t.Errorf("problem %v, want unsupported architecture", d.Problem)
				}
				return
			}
			wantOption(t, r.reply(p), 67, []byte(c.file+"\x00"))
		})
	}
}

func TestOldROMWithoutArchitectureIsBIOS(t *testing.T) {
	t.Parallel()
	offer := newRig(t).reply(packet{options: with(discover, [][]byte{text(60, "PXEClient")})})
	wantOption(t, offer, 67, []byte("undionly.kpxe\x00"))
}

// smee#195, pixiecore#21: a malformed or missing option 97 is not echoed and costs nothing.
func TestMalformedGUIDIsServed(t *testing.T) {
	t.Parallel()
	for _, guid := range [][]byte{nil, {}, make([]byte, 14), append([]byte{1}, make([]byte, 16)...), make([]byte, 18)} {
		offer := newRig(t).reply(packet{options: with(discover, romOptions(7, option(97, guid...)))})
		wantNoOptions(t, offer, 97)
		wantOption(t, offer, 67, []byte("snponly.efi\x00"))
	}
}

func TestReplyFitsTheClient(t *testing.T) {
	t.Parallel()
	long := func(o *Options) {
		o.BootURL = "http://10.0.0.1:8080/" + strings.Repeat("x", 200)
		o.Subnets[0].DNS = make([]netip.Addr, 30)
		for i := range o.Subnets[0].DNS {
			o.Subnets[0].DNS[i] = netip.MustParseAddr("1.1.1.1")
		}
	}
	for _, c := range []struct {
		size [][]byte
		want int
	}{{nil, 576 - 28}, {[][]byte{option(57, 0, 10)}, 576 - 28}, {[][]byte{option(57, 2, 88)}, 600 - 28}, {[][]byte{option(57, 0xff, 0)}, 1472 - 28}} {
		r := newRig(t, long)
		d := r.ask(packet{options: with(discover, [][]byte{text(77, "iPXE"), option(61, make([]byte, 30)...)}, c.size...)})
		if got := len(d.Reply.Packet.ToBytes()); got > c.want {
			t.Errorf("reply of %d bytes, the client takes %d", got, c.want)
		}
		for _, code := range []uint8{1, 51, 53, 54, 67} {
			if !d.Reply.Packet.Options.Has(dhcpv4.GenericOptionCode(code)) {
				t.Errorf("option %d was dropped", code)
			}
		}
	}
}
