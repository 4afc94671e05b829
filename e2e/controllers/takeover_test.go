package controllers_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/talos-provision/provision/e2e/firmware"
	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
)

// takeoverLimit is how soon the other controller must lead after the leader is gone.
const takeoverLimit = 15 * time.Second

// moment is one in a run, at which something happens to the leader.
type moment struct {
	name string
	at   func(store.Event) bool
	// post is how long the machine's self-test takes.
	post time.Duration
	// cutShort says that the boot cannot go on without the boot services, and takes
	// another power-on.
	cutShort bool
}

// powerOns is how often the machine may be switched on.
func (m moment) powerOns() int {
	if m.cutShort {
		return 2
	}
	return 1
}

// moments are those that every test of this package has; with long, all that there are.
func moments() []moment {
	some := []moment{
		{name: "while off", at: reaches("Armed", "is off"), post: time.Second},
		{name: "after power-on", at: reaches("PowerCycled", ""), post: 4 * time.Second},
		{name: "when the kernel was loaded", at: reaches("Booting", "kernel and initramfs were downloaded"), post: time.Second},
	}
	if long() {
		some = append(some,
			moment{name: "when armed", at: reaches("Armed", ""), post: time.Second},
			moment{name: "while powering on", at: reaches("Armed", "powering on"), post: 4 * time.Second},
			moment{name: "when up", at: reaches("Maintenance", ""), post: time.Second},
		)
	}
	return some
}

// machine is a fleet of one that is to be installed, which takes its time at each
// step; beside it is one that is not to be, and one that is in no inventory and boots
// from the network again and again.
func (m moment) machine() fleet.Config {
	wrong := [][]fleet.Fault{nil, {fleet.NotInPlan}, {fleet.Stranger}}
	config := fleet.Config{
		Nodes: len(wrong), PowerLag: 300 * time.Millisecond, POST: m.post, KernelTime: time.Second,
		Adjust: func(machine *fleet.Machine) {
			machine.Wrong, wrong = wrong[0], wrong[1:]
			if m.cutShort {
				machine.HTTPRate = 100_000 // it takes five seconds to load its images
			}
		},
	}
	if m.cutShort {
		config.BootTimeout = 15 * time.Second
	}
	return config
}

// I8: wherever the leader is killed, the other controller goes on, and the machine
// is not power cycled again.
func TestI8AnotherControllerGoesOnAfterTheLeaderIsKilled(t *testing.T) {
	t.Parallel()
	kills := append(some(moments(), 3), moment{name: "while powering off", at: reaches("Armed", "powering off"), post: time.Second})
	if long() {
		kills = append(kills, moment{name: "while it loads its kernel", at: reaches("Booting", "its install script was served"), post: time.Second, cutShort: true})
	}
	for _, m := range kills {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, m.machine())
			leader, standby := l.pair()
			run := leader.run(web.RunRequest{Cluster: "demo"})
			l.state.await(m.name, m.at)
			leader.kill()
			l.awaitTakeover(standby, time.Now())
			l.state.awaitFinished(run)
			l.well(m.powerOns())
			l.knowsLeases()
		})
	}
}

// awaitTakeover returns when a controller serves the site, which it must do in time.
func (l *lab) awaitTakeover(next *controller, since time.Time) {
	l.t.Helper()
	next.awaitLead()
	took := time.Since(since)
	l.t.Logf("%s leads after %v", next.name, took.Round(10*time.Millisecond))
	if took > takeoverLimit {
		l.t.Errorf("%s leads after %v, want at most %v", next.name, took, takeoverLimit)
	}
	if !l.state.leads(next, "") {
		l.t.Errorf("%s is ready, and the state has another leader", next.name)
	}
}

// knowsLeases fails the test unless the leading controller gives every machine the
// address that it has, and to nobody else, whoever gave it.
func (l *lab) knowsLeases() {
	l.t.Helper()
	held := map[netip.Addr]string{}
	for _, m := range l.fleet.Oracle().Machines {
		if m.InPlan && len(m.Leases) != 1 {
			l.t.Errorf("%s was leased %v, want the same address each time", m.ID(), m.Leases)
		}
		for _, ip := range m.Leases {
			held[ip] = m.ID()
		}
	}
	if fresh := l.lease("0c:c4:7b:00:00:01"); held[fresh] != "" {
		l.t.Errorf("a new machine was leased %s of %s", fresh, held[fresh])
	}
	for _, m := range l.fleet.Machines() {
		if ip := l.lease(m.Hardware.MACs[0]); m.Install && !m.Has(fleet.Stranger) && held[ip] != m.Cluster+"/"+m.Name {
			l.t.Errorf("%s was leased %s now", m.Name, ip)
		}
	}
}

// lease asks for an address as a machine's firmware does, by a relay of its own.
func (l *lab) lease(mac string) netip.Addr {
	l.t.Helper()
	relay, err := firmware.NewRelay(netip.AddrPortFrom(l.address(otherRelay), relayPort), netip.AddrPortFrom(l.address(fanOut), dhcpPort))
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = relay.Close() }()
	machine := firmware.Machine{MAC: mac, TimeScale: patientFirmware, Faults: firmware.Faults{StopAfterLease: true}}
	outcome, err := machine.NetworkBoot(l.t.Context(), relay)
	if !outcome.Leased.IsValid() {
		l.t.Fatalf("%s got no address: %v, %v", mac, err, outcome.Steps)
	}
	return outcome.Leased
}
