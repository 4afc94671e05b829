package fleet

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/firmware"
	"github.com/talos-provision/provision/e2e/talosnode"
)

// Machine is one emulated server: a board in a chassis, with a BMC of its own.
type Machine struct {
	// Name is the inventory's hostname; IP the static address there.
	Name string
	IP   netip.Addr
	// Hardware is what the machine is; BMC and firmware report it alike.
	Hardware redfishtest.Hardware
	// Platform is efi or pcbios.
	Platform string
	// Install is the inventory's install flag, BootKind its bmc.boot ("" for none).
	Install  bool
	BootKind string
	// SecureBoot makes the firmware refuse what is not signed and boot from the network by HTTP
	// only; the inventory says so, with its MAC and UUID.
	SecureBoot bool
	// Asset is the chassis' asset tag, which only the firmware tells.
	Asset string
	// NetworkFirst boots from the network also without an override.
	NetworkFirst bool
	// Mute never sends a packet, as a machine on a dead port.
	Mute bool
	// HTTPRate is how many bytes a second the machine downloads at most, 0 for no bound.
	HTTPRate int64
	// Password is what the BMC takes; the inventory's is the fleet's.
	Password string
	// TalosIdentity, when set, is what the Talos API reports instead of the machine's own.
	TalosIdentity *redfishtest.Hardware
	// Cluster is the cluster whose folder of the inventory the machine is in, Role its label role there:
	// RoleControlPlane, RoleWorker or "" for no label.
	Cluster, Role string
	// Disk is the system disk. It starts empty; one with a content is a machine that was installed before.
	Disk *talosnode.Disk
	// Devices are the block devices that Talos finds; one virtual disk /dev/vda of 20 GiB when empty.
	Devices []talosnode.Device
	// Faults are what goes wrong with Talos: an installation that hangs or brings another version, a
	// node that never becomes ready.
	Faults talosnode.Faults

	fleet *Fleet
	bmc   *redfishtest.Service
	bmcIP netip.Addr
	log   *slog.Logger

	mu      sync.Mutex
	off     context.CancelFunc // set while the power is on
	stopped chan struct{}      // closed when the powered life has ended
	boots   []Booted
	address string // of the last boot from the network: the machine's disk boots to the same
}

// Booted is one start of a machine, and what came of it.
type Booted struct {
	// Target is the boot override that was in force, "" for none; URI what the BMC told the firmware to
	// load, "" where it left that to DHCP.
	Target, URI string
	// Cmdline and Version are of the kernel that was started from the network or a medium, "" when the disk was booted.
	Cmdline, Version string
	// Source is "network", "medium" or "disk", "" when nothing was booted.
	Source string
	// Program is the name of the file that the firmware loaded from the network, Leased the address
	// that it was given there: also Talos' own, when no argument gives it another.
	Program string
	Leased  netip.Addr
	// Err is why the network boot failed.
	Err error

	schematic string // of the files that were booted from the network
}

// BMC is the machine's Redfish service.
func (m *Machine) BMC() *redfishtest.Service { return m.bmc }

// Boots are the machine's starts that came to a system, oldest first.
func (m *Machine) Boots() []Booted {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Booted(nil), m.boots...)
}

// PowerOn implements redfishtest.Machine.
func (m *Machine) PowerOn(_ context.Context, boot redfishtest.Boot) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.off != nil {
		return nil
	}
	life, off := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	m.off, m.stopped = off, stopped
	go func() {
		defer close(stopped)
		m.live(life, boot)
	}()
	return nil
}

// PowerOff implements redfishtest.Machine.
func (m *Machine) PowerOff(context.Context) error {
	m.mu.Lock()
	off, stopped := m.off, m.stopped
	m.mu.Unlock()
	if off == nil {
		return nil
	}
	off()
	<-stopped
	m.mu.Lock()
	m.off = nil
	m.mu.Unlock()
	return nil
}

// Powered implements redfishtest.Machine.
func (m *Machine) Powered() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.off != nil
}

// live is the machine's life from power-on to power-off: boots, with a warm
// reset between two of them.
func (m *Machine) live(ctx context.Context, boot redfishtest.Boot) {
	for m.liveOnce(ctx, boot) {
		boot = m.bmc.WarmReset()
	}
}

// liveOnce is one boot, and reports whether it ended with a warm reset.
func (m *Machine) liveOnce(ctx context.Context, boot redfishtest.Boot) (reset bool) {
	booted := Booted{Target: boot.Target, URI: boot.HTTPBootURI}
	if sleep(ctx, m.fleet.config.POST) != nil {
		return false
	}
	if !m.Mute {
		m.start(ctx, boot, &booted)
	}
	if ctx.Err() != nil {
		return false
	}
	switch {
	case booted.Version != "" && booted.Source == "":
		booted.Source = "network"
	case booted.Version == "" && !m.Mute && m.Disk.State().Installed():
		booted.Source = "disk" // the next in the firmware's order, also after a network boot that failed
	}
	if booted.Err != nil {
		m.log.Info("network boot failed", "machine", m.Name, "error", booted.Err)
	}
	m.mu.Lock()
	m.boots = append(m.boots, booted)
	m.mu.Unlock()
	if booted.Source == "" {
		return false
	}
	return m.runTalos(ctx, booted)
}

// start is what the firmware does with the boot target, and with none.
func (m *Machine) start(ctx context.Context, boot redfishtest.Boot, booted *Booted) {
	var outcome firmware.Outcome
	switch target := boot.Target; {
	case m.SecureBoot && (target == "Pxe" || target == "" && m.NetworkFirst):
		outcome, booted.Err = m.firmware().HTTPBoot(ctx, m.fleet.relay, "")
	case target == "Pxe" || target == "" && m.NetworkFirst:
		outcome, booted.Err = m.firmware().NetworkBoot(ctx, m.fleet.relay)
	case target == "UefiHttp":
		outcome, booted.Err = m.firmware().HTTPBoot(ctx, m.fleet.relay, boot.HTTPBootURI)
	case (target == "Cd" || target == "UsbCd") && boot.Media != "":
		// The arguments of a medium are baked into it; here they are the node's address.
		booted.Version, booted.schematic, booted.Err = m.fleet.readMedium(ctx, boot.Media)
		booted.Cmdline = "ip=" + m.IP.String() + "::"
		booted.Source = "medium"
		return
	}
	booted.Program, booted.Leased = outcome.NetworkProgram.Name, outcome.Leased
	if outcome.Kernel != nil {
		booted.Cmdline = outcome.Kernel.Cmdline
		booted.Version, booted.schematic = m.fleet.factory.origin(outcome.Kernel.KernelSHA256)
	}
}

func (m *Machine) firmware() firmware.Machine {
	return firmware.Machine{
		MAC: m.Hardware.MACs[0], UUID: m.Hardware.UUID, Serial: m.Hardware.Serial, BoardSerial: m.Hardware.BoardSerial,
		Manufacturer: "Emulated", Product: m.Hardware.Model, Asset: m.Asset, Platform: m.Platform, SecureBoot: m.SecureBoot,
		TFTPPort: tftpPort, TimeScale: m.fleet.config.TimeScale, Log: m.log, Faults: firmware.Faults{HTTPRate: m.HTTPRate},
	}
}

// address is where Talos comes up: at the one of its command line, else where
// DHCP puts it, which is keyed by MAC.
func (b Booted) address() string {
	if static := staticAddress(b.Cmdline); static != "" || !b.Leased.IsValid() {
		return static
	}
	return b.Leased.String()
}

// staticAddress is the client address of the kernel argument ip=. As Talos does,
// it drops the argument when the time server in it is a name.
func staticAddress(cmdline string) string {
	const timeServer = 9 // its field in ip=
	for _, arg := range strings.Fields(cmdline) {
		if value, found := strings.CutPrefix(arg, "ip="); found {
			fields := strings.Split(value, ":")
			if len(fields) > timeServer && fields[timeServer] != "" {
				if _, err := netip.ParseAddr(fields[timeServer]); err != nil {
					continue
				}
			}
			return fields[0]
		}
	}
	return ""
}

func (m *Machine) close() error {
	m.bmc.Close()
	return m.PowerOff(context.Background())
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
