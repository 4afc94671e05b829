package talosnode

import (
	"log/slog"
	"time"
)

// Link is one network interface of the emulated node.
type Link struct {
	// Name is the kernel's name, e.g. "eth0".
	Name string
	// MAC is the hardware address in any notation net.ParseMAC knows.
	MAC string
	// Kind is the kernel's link kind: empty for a physical interface, else "vlan", "bond", …
	Kind string
}

// Config describes the emulated node and how its machine was booted.
type Config struct {
	// Address to listen on: host or host:port, port 50000 when it has none. Empty means every address.
	Address string
	// Version is the Talos version that was booted, e.g. "v1.13.9"; it selects what the API answers.
	// v1.8 to v1.14 are told apart. With FromDisk, empty means the installed version.
	Version string
	// Schematic is the Image Factory's id of the booted files, shown as the extension "schematic"; may be
	// empty. With FromDisk, the installed one counts.
	Schematic string
	// UUID, Serial, Manufacturer and Product are what SMBIOS type 1 says.
	UUID, Serial, Manufacturer, Product string
	// Links are the network interfaces; a loopback interface is always added.
	Links []Link
	// Devices are the block devices; empty means one virtual disk /dev/vda of 20 GiB if Disk is set, none otherwise.
	Devices []Device
	// Cmdline is the kernel command line; readable from Talos 1.11 on. With FromDisk, the installed one counts.
	Cmdline string
	// OnApply, if set, receives every accepted machine config, by the API or fetched by URL. The bytes may hold secrets.
	OnApply func(data []byte, dryRun bool)

	// Disk is what survives a power cut; nil means that the node forgets, and that an accepted machine
	// config closes its port for good.
	Disk *Disk
	// FromDisk: the firmware booted the installed system. Otherwise the files came from the network or a
	// medium, and a node with a config on its disk runs it with the version that was booted.
	FromDisk bool
	// Clusters joins the nodes of one process that have the same cluster id in their configs; nil keeps
	// the node alone, so that a worker, whose certificate a control plane signs, never opens its port.
	Clusters *Clusters
	// InstallTime is how long an installation or an upgrade takes: the port is closed during the first.
	InstallTime time.Duration
	// BootTime is the time from a reset to the open port, where the node resets itself because Reboot is nil.
	BootTime time.Duration
	// ReadyTime is the time that each late step of the boot takes: etcd joins, kubelet registers, the
	// Kubernetes node becomes ready.
	ReadyTime time.Duration
	// Reboot asks the machine for a warm reset, after an installation or on request of the API. The port is
	// closed by then; the machine is expected to call Stop. Nil: the node boots again by itself, from the
	// disk if it is installed.
	Reboot func()
	// PowerOff asks the machine to switch itself off; nil: the port stays closed.
	PowerOff func()
	// SecureBoot: the firmware checks what it boots, which was signed.
	SecureBoot bool
	// GRUB boots the disk, as on machines with a BIOS; else systemd-boot does.
	GRUB bool
	// NodeObjects: the node is registered and ready only if SetNodeObject of Clusters says so, as in a
	// cluster whose Kubernetes API is a real one.
	NodeObjects bool
	// Releases are the versions whose installers the registry has; every version when empty.
	Releases []string
	// Faults are what goes wrong.
	Faults Faults

	// Log may be nil. No machine config, key or token is ever logged.
	Log *slog.Logger
}

// Faults are what goes wrong with a node.
type Faults struct {
	// PullFails: the installer image cannot be pulled. An installation retries for ever behind a closed
	// port; an upgrade is refused.
	PullFails bool
	// InstalledVersion, when set, is what an installation brings whatever the image's tag says.
	InstalledVersion string
	// BrokenDownloads is how many downloads of the config that the command line names break off before one does not.
	BrokenDownloads int
	// NeverReady: the Kubernetes node never becomes ready.
	NeverReady bool
	// UpgradeExitCode is the installer's exit code during an upgrade; nothing is written unless it is 0.
	UpgradeExitCode int32
	// UpgradeRollsBack: the upgraded system fails to boot, so that the node comes back with the old one.
	UpgradeRollsBack bool
	// UpgradeHangs: the reset into the upgraded system hangs, and the port stays closed until the machine's
	// power is cycled. UpgradeNeverReturns: a power cycle does not help either.
	UpgradeHangs, UpgradeNeverReturns bool
	// UpgradeLosesConfig: the upgraded system comes up in maintenance mode.
	UpgradeLosesConfig bool
	// HalfOpen: connections that are open at a reset stay so until the power goes, and nothing comes through
	// them any more, as after a kexec (siderolabs/talos#14242).
	HalfOpen bool
}
