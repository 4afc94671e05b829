package main

import (
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner/web"
)

// slowFleet has one machine that takes its time at each step, so that a test can step in between.
func slowFleet(t *testing.T) (*fleet.Fleet, *fleet.Machine) {
	t.Helper()
	f := startFleet(t, fleet.Config{Nodes: 1, PowerLag: 200 * time.Millisecond, POST: time.Second, KernelTime: 300 * time.Millisecond})
	return f, f.Machines()[0]
}

// steps are moments of a run of node-01.
var steps = map[string]func(web.Event) bool{
	"powering off": in("node-01", "Armed", "powering off"),
	"off":          in("node-01", "Armed", "is off"),
	"powering on":  in("node-01", "Armed", "powering on"),
	"booting":      in("node-01", "Booting", ""),
}

// I8: wherever the daemon is killed, the next one goes on by itself, and the
// machine is power cycled once.
func TestI8AKilledDaemonsRunGoesOnByItself(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"powering on", "booting"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, m := slowFleet(t)
			first := startDaemon(t, f)
			events := first.watch()
			run := first.begin()
			await(t, events, name, steps[name])
			first.kill()
			lost := m.BMC().OpenSessions() // those of the dead, which nobody can log out

			// The machine asks what to boot before the next daemon has looked at its BMC.
			m.BMC().Inject(redfishtest.Fault{Method: "GET", Path: "/redfish/v1/Systems/1", Times: 1, Action: redfishtest.Delay(1500 * time.Millisecond)})
			second := startDaemon(t, f)
			if ended := second.finished(); ended.ID != run.ID || ended.Error != "" || len(ended.Summary.Done) != 1 {
				t.Errorf("ended as %+v, %+v; want run %s with its node done", ended, ended.Summary, run.ID)
			}
			if n := m.BMC().PowerOns(); n != 1 {
				t.Errorf("powered on %d times, want 1; resets %v", n, m.BMC().Resets())
			}
			if n := m.BMC().OpenSessions(); n > lost {
				t.Errorf("%d sessions are open, %d of them of the killed daemon", n, lost)
			}
		})
	}
}

// SIGTERM leaves no session and no machine off, and a run that the next daemon carries on.
func TestASIGTERMLeavesNoSessionAndNoMachineOff(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"off", "booting"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, m := slowFleet(t)
			first := startDaemon(t, f)
			events := first.watch()
			run := first.begin()
			await(t, events, name, steps[name])
			if status := first.stop(); status != exitDone {
				t.Errorf("ended with status %d, want %d", status, exitDone)
			}
			noSessions(t, f)
			if !m.Powered() && len(m.BMC().Resets()) > 0 {
				t.Errorf("the machine was left off after %v", m.BMC().Resets())
			}
			second := startDaemon(t, f)
			if ended := second.finished(); ended.ID != run.ID || ended.Error != "" || len(ended.Summary.Done) != 1 {
				t.Errorf("ended as %+v, %+v; want run %s with its node done", ended, ended.Summary, run.ID)
			}
			noSessions(t, f)
			if n := m.BMC().PowerOns(); n != 1 {
				t.Errorf("powered on %d times, want 1; resets %v", n, m.BMC().Resets())
			}
		})
	}
}
