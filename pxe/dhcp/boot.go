package dhcp

import (
	"fmt"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// boot is what a client is told to load. The zero value tells nothing.
type boot struct {
	file   string // name for TFTP, or URL
	binary bool   // the file is iPXE, not a script
	class  string // option 60
	vendor []byte // option 43
	ipxe   []byte // option 175
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

// bootOf chooses the boot options of a client that is served at the address
// server. It reports false for firmware that cannot run any of our binaries: it
// must get no offer, so that the person at the screen sees "no offer" and not a
// file that does not start.
func (e *engine) bootOf(r Request, server netip.Addr) (boot, bool) {
	switch r.ClientClass() {
	case ClassPXE:
		return e.pxeBoot(r)
	case ClassHTTP:
		return e.httpBoot(r, server)
	case ClassIPXE:
		return e.ipxeBoot(r, server)
	case ClassPlain:
	}
	return boot{}, true
}

// base is the HTTP base of the boot services for clients that are served at the
// address server; empty when there is none.
func (e *engine) base(server netip.Addr) string {
	if e.options.BootURL != "" || e.options.BootPort == 0 {
		return e.options.BootURL
	}
	return fmt.Sprintf("http://%s", netip.AddrPortFrom(server, uint16(e.options.BootPort)))
}

func (e *engine) pxeBoot(r Request) (boot, bool) {
	arch := r.Arch()
	file, ok := pxeFiles[arch]
	if !ok || arch == ArchBIOS && r.isRaspberryPi() {
		return boot{}, false
	}
	b := boot{file: file, binary: true}
	switch {
	case e.options.Mode == ModeServer && !r.BootPort && !e.options.Assertive:
		// Plain: some firmware ignores the file name of a marked offer (smee#225).
	case e.options.Assertive || arch < ArchEFI32:
		b.class, b.vendor = vendorPXE, bootThisOffer
	default:
		// UEFI of before 2017 drops a proxy offer with option 43 (edk2#6944); without
		// it, it asks on port 4011.
		b.class = vendorPXE
	}
	return b, true
}

func (e *engine) ipxeBoot(r Request, server netip.Addr) (boot, bool) {
	b := boot{binary: true}
	if r.needsOurIPXE() {
		var known bool
		if b.file, known = pxeFiles[r.Arch()]; !known {
			return boot{}, false
		}
	} else if base := e.base(server); base != "" {
		b.binary, b.file = false, base+pathScript
	}
	if e.options.Mode == ModeProxy || r.BootPort {
		b.class = vendorPXE // else it asks port 4011 for the file that it was given
	} else {
		b.ipxe = noProxy
	}
	return b, true
}

func (e *engine) httpBoot(r Request, server netip.Addr) (boot, bool) {
	file, ok := httpFiles[r.Arch()]
	if !ok {
		return boot{}, false
	}
	base := e.base(server)
	if base == "" {
		return boot{}, true
	}
	if path := e.httpPath(r); path != "" {
		// Not counted as iPXE: a signed image asks for no boot script.
		return boot{file: base + path, class: vendorHTTP}, true
	}
	return boot{file: base + pathBinaries + file, class: vendorHTTP, binary: true}, true
}

// httpPath is what this very machine loads in place of iPXE; empty for most.
func (e *engine) httpPath(r Request) string {
	arch := talosArchs[r.Arch()]
	if e.options.HTTPPath == nil || arch == "" {
		return ""
	}
	return e.options.HTTPPath(r.MAC().String(), arch)
}

// apply writes the boot options into a reply. Option 67 ends in a NUL inside
// its value: old ROMs read it as a C string, EDK2 writes the NUL itself over
// the byte that follows (netboot.xyz#1198). siaddr is always set beside it,
// because some clients ignore option 66.
func (b boot) apply(p *dhcpv4.DHCPv4, server netip.Addr) {
	if b.vendor != nil {
		p.Options.Update(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, b.vendor))
	}
	if b.ipxe != nil {
		p.Options.Update(dhcpv4.OptGeneric(optionIPXE, b.ipxe))
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
