package dhcp

import (
	"fmt"

	"github.com/talos-provision/provision/pxe/bootfile"
)

// Class is the kind of DHCP client that asks.
type Class string

// The classes, in the order in which a request is tested for them.
const (
	// ClassHTTP is UEFI HTTP boot: option 60 begins with HTTPClient.
	ClassHTTP Class = "http"
	// ClassIPXE is iPXE, ours or foreign: option 77 says iPXE or option 175 is present.
	ClassIPXE Class = "ipxe"
	// ClassPXE is a PXE ROM: option 60 begins with PXEClient.
	ClassPXE Class = "pxe"
	// ClassPlain is everything else, the installed Talos above all.
	ClassPlain Class = "plain"
)

// Vendor classes of option 60.
const (
	vendorHTTP = "HTTPClient"
	vendorPXE  = "PXEClient"
)

// Arch is the client system architecture of DHCP option 93 (RFC 4578, IANA).
type Arch uint16

// The architectures that real machines report.
const (
	ArchBIOS      Arch = 0
	ArchEFI32     Arch = 6
	ArchEFIx64    Arch = 7
	ArchEFIEBC    Arch = 9 // "x86-64" in the numbering before the RFC 4578 erratum; VMs and laptops still send it
	ArchEFIARM64  Arch = 11
	ArchHTTPx64   Arch = 16
	ArchHTTPARM64 Arch = 19
	ArchHTTPBIOS  Arch = 20
	ArchUBootA64  Arch = 22
	// ArchNone says that the client named no architecture.
	ArchNone Arch = 0xffff
)

var archNames = map[Arch]string{
	ArchBIOS: "x86 BIOS", 1: "NEC PC98", 2: "EFI Itanium", 3: "DEC Alpha", 4: "Arc x86", 5: "Intel Lean Client",
	ArchEFI32: "EFI IA32", ArchEFIx64: "EFI x64", 8: "EFI Xscale", ArchEFIEBC: "EFI EBC", 10: "EFI ARM32", ArchEFIARM64: "EFI ARM64",
	15: "EFI IA32 HTTP", ArchHTTPx64: "EFI x64 HTTP", 17: "EFI EBC HTTP", 18: "EFI ARM32 HTTP", ArchHTTPARM64: "EFI ARM64 HTTP", ArchHTTPBIOS: "x86 BIOS HTTP",
	21: "U-Boot ARM32", ArchUBootA64: "U-Boot ARM64", 23: "U-Boot ARM32 HTTP", 24: "U-Boot ARM64 HTTP",
	25: "RISC-V 32", 26: "RISC-V 32 HTTP", 27: "RISC-V 64", 28: "RISC-V 64 HTTP", 41: "Raspberry Pi",
}

// String names the architecture as IANA does, with its number.
func (a Arch) String() string {
	if a == ArchNone {
		return "none"
	}
	if name, ok := archNames[a]; ok {
		return fmt.Sprintf("%s (%d)", name, uint16(a))
	}
	return fmt.Sprintf("unknown (%d)", uint16(a))
}

// Paths below the boot URL.
const (
	pathBinaries = "/ipxe/"
	pathScript   = "/autoexec.ipxe"
)

// pxeFiles is what a PXE ROM downloads by TFTP. An architecture that is not
// listed cannot boot Talos and gets no offer.
var pxeFiles = map[Arch]string{
	ArchBIOS:     bootfile.Undionly,
	ArchEFIx64:   bootfile.SNPOnly,
	ArchEFIEBC:   bootfile.SNPOnly,
	ArchEFIARM64: bootfile.ARM64,
	ArchUBootA64: bootfile.ARM64,
}

// httpFiles is what UEFI HTTP boot downloads. Firmware that reports its PXE
// architecture with class HTTPClient gets the same file.
var httpFiles = map[Arch]string{
	ArchHTTPx64:   bootfile.SNPOnly,
	ArchEFIx64:    bootfile.SNPOnly,
	ArchEFIEBC:    bootfile.SNPOnly,
	ArchHTTPARM64: bootfile.ARM64,
	ArchEFIARM64:  bootfile.ARM64,
	ArchHTTPBIOS:  bootfile.Undionly,
}

// talosArchs names the processor of firmware that does UEFI HTTP boot.
var talosArchs = map[Arch]string{
	ArchHTTPx64: "amd64", ArchEFIx64: "amd64", ArchEFIEBC: "amd64", ArchHTTPARM64: "arm64", ArchEFIARM64: "arm64",
}

// raspberryOUIs begin the MACs of Raspberry Pis, which report themselves as an
// x86 BIOS and cannot run undionly.kpxe.
var raspberryOUIs = map[[3]byte]bool{
	{0xb8, 0x27, 0xeb}: true, {0xdc, 0xa6, 0x32}: true, {0xe4, 0x5f, 0x01}: true, {0x28, 0xcd, 0xc1}: true, {0xd8, 0x3a, 0xdd}: true,
}

// longestHTTPPath is as long as the paths that HTTPPath gives.
const longestHTTPPath = "/uki/52-54-00-00-00-00/amd64.efi"

// bootPaths lists every path that may follow the boot URL in option 67.
func bootPaths() []string {
	return []string{pathScript, pathBinaries + bootfile.Undionly, pathBinaries + bootfile.SNPOnly, pathBinaries + bootfile.ARM64}
}
