// Package bootfile is the closed table of iPXE binaries that the boot services give
// to machines. Whatever is not in it does not exist for a machine.
package bootfile

import (
	"maps"
	"slices"
)

// The binaries that DHCP names. snponly and undionly use the firmware's own
// driver and so keep the link up (ipxe#1337).
const (
	Undionly = "undionly.kpxe"  // BIOS
	SNPOnly  = "snponly.efi"    // x64 UEFI
	ARM64    = "ipxe-arm64.efi" // arm64 UEFI
)

// Autoexec is the script that a UEFI iPXE looks for beside its own binary.
const Autoexec = "autoexec.ipxe"

// files names each binary with the files that may hold it, best first. Debian,
// tinkerbell and upstream name the same builds differently, so that they stand
// for each other. Names are in lower case.
var files = map[string][]string{
	Undionly:            {Undionly},
	"ipxe.pxe":          {"ipxe.pxe"},
	SNPOnly:             {SNPOnly, "snp.efi"},
	"snp.efi":           {"snp.efi", SNPOnly},
	"ipxe.efi":          {"ipxe.efi", "ipxe-amd64.efi"},
	"ipxe-amd64.efi":    {"ipxe-amd64.efi", "ipxe.efi"},
	ARM64:               {ARM64, "snponly-arm64.efi", "snp-arm64.efi"},
	"snponly-arm64.efi": {"snponly-arm64.efi", "snp-arm64.efi", ARM64},
	"snp-arm64.efi":     {"snp-arm64.efi", "snponly-arm64.efi", ARM64},
}

// Names lists the names of binaries, sorted.
func Names() []string { return slices.Sorted(maps.Keys(files)) }

// Known says whether a name is in the table.
func Known(name string) bool { return len(files[name]) > 0 }

// Files are the files that may serve a name of the table, best first; none for
// any other name.
func Files(name string) []string { return slices.Clone(files[name]) }
