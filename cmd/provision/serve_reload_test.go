package main

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/e2e/fleet"
)

// What may change while the daemon runs is taken over, by a run that goes on too; what
// may not, and what cannot be read, is refused as a whole.
func TestAReloadTakesOverBudgetsAndRefusesTheRest(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 1, PowerLag: 2 * time.Second, Adjust: func(m *fleet.Machine) { m.Mute = true }})
	d := startDaemon(t, f)
	events := d.watch()
	for _, refused := range []struct{ old, replacement, says string }{
		{"ipxeDir: ", "ipxeDir: /elsewhere", "ipxeDir cannot change while the daemon runs: restart it"},
		{"relayPort: 6768", "relayPort: 6769", "dhcp cannot change"},
		{"talos:\n", "serve: {keepEvents: 5}\ntalos:\n", "serve cannot change"},
		{"parallel: 8", "parallel: 0", "power.parallel is 0: at least 1 is needed"},
		{"bootTimeout: 2m", "bootTimeout: {", "provision.yaml"},
		{"bootTimeout: 2m", "bootTimeout: 1s\n  bootTimout: 1s", "bootTimout"},
	} {
		edit(t, f, "provision.yaml", refused.old, refused.replacement)
		if said := d.reload(); !strings.Contains(said, "the one before goes on") || !strings.Contains(said, refused.says) {
			t.Errorf("%q is answered by:\n%s\nwant %q", refused.replacement, said, refused.says)
		}
		edit(t, f, "provision.yaml", refused.replacement, refused.old)
	}

	d.begin()
	await(t, events, "the power-on", in("node-01", "Armed", "powering on"))
	edit(t, f, "provision.yaml", "bootTimeout: 2m", "bootTimeout: 1s")
	edit(t, f, "provision.yaml", "attempts: 2", "attempts: 1\n  maxFailures: 1")
	edit(t, f, "provision.yaml", "parallel: 8", "parallel: 3")
	if said := d.reload(); !strings.Contains(said, "the configuration was reloaded") {
		t.Errorf("a change of budgets and power is answered by:\n%s", said)
	}
	failed := await(t, events, "the end by the new budgets", in("node-01", "Failed", ""))
	if failed.Message != "no DHCP seen" {
		t.Errorf("failed as %+v", failed)
	}
	if n := f.Machines()[0].BMC().PowerOns(); n != 1 {
		t.Errorf("powered on %d times, want 1", n)
	}
}

// A port that is taken is told, and waited for.
func TestAPortThatIsTakenIsToldAndWaitedFor(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 1})
	var lc net.ListenConfig
	other, err := lc.Listen(t.Context(), "tcp", f.Controller())
	if err != nil {
		t.Fatal(err)
	}
	notify := newNotifySocket(t)
	d := launchDaemon(t, f, notify.env())
	told := d.says(0, "listen for HTTP on "+f.Controller())
	d.says(told, "listen for HTTP on "+f.Controller()) // it goes on trying
	health, err := d.Ready(t.Context())
	if err != nil || health.OK || len(health.Checks) == 0 || !strings.Contains(health.Checks[0].What, f.Controller()) {
		t.Errorf("/readyz says %+v, %v; want the port", health, err)
	}
	if health, err := d.Alive(t.Context()); err != nil || !health.OK {
		t.Errorf("/healthz says %+v, %v", health, err)
	}
	provision(t, "plan", "--config", f.ConfigFile(), "--cluster", "demo").says(t, exitFailed, f.Controller(), "wait until this one does")
	if told := notify.told(); len(told) != 0 {
		t.Errorf("systemd was told %q before the ports were bound", told)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	d.until("the daemon to lead", func() bool {
		health, err := d.Ready(t.Context())
		return err == nil && health.OK
	})
	notify.await("READY=1")
	provision(t, "plan", "--config", f.ConfigFile(), "--cluster", "demo").says(t, exitDone, "1 to install")
}
