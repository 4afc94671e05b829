package fleet

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
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
	// Wrong is what else is wrong with the machine, as Config.Faults has it drawn.
	Wrong []Fault

	fleet   *Fleet
	index   int // from 0
	profile redfishtest.Profile
	bmc     *redfishtest.Service
	bmcIP   netip.Addr
	log     *slog.Logger
	ledger  ledger
	// foreigner is another machine at this one's address.
	foreigner *talosnode.Node

	mu      sync.Mutex
	off     context.CancelFunc // set while the power is on
	stopped chan struct{}      // closed when the powered life has ended
	begun   int                // boots
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
	if m.bmc != nil {
		m.bmc.Close()
	}
	if m.foreigner != nil {
		m.foreigner.Stop()
	}
	m.unplug()
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
