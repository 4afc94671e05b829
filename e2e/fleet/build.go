package fleet

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/talosnode"
)

// Credentials of every BMC of a fleet, as its inventory has them.
const (
	bmcUsername = "provisioner"
	bmcPassword = "fleet-bmc-password" //nolint:gosec // opens emulated BMCs on loopback only
)

// startMachines makes the machines and starts a BMC for each.
func (f *Fleet) startMachines(ctx context.Context) error {
	authority, err := redfishtest.NewAuthority()
	if err != nil {
		return err
	}
	if err := f.writeFile("bmc-ca.pem", string(authority.PEM()), 0o644); err != nil {
		return err
	}
	if err := f.writeFile("bmc-password", bmcPassword+"\n", 0o600); err != nil {
		return err
	}
	for i := range f.config.Nodes {
		m := f.machine(i)
		if f.config.Adjust != nil {
			f.config.Adjust(m)
		}
		certificate, err := authority.Certificate(m.bmcIP.String())
		if err != nil {
			return err
		}
		m.bmc = redfishtest.New(redfishtest.Config{
			Profile: f.config.Profile, Machine: m, Username: bmcUsername, Password: m.Password,
			Serial: m.Hardware.Serial, BoardSerial: m.Hardware.BoardSerial, ChassisSerial: m.Hardware.ChassisSerial,
			UUID: m.Hardware.UUID, Model: m.Hardware.Model, MACs: m.Hardware.MACs,
			PowerLag: f.config.PowerLag, Certificate: certificate, Log: f.config.Log,
		})
		f.machines = append(f.machines, m)
		if err := m.bmc.Start(netip.AddrPortFrom(m.bmcIP, bmcPort).String()); err != nil {
			return fmt.Errorf("start the BMC of %s: %w", m.Name, err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// machine is the i-th machine as it comes from the factory: the boards of a
// chassis share its serials, and have a board serial, a UUID and a MAC each.
func (f *Fleet) machine(i int) *Machine {
	chassis := i / f.config.PerChassis
	cluster, role := f.config.place(i)
	return &Machine{
		Name: fmt.Sprintf("node-%02d", i+1),
		IP:   f.address(nodeOffset + i),
		Hardware: redfishtest.Hardware{
			Serial:        fmt.Sprintf("S4EMU%07d", chassis+1),
			BoardSerial:   fmt.Sprintf("ZM4EMU%06d", i+1),
			ChassisSerial: fmt.Sprintf("C4EMU%07d", chassis+1),
			UUID:          fmt.Sprintf("7a1e0000-0000-4000-8000-0cc47a%06x", i+1),
			Model:         "Quad-Node Emulator",
			MACs:          []string{fmt.Sprintf("0c:c4:7a:%02x:%02x:%02x", (i+1)>>16&0xff, (i+1)>>8&0xff, (i+1)&0xff)},
		},
		Platform: "efi",
		Install:  true,
		Password: bmcPassword,
		Cluster:  cluster,
		Role:     role,
		Disk:     new(talosnode.Disk),
		fleet:    f,
		bmcIP:    f.address(bmcOffset + i),
		log:      f.config.Log,
	}
}
