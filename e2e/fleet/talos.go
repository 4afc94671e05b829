package fleet

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/config/configloader"

	"github.com/talos-provision/provision/e2e/talosnode"
)

// runTalos is the booted kernel: it takes the address of its command line, or
// of its machine's last boot from the network when the disk was booted, and
// serves the Talos API there until the power goes. It reports whether it asked
// for a warm reset.
func (m *Machine) runTalos(ctx context.Context, booted Booted) (reset bool) {
	if m.Has(NeverReturns) || m.Has(WrongMachine) { // its kernel hangs, or its address is taken
		<-ctx.Done()
		return false
	}
	resets := make(chan struct{}, 1)
	config := m.talosConfig(booted)
	config.Reboot = func() { resets <- struct{}{} }
	config.PowerOff = func() {
		if err := m.PowerOff(context.Background()); err != nil {
			m.log.Error("the machine did not switch itself off", "machine", m.Name, "error", err)
		}
	}
	node, err := talosnode.Start(ctx, config)
	if err != nil {
		m.log.Error("Talos did not start", "machine", m.Name, "error", err)
		return false
	}
	m.ledger.runs(node)
	defer func() {
		m.ledger.runs(nil)
		node.Stop()
	}()
	select {
	case <-ctx.Done():
		return false
	case <-resets:
		return true
	}
}

// talosConfig is what Talos finds on this machine.
func (m *Machine) talosConfig(booted Booted) talosnode.Config {
	hardware := m.Hardware
	if m.TalosIdentity != nil {
		hardware = *m.TalosIdentity
	}
	links := make([]talosnode.Link, 0, len(hardware.MACs))
	for i, mac := range hardware.MACs {
		links = append(links, talosnode.Link{Name: fmt.Sprintf("eth%d", i), MAC: mac})
	}
	return talosnode.Config{
		Address: m.talosAddress(booted), Version: booted.Version, Schematic: booted.schematic,
		UUID: hardware.UUID, Serial: hardware.Serial, Manufacturer: "Emulated", Product: hardware.Model,
		Links: links, Devices: m.Devices, Cmdline: booted.Cmdline,
		Disk: m.Disk, FromDisk: booted.Source == "disk", Clusters: &m.fleet.clusters,
		InstallTime: m.fleet.config.InstallTime, ReadyTime: m.fleet.config.ReadyTime,
		SecureBoot: m.SecureBoot, GRUB: m.Platform == "pcbios", Releases: m.fleet.config.Releases, NodeObjects: m.fleet.config.Kubernetes,
		Faults: m.Faults, OnApply: m.ledger.configured, Log: m.log,
	}
}

// talosAddress is where Talos comes up: at the address of its command line, at
// that of its config when it boots the disk, else at the one that DHCP gave it
// before, else at the inventory's.
func (m *Machine) talosAddress(booted Booted) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if booted.Source != "disk" {
		m.address = booted.address()
	} else if static, ok := m.fleet.configuredAddress(m.Disk.State().MachineConfig); ok {
		return static
	}
	if m.address == "" {
		return m.IP.String()
	}
	return m.address
}

// configuredAddress is the first static address of a machine config that is in
// the fleet's network: a node never listens elsewhere.
func (f *Fleet) configuredAddress(data []byte) (string, bool) {
	config, err := configloader.NewFromBytes(data)
	if err != nil {
		return "", false
	}
	for _, text := range staticAddresses(config) {
		prefix, err := netip.ParsePrefix(text)
		if err == nil && f.config.Network.Contains(prefix.Addr()) {
			return prefix.Addr().String(), true
		}
	}
	return "", false
}

// staticAddresses are those of a config's links and VLANs, in CIDR notation.
func staticAddresses(config config.Provider) (all []string) {
	if raw := config.RawV1Alpha1(); raw != nil && raw.MachineConfig != nil && raw.MachineConfig.MachineNetwork != nil { //nolint:staticcheck // configs have it
		for _, device := range raw.MachineConfig.MachineNetwork.NetworkInterfaces { //nolint:staticcheck // as above
			all = append(all, device.DeviceAddresses...)
			for _, vlan := range device.DeviceVlans {
				all = append(all, vlan.VlanAddresses...)
			}
		}
	}
	for _, link := range config.NetworkCommonLinkConfigs() {
		for _, address := range link.Addresses() {
			all = append(all, address.Address().String())
		}
	}
	return all
}
