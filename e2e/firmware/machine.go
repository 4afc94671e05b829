// Package firmware emulates what a server does between power on and its Linux
// kernel: the PXE ROM and iPXE, as real packets over real sockets. Boot
// services meet the packets of OVMF or a BIOS ROM, EDK2's aborted TFTP size
// probe, and an iPXE that follows its script line by line. No root is needed,
// and thousands of machines fit one process.
package firmware

import (
	"log/slog"
	"net/netip"
	"time"
)

// The platforms of Machine.Platform, named as iPXE names them.
const (
	EFI    = "efi"
	PCBIOS = "pcbios"
)

// The architectures of Machine.Arch.
const (
	AMD64 = "amd64"
	ARM64 = "arm64"
)

// Machine is one emulated server. It holds no state: NetworkBoot may be called
// again, as a server may be power cycled.
type Machine struct {
	// MAC is the address of the interface that boots, in any notation of net.ParseMAC.
	MAC string
	// UUID, Serial, Manufacturer and Product are SMBIOS type 1; BoardSerial is type 2; Asset is
	// the chassis' asset tag (type 3). An empty one expands to nothing in a script.
	UUID, Serial, BoardSerial, Asset, Manufacturer, Product string
	// Platform is EFI (also when empty) or PCBIOS.
	Platform string
	// Arch is AMD64 (also when empty) or ARM64; a PCBIOS machine is always AMD64.
	Arch string
	// SecureBoot makes an EFI machine refuse programs that are not signed: those whose first bytes
	// do not hold SignedUKI.
	SecureBoot bool
	// TFTPPort replaces port 69 (when 0), for servers without root.
	TFTPPort int
	// TimeScale multiplies every wait that real firmware makes: 4 s for offers, retries, a script's
	// sleep, a server's Retry-After. 0 means 1, real time.
	TimeScale float64
	// MinRetry is the shortest wait for an answer before a packet is sent again, doubled each time;
	// 0 means 1 s. On a busy host a shorter one only makes more packets.
	MinRetry time.Duration
	// Timeout bounds a whole boot; 0 means 10 minutes.
	Timeout time.Duration
	// Faults are what goes wrong.
	Faults Faults
	// OnServed, if set, is told at once what the boot services give the machine; it must not block.
	OnServed func(Served)
	// Log may be nil.
	Log *slog.Logger
}

// SignedUKI stands in a program's first 512 bytes for what a real one has there: the tables of a
// PE program with a Linux kernel inside, and a signature that the firmware trusts.
const SignedUKI = "signed UKI stand-in"

// Faults are failures of a machine or its network.
type Faults struct {
	// StopAfterLease makes the machine take its DHCP lease and never ask for a boot file.
	StopAfterLease bool
	// Loss is the share of UDP packets lost in each direction, 0 to below 1. Which ones is the
	// same in every run of one MAC and Seed.
	Loss float64
	Seed uint64
	// HTTPRate is how many bytes a second the machine takes by HTTP at most, 0 for no bound.
	HTTPRate int64
	// StallAfter makes the machine hang, until ctx ends, when it has so many bytes of a file by HTTP;
	// 0 is never. Scripts have some thousand bytes.
	StallAfter int64
}

// Outcome is how far a machine came.
type Outcome struct {
	// Leased is the last address that a DHCP server gave.
	Leased netip.Addr
	// LocalBoot says that the network boot was given up and the firmware goes on to the local disk:
	// as a script wanted it, or because something failed. The last Steps tell which.
	LocalBoot bool
	// NetworkProgram is the boot file, from TFTP or by UEFI HTTP boot.
	NetworkProgram Image
	// Kernel is set when the machine started Linux.
	Kernel *Kernel
	// Steps are what happened, one line each; a script's commands begin with "$ ".
	Steps []string
}

// Image is a downloaded file. Its bytes are not kept.
type Image struct {
	Name   string
	Size   int64
	SHA256 string
}

// Kernel is what was handed the machine.
type Kernel struct {
	// Cmdline is the whole command line, initrd= included; empty for a UKI, which has its own inside.
	Cmdline string
	// KernelSize and InitrdSize are bytes; several initrds count together.
	KernelSize, InitrdSize int64
	// KernelSHA256 and InitrdSHA256 are hex digests; the latter is empty when there is no initrd
	// or more than one.
	KernelSHA256, InitrdSHA256 string
}

// profile is what a kind of firmware says about itself.
type profile struct {
	// arch is DHCP option 93 (RFC 4578 2.1 with its errata: 7 is x64).
	arch byte
	// romUNDI and ipxeUNDI end the vendor class (option 60) of the ROM and of iPXE.
	romUNDI, ipxeUNDI string
	// interfaceID is option 94: UNDI, major, minor.
	interfaceID []byte
	// buildarch is iPXE's ${buildarch}: the BIOS build is always i386.
	buildarch string
	// probe is the TFTP request that asks for the size only, and how it is aborted.
	probe probe
	// blksize is what the download then asks for.
	blksize int
	// offerWait is how long the ROM collects offers before it takes one.
	offerWait time.Duration
}

// profiles are as observed of OVMF 2022.11, SeaBIOS with an Intel-like ROM and iPXE 1.21.
var profiles = map[[2]string]profile{
	{EFI, AMD64}:    {7, "003000", "003010", []byte{1, 3, 0}, "x86_64", edk2Probe, 1468, 4 * time.Second},
	{EFI, ARM64}:    {11, "003000", "003010", []byte{1, 3, 0}, "arm64", edk2Probe, 1468, 4 * time.Second},
	{PCBIOS, AMD64}: {0, "002001", "002001", []byte{1, 2, 1}, "i386", intelProbe, 1456, 0},
}

// probe is how firmware learns a file's size by TFTP: it asks for the size,
// and aborts the transfer when it has the answer (pin/tftp#125).
type probe struct {
	options   []string // option, value, …
	abortCode uint16
	abortText string
}

var (
	edk2Probe  = probe{[]string{"tsize", "0", "blksize", "1468"}, 8, "User aborted the transfer"}
	intelProbe = probe{[]string{"tsize", "0"}, 0, "TFTP Aborted"}
)
