package fleet

import (
	"context"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/firmware"
)

// bootsKept bounds what is remembered of a machine that boots over and over.
const bootsKept = 1000

// PowerOn implements redfishtest.Machine.
func (m *Machine) PowerOn(_ context.Context, boot redfishtest.Boot) error {
	if m.power(func(life context.Context) { m.live(life, boot) }) {
		m.ledger.switched(true)
	}
	return nil
}

// power switches the machine on, to this life; false when it is on.
func (m *Machine) power(live func(context.Context)) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.off != nil {
		return false
	}
	life, off := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	m.off, m.stopped = off, stopped
	go func() {
		defer close(stopped)
		live(life)
	}()
	return true
}

// PowerOff implements redfishtest.Machine.
func (m *Machine) PowerOff(context.Context) error {
	if m.unplug() {
		m.ledger.switched(false)
	}
	return nil
}

// unplug ends the machine's life; false when it is off.
func (m *Machine) unplug() bool {
	m.mu.Lock()
	off, stopped := m.off, m.stopped
	m.mu.Unlock()
	if off == nil {
		return false
	}
	off()
	<-stopped
	m.mu.Lock()
	defer m.mu.Unlock()
	m.off = nil
	return true
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
	nth := m.beginBoot()
	delays := m.fleet.config.random(drawBoot, m.index, nth)
	if sleep(ctx, m.fleet.config.Delays.POST.Draw(delays)) != nil {
		return false
	}
	silent := m.silent(nth)
	if !silent {
		m.start(ctx, boot, &booted, nth)
	}
	if ctx.Err() != nil {
		return false
	}
	switch {
	case booted.Version != "" && booted.Source == "":
		booted.Source = "network"
	case booted.Version == "" && !silent && m.Disk.State().Installed():
		booted.Source = "disk" // the next in the firmware's order, also after a network boot that failed
	}
	if booted.Err != nil {
		m.log.Info("network boot failed", "machine", m.Name, "error", booted.Err)
	}
	m.endBoot(booted)
	if booted.Source == "" {
		return false
	}
	if sleep(ctx, m.fleet.config.Delays.KernelTime.Draw(delays)) != nil {
		return false
	}
	return m.runTalos(ctx, booted)
}

// beginBoot counts a boot, and tells which one it is, from 0.
func (m *Machine) beginBoot() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun++
	return m.begun - 1
}

func (m *Machine) endBoot(booted Booted) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.boots) >= bootsKept {
		m.boots = m.boots[1:]
	}
	m.boots = append(m.boots, booted)
}

// start is what the firmware does with the boot target, and with none.
func (m *Machine) start(ctx context.Context, boot redfishtest.Boot, booted *Booted, nth int) {
	var outcome firmware.Outcome
	switch target := boot.Target; {
	case m.SecureBoot && (target == "Pxe" || target == "" && m.NetworkFirst):
		outcome, booted.Err = m.firmware(nth).HTTPBoot(ctx, m.fleet.relay, "")
	case target == "Pxe" || target == "" && m.NetworkFirst:
		outcome, booted.Err = m.firmware(nth).NetworkBoot(ctx, m.fleet.relay)
	case target == "UefiHttp":
		outcome, booted.Err = m.firmware(nth).HTTPBoot(ctx, m.fleet.relay, boot.HTTPBootURI)
	case (target == "Cd" || target == "UsbCd") && boot.Media != "":
		// The arguments of a medium are baked into it; here they are the node's address.
		booted.Version, booted.schematic, booted.Err = m.fleet.readMedium(ctx, boot.Media)
		booted.Cmdline = "ip=" + m.IP.String() + "::"
		booted.Source = "medium"
		if booted.Version != "" {
			m.ledger.served(firmware.Served{Kernel: true})
		}
		return
	}
	booted.Program, booted.Leased = outcome.NetworkProgram.Name, outcome.Leased
	if outcome.Kernel != nil {
		booted.Cmdline = outcome.Kernel.Cmdline
		booted.Version, booted.schematic = m.fleet.factory.origin(outcome.Kernel.KernelSHA256)
	}
}

// firmware is that of the nth boot, from 0.
func (m *Machine) firmware(nth int) firmware.Machine {
	return firmware.Machine{
		MAC: m.Hardware.MACs[0], UUID: m.Hardware.UUID, Serial: m.Hardware.Serial, BoardSerial: m.Hardware.BoardSerial,
		Manufacturer: "Emulated", Product: m.Hardware.Model, Asset: m.Asset, Platform: m.Platform, SecureBoot: m.SecureBoot,
		TFTPPort: tftpPort, TimeScale: m.fleet.config.TimeScale, Log: m.log, Faults: m.firmwareFaults(nth), OnServed: m.ledger.served,
	}
}
