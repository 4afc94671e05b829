package fleet

import (
	"context"
	"fmt"
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
	// NetworkFirst boots from the network also without an override.
	NetworkFirst bool
	// Mute never sends a packet, as a machine on a dead port.
	Mute bool
	// Password is what the BMC takes; the inventory's is the fleet's.
	Password string
	// TalosIdentity, when set, is what the Talos API reports instead of the machine's own.
	TalosIdentity *redfishtest.Hardware

	fleet *Fleet
	bmc   *redfishtest.Service
	bmcIP netip.Addr
	log   *slog.Logger

	mu      sync.Mutex
	off     context.CancelFunc // set while the power is on
	stopped chan struct{}      // closed when the powered life has ended
	boots   []Booted
}

// Booted is one start of a machine, and what came of it.
type Booted struct {
	// Target is the boot override that was in force, "" for none.
	Target string
	// Cmdline and Version are of the kernel that was started from the network or a medium, "" when the disk was booted.
	Cmdline, Version string
	// Err is why the network boot failed.
	Err error
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

// live is the machine's life from power-on to power-off.
func (m *Machine) live(ctx context.Context, boot redfishtest.Boot) {
	booted := Booted{Target: boot.Target}
	if sleep(ctx, m.fleet.config.POST) != nil {
		return
	}
	if !m.Mute {
		m.start(ctx, boot, &booted)
	}
	if ctx.Err() != nil {
		return
	}
	if booted.Err != nil {
		m.log.Info("network boot failed", "machine", m.Name, "error", booted.Err)
	}
	m.mu.Lock()
	m.boots = append(m.boots, booted)
	m.mu.Unlock()
	if booted.Version != "" {
		m.runTalos(ctx, booted)
	}
}

// start is what the firmware does with the boot target, and with none.
func (m *Machine) start(ctx context.Context, boot redfishtest.Boot, booted *Booted) {
	var outcome firmware.Outcome
	switch target := boot.Target; {
	case target == "Pxe" || target == "" && m.NetworkFirst:
		outcome, booted.Err = m.firmware().NetworkBoot(ctx, m.fleet.relay)
	case target == "UefiHttp":
		outcome, booted.Err = m.firmware().HTTPBoot(ctx, m.fleet.relay, boot.HTTPBootURI)
	case (target == "Cd" || target == "UsbCd") && boot.Media != "":
		// The arguments of a medium are baked into it; here they are the node's address.
		booted.Version, booted.Err = m.fleet.readMedium(ctx, boot.Media)
		booted.Cmdline = "ip=" + m.IP.String() + "::"
		return
	}
	if outcome.Kernel != nil {
		booted.Cmdline = outcome.Kernel.Cmdline
		booted.Version = m.fleet.factory.version(outcome.Kernel.KernelSHA256)
	}
}

func (m *Machine) firmware() firmware.Machine {
	return firmware.Machine{
		MAC: m.Hardware.MACs[0], UUID: m.Hardware.UUID, Serial: m.Hardware.Serial, BoardSerial: m.Hardware.BoardSerial,
		Manufacturer: "Emulated", Product: m.Hardware.Model, Platform: m.Platform,
		TFTPPort: tftpPort, TimeScale: m.fleet.config.TimeScale, Log: m.log,
	}
}

// runTalos is the booted kernel: it takes the address of its command line and
// serves the maintenance API there until the power goes.
func (m *Machine) runTalos(ctx context.Context, booted Booted) {
	if sleep(ctx, m.fleet.config.KernelTime) != nil {
		return
	}
	hardware := m.Hardware
	if m.TalosIdentity != nil {
		hardware = *m.TalosIdentity
	}
	var links []talosnode.Link
	for i, mac := range hardware.MACs {
		links = append(links, talosnode.Link{Name: fmt.Sprintf("eth%d", i), MAC: mac})
	}
	node, err := talosnode.Start(ctx, talosnode.Config{
		Address: staticAddress(booted.Cmdline), Version: booted.Version, UUID: hardware.UUID, Serial: hardware.Serial,
		Manufacturer: "Emulated", Product: hardware.Model, Links: links, Cmdline: booted.Cmdline, Log: m.log,
	})
	if err != nil {
		m.log.Error("Talos did not start", "machine", m.Name, "error", err)
		return
	}
	<-ctx.Done()
	node.Stop()
}

// staticAddress is the client address of the kernel argument ip=.
func staticAddress(cmdline string) string {
	for _, arg := range strings.Fields(cmdline) {
		if value, found := strings.CutPrefix(arg, "ip="); found {
			address, _, _ := strings.Cut(value, ":")
			return address
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
