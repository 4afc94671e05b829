package provisioner

import (
	"errors"
	"fmt"

	"github.com/talos-provision/provision/bmc"
)

// Cause is the class of a failure: stable words for machines to read.
type Cause string

// The causes.
const (
	CauseIdentity          Cause = "identity"
	CauseConfigured        Cause = "already configured"
	CauseArguments         Cause = "kernel arguments"
	CauseNoBMC             Cause = "no BMC"
	CauseBMCUnreachable    Cause = "BMC unreachable"
	CauseBMCAuth           Cause = "BMC authentication"
	CauseBMC               Cause = "BMC"
	CauseOverrideNotKept   Cause = "override not kept"
	CausePower             Cause = "power"
	CauseNoDHCP            Cause = "no DHCP seen"
	CauseNoScript          Cause = "iPXE never asked"
	CauseImageNotFinished  Cause = "image never finished"
	CauseKernelNeverCameUp Cause = "kernel never came up"
	CauseWrongMachine      Cause = "wrong machine"
	CauseOtherAddress      Cause = "other address"
	CauseMedium            Cause = "medium never came up"
	CauseSignedUnasked     Cause = "signed image never asked for"
	CauseSignedNeverCameUp Cause = "signed image never came up"
	CauseMachineConfig     Cause = "machine config"
	CauseInstallDisk       Cause = "install disk"
	CauseTalos             Cause = "Talos API"
	CauseOverrideKept      Cause = "override kept"
	CauseMaintenanceAgain  Cause = "maintenance again"
	CauseNetworkAgain      Cause = "booted from the network again"
	CauseWrongPKI          Cause = "wrong certificates"
	CauseNotInstalled      Cause = "install never finished"
	CauseInstalledDiffers  Cause = "installed differently"
	CauseBootstrap         Cause = "bootstrap"
	CauseNotReady          Cause = "never ready"
	CauseBudget            Cause = "budget"
	CauseHeld              Cause = "held by a person"
	CauseTooManyFailures   Cause = "too many failures"
	CauseInternal          Cause = "internal"
)

// hints says for each cause what a person can do next.
var hints = map[Cause]string{
	CauseIdentity:          "correct the serials in the inventory or the cabling, then run `provision plan` again",
	CauseConfigured:        "to wipe and install it anew, name it with --reinstall",
	CauseArguments:         "correct kernelArgs, ip, netmask, gateway, interface and vlan of the node in the inventory",
	CauseNoBMC:             "give the node a bmc.address in the inventory",
	CauseBMCUnreachable:    "check the BMC's address, its network and its power; `curl -k https://ADDRESS/redfish/v1/` should answer",
	CauseBMCAuth:           "check bmc.username and the password in bmc.passwordEnv or bmc.passwordFile; only one attempt was made, so that the account is not locked",
	CauseBMC:               "look at the BMC's own log; a BMC reset often helps",
	CauseOverrideNotKept:   "no power cycle followed; check the boot mode (UEFI or legacy) in the BIOS set-up, bmc.bootMode, and the BMC's firmware version",
	CausePower:             "look at the BMC's power state and its event log",
	CauseNoDHCP:            "check that the node's first network port is in the provisioning network, untagged, with portfast, and that network boot is enabled in its BIOS",
	CauseNoScript:          "the firmware got an address and never ran iPXE: look at the server's console, and for another DHCP server in this network",
	CauseImageNotFinished:  "look at the server's console and at the network's error counters; the download was begun and never completed",
	CauseKernelNeverCameUp: "look at the server's console; check ip, vlan, interface and gateway of the node: the kernel was loaded and its Talos API never answered",
	CauseWrongMachine:      "another machine uses the node's address: correct ip in the inventory or take that machine off the network",
	CauseOtherAddress:      "it did not take ip= and vlan= of its kernel arguments: ntp must be an address and no name, and interface one that the machine has; `provision inventory validate` and the server's console tell more",
	CauseMedium:            "look at the server's console; a medium carries no arguments of ours: the address must come from the schematic's extraKernelArgs or from DHCP",
	CauseSignedUnasked:     "the firmware got an address and never asked for its signed image: switch UEFI HTTP boot on in its BIOS set-up, and PXE off; with Secure Boot on it refuses iPXE",
	CauseSignedNeverCameUp: "look at the server's console: a security violation there means that the keys of the image are not enrolled; the address must come from DHCP, or from the schematic",
	CauseMachineConfig:     "correct the machine config or its patches; `talosctl validate --mode metal --config FILE` tells more",
	CauseInstallDisk:       "correct machine.install.disk or machine.install.diskSelector, by the list above",
	CauseTalos:             "look at the server's console, and at the network between here and the node; then run again",
	CauseOverrideKept:      "clear it by `provision bmc boot clear`; if the BMC shows it again, look at the boot options in its own pages and at its firmware version",
	CauseMaintenanceAgain:  "look at the server's console: the install image may be out of the node's reach, or the disk may refuse writes",
	CauseNetworkAgain:      "put the disk first in the BIOS boot order, or give the node a localBoot that its firmware understands",
	CauseWrongPKI:          "the talosconfig must be of the same secrets as the machine config; a Talos of another cluster on the disk asks for --reinstall",
	CauseNotInstalled:      "look at the server's console: mostly the node cannot pull its install image (machine.install.image, DNS, gateway, registry), or its firmware does not boot the disk; run again to go on waiting, or name it with --reinstall to begin anew",
	CauseInstalledDiffers:  "make machine.install.image agree with talosVersion and schematicID of the inventory, then name the node with --reinstall",
	CauseBootstrap:         "every control plane of the inventory must answer before etcd may be bootstrapped; run again when it does",
	CauseNotReady:          "`talosctl health` and the kubelet's log of the node tell more; run again to go on waiting: nothing is installed anew",
	CauseHeld:              "`provision release NODE --cluster NAME` lets it go",
	CauseTooManyFailures:   "mend the nodes that failed, or raise --max-failures, and run again: the others were not touched",
	CauseBudget:            "find out why it keeps failing before raising budgets.attempts",
	CauseInternal:          "this is a bug: please report it with the log",
}

// Failure is why a node was given up, in words for a person.
type Failure struct {
	Cause Cause
	Err   error
	// Hint is what to do next; empty takes the cause's usual one.
	Hint string
	// Hold says that the node was not touched and must not be (I1, I2), rather than that work on it failed.
	Hold bool
}

// Error implements error.
func (f *Failure) Error() string { return fmt.Sprintf("%s: %v", f.Cause, f.Err) }

// Unwrap returns the error behind the failure.
func (f *Failure) Unwrap() error { return f.Err }

// Advice is what a person can do next.
func (f *Failure) Advice() string {
	if f.Hint != "" {
		return f.Hint
	}
	return hints[f.Cause]
}

func failed(cause Cause, format string, args ...any) *Failure {
	return &Failure{Cause: cause, Err: fmt.Errorf(format, args...)}
}

func held(cause Cause, format string, args ...any) *Failure {
	return &Failure{Cause: cause, Err: fmt.Errorf(format, args...), Hold: true}
}

// bmcCauses maps what the BMC layer reports to a cause, first match wins.
var bmcCauses = []struct {
	err   error
	cause Cause
}{
	{bmc.ErrUnauthorized, CauseBMCAuth},
	{bmc.ErrUnreachable, CauseBMCUnreachable},
	{bmc.ErrOverrideNotKept, CauseOverrideNotKept},
	{bmc.ErrPowerTimeout, CausePower},
}

// classify turns any error of a step into a Failure.
func classify(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	for _, c := range bmcCauses {
		if errors.Is(err, c.err) {
			return &Failure{Cause: c.cause, Err: err}
		}
	}
	return &Failure{Cause: CauseBMC, Err: err}
}
