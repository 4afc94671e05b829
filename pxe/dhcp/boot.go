package dhcp

import (
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// boot is what a client is told to load. The zero value tells nothing.
type boot struct {
	file  string // name for TFTP, or URL
	class string // option 60
	extra []dhcpv4.Option
}

// Values of boot options.
var (
	// noProxy is iPXE's option 175.176: do not wait 2 s for a ProxyDHCP server.
	noProxy = []byte{176, 1, 1}
	// bootThisOffer is PXE_DISCOVERY_CONTROL 8: boot the file of this offer
	// without asking on port 4011 (PXE 2.1).
	bootThisOffer = []byte{6, 1, 8, 255}
)

// longestHeaderFile is what the 128-byte file field holds beside its NUL; the
// encoder would cut more silently.
const longestHeaderFile = 127

// bootOf chooses the boot options of a client. It reports false for firmware
// that cannot run any of our binaries: it must get no offer, so that the person
// at the screen sees "no offer" and not a file that does not start.
func (e *engine) bootOf(r Request) (boot, bool) {
	switch r.ClientClass() {
	case ClassPXE:
		return e.pxeBoot(r)
	case ClassHTTP:
		return e.httpBoot(r)
	case ClassIPXE:
		b := boot{extra: []dhcpv4.Option{dhcpv4.OptGeneric(optionIPXE, noProxy)}}
		if e.options.BootURL != "" {
			b.file = e.options.BootURL + pathScript
		}
		return b, true
	case ClassPlain:
	}
	return boot{}, true
}

func (e *engine) pxeBoot(r Request) (boot, bool) {
	arch := r.Arch()
	file, ok := pxeFiles[arch]
	if !ok || arch == ArchBIOS && r.isRaspberryPi() {
		return boot{}, false
	}
	b := boot{file: file}
	if e.options.Assertive {
		b.class = vendorPXE
		b.extra = []dhcpv4.Option{dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, bootThisOffer)}
	}
	return b, true
}

func (e *engine) httpBoot(r Request) (boot, bool) {
	file, ok := httpFiles[r.Arch()]
	if !ok {
		return boot{}, false
	}
	if e.options.BootURL == "" {
		return boot{}, true
	}
	return boot{file: e.options.BootURL + pathBinaries + file, class: vendorHTTP}, true
}

// apply writes the boot options into a reply. Option 67 ends in a NUL inside
// its value: old ROMs read it as a C string, EDK2 writes the NUL itself over
// the byte that follows (netboot.xyz#1198). siaddr is always set beside it,
// because some clients ignore option 66.
func (b boot) apply(p *dhcpv4.DHCPv4, server netip.Addr) {
	for _, o := range b.extra {
		p.Options.Update(o)
	}
	if b.class != "" {
		p.Options.Update(dhcpv4.OptClassIdentifier(b.class))
	}
	if b.file == "" {
		return
	}
	p.Options.Update(dhcpv4.OptGeneric(dhcpv4.OptionBootfileName, append([]byte(b.file), 0)))
	p.ServerIPAddr = server.AsSlice()
	if len(b.file) <= longestHeaderFile {
		p.BootFileName = b.file
	}
}
