package fleet

import (
	"context"
	"crypto/tls"
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

// makeMachines makes the machines with all that is wrong with them. Nothing runs.
func (f *Fleet) makeMachines() {
	wrong, twins := f.config.assign()
	for i := range f.config.Nodes {
		m := f.machine(i)
		m.Wrong = wrong[i]
		f.machines = append(f.machines, m)
	}
	for i, of := range twins {
		macs := f.machines[i].Hardware.MACs
		f.machines[i].Hardware = f.machines[of].Hardware
		f.machines[i].Hardware.MACs = macs
	}
	for _, m := range f.machines {
		if f.config.Adjust != nil {
			f.config.Adjust(m)
		}
		m.misbehave()
	}
}

// startBMCs starts a BMC for each machine.
func (f *Fleet) startBMCs(ctx context.Context) error {
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
	if f.config.SharedBMCs {
		listener, err := listenOnLoopback(ctx)
		if err != nil {
			return err
		}
		f.site = redfishtest.NewSite(listener, f.config.Log)
	}
	for _, m := range f.machines {
		certificate, err := authority.Certificate(m.bmcIP.String())
		if err != nil {
			return err
		}
		if err := f.startBMC(m, certificate); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// startBMC starts the BMC of a machine, unless it is down.
func (f *Fleet) startBMC(m *Machine, certificate *tls.Certificate) error {
	lag := f.config.Delays.PowerLag.Draw(f.config.random(drawPowerLag, m.index, 0))
	m.bmc = redfishtest.New(redfishtest.Config{
		Profile: m.profile, Machine: m, Username: bmcUsername, Password: m.Password,
		Serial: m.Hardware.Serial, BoardSerial: m.Hardware.BoardSerial, ChassisSerial: m.Hardware.ChassisSerial,
		UUID: m.Hardware.UUID, Model: m.Hardware.Model, MACs: m.Hardware.MACs,
		PowerLag: lag, SessionTimeout: f.config.SessionTimeout, Certificate: certificate, RequestLimit: f.config.requestLimit(), Log: f.config.Log,
	})
	m.misbehaveBMC()
	if m.Has(BMCDown) {
		return nil
	}
	var err error
	if f.site != nil {
		err = f.site.Attach(m.bmcIP, m.bmc)
	} else {
		err = m.bmc.Start(netip.AddrPortFrom(m.bmcIP, bmcPort).String())
	}
	if err != nil {
		return fmt.Errorf("start the BMC of %s: %w", m.Name, err)
	}
	return nil
}

// bmcURL is where the inventory has the machine's BMC: where nobody listens when it is down.
func (m *Machine) bmcURL() string {
	if url := m.bmc.URL(); url != "" {
		return url
	}
	return fmt.Sprintf("https://%s:%d", m.bmcIP, bmcPort)
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
		index:    i,
		profile:  f.config.profile(i),
		bmcIP:    f.address(bmcOffset + i),
		log:      f.config.Log,
	}
}
