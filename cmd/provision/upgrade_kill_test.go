package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner/store"
)

// start is run in a process of its own.
func (s upgradeSite) start(args ...string) *process {
	s.t.Helper()
	return startCommand(s.t, slices.Concat([]string{"upgrade", "--config", s.ConfigFile(), "--cluster", "prod", "--yes", "-o", "json"}, args)...)
}

// I8: wherever the controller is killed, --continue brings the upgrade to its end,
// and no node is booted twice for it.
func TestI8AKilledUpgradeGoesOnAndRebootsNoNodeTwice(t *testing.T) {
	t.Parallel()
	of := func(node int, state, message string) func(store.Event) bool {
		return func(e store.Event) bool {
			return e.Node == fmt.Sprintf("node-%02d", node) && e.State == state && strings.HasPrefix(e.Message, message)
		}
	}
	// Each ends the process while another worker is on its way.
	instants := []struct {
		name   string
		at     func(store.Event) bool
		signal os.Signal
		status int
	}{
		{"when its turn comes", of(2, "Gated", ""), syscall.SIGKILL, -1},
		{"while it installs", of(3, "Drained", "installing"), syscall.SIGKILL, -1},
		{"when it is written", of(4, "Upgrading", ""), syscall.SIGKILL, -1},
		{"when its reboot is decided", of(5, "Rebooting", "rebooting"), syscall.SIGKILL, -1},
		{"when its reboot was ordered", of(6, "Rebooting", "waits"), os.Interrupt, exitInterrupted},
		{"when it is back", of(7, "Verifying", ""), syscall.SIGKILL, -1},
	}
	// A node takes long enough for the signal to find it on its way.
	s := newUpgradeSite(t, fleet.Config{
		Clusters: []fleet.Cluster{{Name: "prod", ControlPlanes: 1, Workers: len(instants)}}, POST: time.Second, InstallTime: 500 * time.Millisecond,
	})
	args := slices.Concat(withoutKubernetes, []string{"--single-node"})
	next := slices.Concat(args, []string{"--to", after})
	for _, instant := range instants {
		p := s.start(next...)
		p.await(instant.name, instant.at)
		if err := p.cmd.Process.Signal(instant.signal); err != nil {
			t.Fatal(err)
		}
		if status := p.end(); status != instant.status {
			t.Errorf("%s: the process ended with %d, want %d", instant.name, status, instant.status)
		}
		next = slices.Concat(args, []string{"--continue"})
	}
	s.start(next...).end()
	s.allRun(after)
	if diff := cmp.Diff(s.each(2), s.boots()); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
	s.command(next...).says(t, exitUsage, "no unfinished upgrade")
}

// A node that hangs holds its run up. Meanwhile `provision status` shows it and no
// other run begins; Ctrl-C ends the run, and --continue waits for the node again. It
// is gone then, and only a power cycle by its BMC, where that is allowed, helps.
func TestUpgradeOfAHangingNodeIsShownInterruptedAndRescued(t *testing.T) {
	t.Parallel()
	s := faulty(t, func(m *fleet.Machine) { m.Faults.UpgradeHangs = true })
	args := slices.Concat(withoutKubernetes, []string{"--single-node"})
	first := s.start(slices.Concat(args, []string{"--to", after, "--reboot-timeout", "5m"})...)
	first.await("the reboot", reaches("Rebooting", "waits for its reboot"))
	provision(t, "status", "--config", s.ConfigFile(), "--cluster", "prod").says(t, exitDone, "node-02", "Rebooting", "waits for its reboot")
	again, _ := s.run("--single-node")
	again.says(t, exitRefused, "in use by another provision")
	if err := first.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if status := first.end(); status != exitInterrupted {
		t.Errorf("status %d, want %d", status, exitInterrupted)
	}

	gone := s.command(slices.Concat(args, []string{"--continue", "--yes", "--reboot-timeout", "1s"})...)
	gone.says(t, exitFailed, "node-02 failed: gone", "its power is On", "--bmc-rescue")
	untouched(t, s.Machines()...)

	rescued := s.command(slices.Concat(args, []string{"--continue", "--yes", "--reboot-timeout", "1s", "--bmc-rescue", "-o", "json"})...)
	rescued.says(t, exitDone)
	s.allRun(after)
	if n := s.Machines()[1].BMC().PowerOns(); n != 1 {
		t.Errorf("the BMC powered node-02 on %d times, want once", n)
	}
	if got := order(eventsOf(t, rescued.out), "Upgraded"); !cmp.Equal(got, []string{"node-02", "node-01"}) {
		t.Errorf("order %v", got)
	}
	noSessions(t, s.Fleet)
}
