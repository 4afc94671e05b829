package talos

import (
	"fmt"
	"strconv"
	"strings"
)

// Capabilities are what a Talos version offers over its API on port 50000
// without a client certificate, in maintenance mode, and what of the rest
// differs between versions. In none can a machine be rebooted or reset that way
// without SideroLink (siderolabs/talos#5311).
type Capabilities struct {
	// Minor is the 13 of 1.13.
	Minor int
	// VersionCall: maintenance mode answers MachineService.Version.
	VersionCall bool
	// VersionResource: maintenance mode has the resource Versions.runtime.talos.dev.
	VersionResource bool
	// CmdlineResource: there is the resource KernelCmdlines.runtime.talos.dev.
	CmdlineResource bool
	// DiskTransport: the resource Disks.block.talos.dev is complete; before, StorageService.Disks tells more.
	DiskTransport bool
	// RebootMode: apply-config takes the mode REBOOT in maintenance mode. AUTO works everywhere.
	RebootMode bool
	// BusyError: a second machine config is refused while one is being applied.
	BusyError bool
	// Lifecycle: the LifecycleService installs and upgrades; else MachineService.Upgrade does.
	Lifecycle bool
	// Tested: observed on running nodes of this version; else known from source and documentation.
	Tested bool
}

// capabilities by minor version.
var capabilities = map[int]Capabilities{
	9:  {Minor: 9, RebootMode: true},
	10: {Minor: 10, RebootMode: true, VersionResource: true, DiskTransport: true},
	11: {Minor: 11, RebootMode: true, VersionResource: true, DiskTransport: true, CmdlineResource: true},
	12: {Minor: 12, RebootMode: true, VersionResource: true, DiskTransport: true, CmdlineResource: true, Tested: true},
	13: {Minor: 13, VersionCall: true, VersionResource: true, DiskTransport: true, CmdlineResource: true, BusyError: true, Lifecycle: true, Tested: true},
	14: {Minor: 14, VersionCall: true, VersionResource: true, DiskTransport: true, CmdlineResource: true, BusyError: true, Lifecycle: true},
}

// CapabilitiesOf looks a version up, e.g. "v1.13.9" or "1.14.0-rc.1". A version
// outside 1.9 to 1.14 is an error.
func CapabilitiesOf(version string) (Capabilities, error) {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(version, "v"), "1.")
	minor, _, dotted := strings.Cut(rest, ".")
	n, err := strconv.Atoi(minor)
	if !ok || !dotted || err != nil {
		return Capabilities{}, fmt.Errorf("version %q is no Talos version; write it like v1.13.9", version)
	}
	c, known := capabilities[n]
	if !known {
		return Capabilities{}, fmt.Errorf("talos %s is not one of the versions 1.9 to 1.14 that are known here", version)
	}
	return c, nil
}
