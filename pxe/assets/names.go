package assets

import (
	"maps"
	"slices"
	"strings"
)

// Names of boot files as the Image Factory spells them (image-factory
// docs/api.md), on amd64. Those of arm64 have arm64 in the same place. The
// initramfs is called .xz although it has been zstd since Talos 1.8.
const (
	KernelAMD64        = "kernel-amd64"
	KernelARM64        = "kernel-arm64"
	InitramfsAMD64     = "initramfs-amd64.xz"
	InitramfsARM64     = "initramfs-arm64.xz"
	UKIAMD64           = "metal-amd64-uki.efi"
	SecureBootUKIAMD64 = "metal-amd64-secureboot-uki.efi"
	ISOAMD64           = "metal-amd64.iso"
	SecureBootISOAMD64 = "metal-amd64-secureboot.iso"
	CmdlineAMD64       = "cmdline-metal-amd64"
)

// Kind is what a boot file is for.
type Kind string

// The kinds.
const (
	KindKernel    Kind = "kernel"
	KindInitramfs Kind = "initramfs"
	KindUKI       Kind = "uki"     // kernel, initramfs and arguments in one EFI program
	KindISO       Kind = "iso"     // for virtual media
	KindCmdline   Kind = "cmdline" // the kernel arguments of the schematic, as text
)

// form describes a name of the table.
type form struct {
	kind Kind
	arch string
}

// names is closed: a name that is not in it never reaches the disk or the factory.
var names = map[string]form{
	KernelAMD64:    {KindKernel, "amd64"},
	KernelARM64:    {KindKernel, "arm64"},
	InitramfsAMD64: {KindInitramfs, "amd64"},
	InitramfsARM64: {KindInitramfs, "arm64"},

	UKIAMD64:                         {KindUKI, "amd64"},
	"metal-arm64-uki.efi":            {KindUKI, "arm64"},
	SecureBootUKIAMD64:               {KindUKI, "amd64"},
	"metal-arm64-secureboot-uki.efi": {KindUKI, "arm64"},
	ISOAMD64:                         {KindISO, "amd64"},
	"metal-arm64.iso":                {KindISO, "arm64"},
	SecureBootISOAMD64:               {KindISO, "amd64"},
	"metal-arm64-secureboot.iso":     {KindISO, "arm64"},

	CmdlineAMD64:                     {KindCmdline, "amd64"},
	"cmdline-metal-arm64":            {KindCmdline, "arm64"},
	"cmdline-metal-amd64-secureboot": {KindCmdline, "amd64"},
	"cmdline-metal-arm64-secureboot": {KindCmdline, "arm64"},
}

// contentTypes by kind. UEFI takes a program's type from it (edk2 HttpBootSupport.c).
var contentTypes = map[Kind]string{
	KindUKI:     "application/efi",
	KindISO:     "application/vnd.efi-iso",
	KindCmdline: "text/plain; charset=utf-8",
}

// Names lists the names of boot files, sorted.
func Names() []string { return slices.Sorted(maps.Keys(names)) }

// Kind is what the file is for; "" when its name is not in the table.
func (r Ref) Kind() Kind { return names[r.Name].kind }

// ContentType is the media type that the file is served with.
func (r Ref) ContentType() string {
	if t, ok := contentTypes[r.Kind()]; ok {
		return t
	}
	return "application/octet-stream"
}

// Image is what one node boots from the network.
type Image struct {
	// Schematic, Version and Arch are as in Ref; Arch is amd64 or arm64.
	Schematic, Version, Arch string
	// SecureBoot asks for the signed UKI in place of kernel and initramfs.
	SecureBoot bool
}

// Refs are the files that a boot of the image needs.
func (i Image) Refs() []Ref {
	if i.SecureBoot {
		return []Ref{UKI(i.Schematic, i.Version, i.Arch, true)}
	}
	return []Ref{Kernel(i.Schematic, i.Version, i.Arch), Initramfs(i.Schematic, i.Version, i.Arch)}
}

// Kernel names the kernel of an image; arch is amd64 or arm64.
func Kernel(schematic, version, arch string) Ref {
	return Ref{Schematic: schematic, Version: version, Name: "kernel-" + arch}
}

// Initramfs names the initramfs of an image; arch is amd64 or arm64.
func Initramfs(schematic, version, arch string) Ref {
	return Ref{Schematic: schematic, Version: version, Name: "initramfs-" + arch + ".xz"}
}

// UKI names the unified kernel image, the signed one with secureBoot.
func UKI(schematic, version, arch string, secureBoot bool) Ref {
	return Ref{Schematic: schematic, Version: version, Name: "metal-" + arch + signed(secureBoot) + "-uki.efi"}
}

// ISO names the image for virtual media.
func ISO(schematic, version, arch string, secureBoot bool) Ref {
	return Ref{Schematic: schematic, Version: version, Name: "metal-" + arch + signed(secureBoot) + ".iso"}
}

// Cmdline names the text with the kernel arguments of the schematic.
func Cmdline(schematic, version, arch string, secureBoot bool) Ref {
	return Ref{Schematic: schematic, Version: version, Name: "cmdline-metal-" + arch + signed(secureBoot)}
}

func signed(secureBoot bool) string {
	if secureBoot {
		return "-secureboot"
	}
	return ""
}

// ParseRef reads the form schematic/version/name.
func ParseRef(text string) (Ref, error) {
	schematic, rest, _ := strings.Cut(text, "/")
	version, name, _ := strings.Cut(rest, "/")
	r := Ref{Schematic: schematic, Version: version, Name: name}
	return r, r.Validate()
}
