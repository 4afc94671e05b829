package fleet

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/firmware"
	"github.com/talos-provision/provision/e2e/talosnode"
)

const otherPassword = "nobody-knows-this" //nolint:gosec // of emulated BMCs that must refuse the fleet's

// stallAfter is how much of an image a machine with StuckDownload takes: more
// than any script has, less than any image.
const stallAfter = 16 << 10

// Has tells whether this is wrong with the machine.
func (m *Machine) Has(f Fault) bool { return slices.Contains(m.Wrong, f) }

// listed tells whether the inventory has the machine.
func (m *Machine) listed() bool { return !m.Has(Stranger) }

// inPlan tells whether a run over the whole cluster is to install the machine.
func (m *Machine) inPlan() bool { return m.listed() && m.Install }

// misbehave changes the machine before its BMC is made.
func (m *Machine) misbehave() {
	if m.Has(Stranger) { // a board in no chassis of ours
		m.Name = fmt.Sprintf("stranger-%02d", m.index+1)
		m.Hardware.Serial, m.Hardware.ChassisSerial = fmt.Sprintf("STRNGR%06d", m.index+1), fmt.Sprintf("CSTRNGR%05d", m.index+1)
	}
	if m.Has(BMCAuth) {
		m.Password = otherPassword
	}
	if m.Has(NotInPlan) {
		m.Install = false
	}
}

// misbehaveBMC makes the BMC do what is wrong with it.
func (m *Machine) misbehaveBMC() {
	rates, seed := m.fleet.config.Faults, m.fleet.config.random(drawBMC, m.index, 0).Uint64()
	if m.Has(LyingOverride) {
		m.bmc.Inject(redfishtest.Fault{Method: http.MethodPatch, Action: redfishtest.IgnoreWrite()})
	}
	if m.Has(BMCBusy) {
		busy := redfishtest.Answer{
			Status: http.StatusServiceUnavailable, Header: map[string]string{"Retry-After": "1"},
			Body: redfishtest.ErrorBody("Base.1.8.GeneralError", "Base.1.8.ServiceTemporarilyUnavailable", "The service is temporarily unavailable. Retry in 1 seconds.", "1"),
		}
		m.bmc.Inject(redfishtest.Fault{Share: rates.strength(BMCBusy), Seed: seed, Action: redfishtest.RespondWith(busy)})
	}
	if m.Has(BMCReset) {
		// Not the log-in: a session whose token never arrived stays open, whoever the client is.
		for _, f := range []redfishtest.Fault{
			{Method: http.MethodGet}, {Method: http.MethodPatch}, {Method: http.MethodDelete},
			{Method: http.MethodPost, Path: "/redfish/v1/Systems/**"}, {Method: http.MethodPost, Path: "/redfish/v1/Managers/**"},
		} {
			seed++
			f.Share, f.Seed, f.Action = rates.strength(BMCReset), seed, redfishtest.CutAnswer()
			m.bmc.Inject(f)
		}
	}
}

// firmwareFaults are those of the nth boot, from 0.
func (m *Machine) firmwareFaults(boot int) firmware.Faults {
	faults := firmware.Faults{HTTPRate: m.HTTPRate, StopAfterLease: m.Has(IPXENever)}
	rates := m.fleet.config.Faults
	if m.Has(PacketLoss) {
		faults.Loss, faults.Seed = rates.strength(PacketLoss), m.fleet.config.random(drawLoss, m.index, boot).Uint64()
	}
	if m.Has(SlowDownload) {
		faults.HTTPRate = int64(1000 * rates.strength(SlowDownload))
	}
	if m.Has(StuckDownload) {
		faults.StallAfter = stallAfter
	}
	return faults
}

// silent tells whether the machine sends nothing in its nth boot, from 0.
func (m *Machine) silent(boot int) bool {
	return m.Mute || m.Has(SilentPower) || m.Has(SlowPOST) && boot == 0
}

// startByItself starts what runs without anybody's doing: machines that boot
// from the network on their own, one that was installed long ago, and the
// foreigner at the address of another.
func (m *Machine) startByItself(ctx context.Context) error {
	switch {
	case m.Has(Configured):
		return m.startConfigured(ctx)
	case m.Has(WrongMachine):
		var err error
		m.foreigner, err = talosnode.Start(ctx, talosnode.Config{
			Address: m.IP.String(), Version: m.fleet.config.TalosVersion,
			UUID: fmt.Sprintf("7a1e0000-0000-4000-8000-f0e1%08x", m.index+1), Serial: fmt.Sprintf("F0REIGN%05d", m.index+1),
			Links: []talosnode.Link{{Name: "eth0", MAC: fmt.Sprintf("0e:f0:e1:%02x:%02x:%02x", m.index>>16&0xff, m.index>>8&0xff, m.index&0xff)}},
		})
		if err != nil {
			return fmt.Errorf("start another machine at the address of %s: %w", m.Name, err)
		}
	case m.Has(Stranger), m.Has(NotInPlan) && m.fleet.config.random(drawSelf, m.index, 0).IntN(2) == 0:
		m.NetworkFirst = true
		m.power(m.keepBooting)
	}
	return nil
}

// startConfigured switches the machine on as one that runs a Talos of its own.
func (m *Machine) startConfigured(ctx context.Context) error {
	config := m.talosConfig(Booted{Version: m.fleet.config.TalosVersion})
	config.Address, config.Disk = m.IP.String(), nil
	node, err := talosnode.StartConfigured(ctx, config)
	if err != nil {
		return fmt.Errorf("start the installed system of %s: %w", m.Name, err)
	}
	m.ledger.runs(node)
	m.power(func(life context.Context) {
		<-life.Done()
		m.ledger.runs(nil)
		node.Stop()
	})
	return nil
}

// keepBooting is the life of a machine that finds nothing to boot and starts
// over, some seconds later.
func (m *Machine) keepBooting(ctx context.Context) {
	pauses := m.fleet.config.random(drawSelf, m.index, 1)
	for ctx.Err() == nil {
		m.live(ctx, redfishtest.Boot{})
		_ = sleep(ctx, Uniform(5*time.Second, 15*time.Second).Draw(pauses))
	}
}
