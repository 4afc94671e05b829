package main

import (
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/e2e/talosnode"
	"github.com/talos-provision/provision/provisioner"
)

// The main job: three chassis of four boards, whose nodes share serials.
func TestEveryNodeOfThreeChassisEndsInMaintenance(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{})
	r, last := install(t, f)
	if r.status != exitDone {
		t.Errorf("status %d, want %d: %s", r.status, exitDone, r.err)
	}
	for _, m := range f.Machines() {
		if e := last[m.Name]; e.State != "Maintenance" {
			t.Errorf("%s ended %s: %s %s", m.Name, e.State, e.Message, e.Error)
		}
		if n := m.BMC().PowerOns(); n != 1 {
			t.Errorf("%s was powered on %d times, want 1", m.Name, n)
		}
		boots := m.Boots()
		want := "ip=" + m.IP.String() + "::"
		if len(boots) != 1 || !strings.Contains(boots[0].Cmdline, want) || boots[0].Version != "v1.13.9" {
			t.Errorf("%s booted %+v, want once, with %s", m.Name, boots, want)
		}
	}
	noSessions(t, f)
	if n := f.Fetches(); n != 2 {
		t.Errorf("the factory was asked %d times, want 2: kernel and initramfs once each", n)
	}

	// Once more: nothing is left to do, and no power is touched (I8).
	again, last := install(t, f)
	if again.status != exitDone {
		t.Errorf("second run: status %d, want %d", again.status, exitDone)
	}
	for _, m := range f.Machines() {
		if e := last[m.Name]; e.State != "Maintenance" || m.BMC().PowerOns() != 1 {
			t.Errorf("second run: %s is %s after %d power-ons, want Maintenance after 1", m.Name, e.State, m.BMC().PowerOns())
		}
	}
}

func TestBIOSMachinesAreInstalledToo(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 2, Adjust: func(m *fleet.Machine) { m.Platform = "pcbios" }})
	r, last := install(t, f)
	for _, m := range f.Machines() {
		if e := last[m.Name]; r.status != exitDone || e.State != "Maintenance" {
			t.Errorf("status %d, %s ended %s: %s %s", r.status, m.Name, e.State, e.Message, e.Error)
		}
	}
}

func TestEveryVendorsNodesAreInstalled(t *testing.T) {
	t.Parallel()
	for _, profile := range redfishtest.Profiles() {
		t.Run(profile.Name, func(t *testing.T) {
			t.Parallel()
			f := startFleet(t, fleet.Config{Nodes: 2, PerChassis: 1, Profile: profile})
			for _, m := range f.Machines() {
				// This BMC shows no system serial, so none can be confirmed.
				if profile.Name == redfishtest.SushyTools().Name {
					edit(t, f, "nodes/demo/"+m.Name+".yaml", "serial: "+m.Hardware.Serial, "")
				}
			}
			r, last := install(t, f)
			for _, m := range f.Machines() {
				if e := last[m.Name]; r.status != exitDone || e.State != "Maintenance" || m.BMC().PowerOns() != 1 {
					t.Errorf("status %d, %s ended %s after %d power-ons: %s %s", r.status, m.Name, e.State, m.BMC().PowerOns(), e.Message, e.Error)
				}
			}
			noSessions(t, f)
		})
	}
}

// One password attempt: the account must not be locked.
func TestAWrongPasswordIsTriedOnceAndTheRestGoesOn(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 3, Adjust: func(m *fleet.Machine) {
		if m.Name == "node-02" {
			m.Password = "another-password"
		}
	}})
	r, last := install(t, f)
	if r.status != exitFailed {
		t.Errorf("status %d, want %d", r.status, exitFailed)
	}
	wrong := f.Machines()[1]
	e := last["node-02"]
	if e.State != "Failed" || e.Message != "BMC authentication" || !strings.Contains(e.Error, wrong.BMC().URL()) || !strings.Contains(e.Hint, "passwordFile") {
		t.Errorf("node-02 ended %+v", e)
	}
	if n := wrong.BMC().RefusedLogins(); n != 1 {
		t.Errorf("%d logins were refused, want 1 attempt", n)
	}
	untouched(t, wrong)
	for _, name := range []string{"node-01", "node-03"} {
		if last[name].State != "Maintenance" {
			t.Errorf("%s ended %s", name, last[name].State)
		}
	}
	if strings.Contains(r.out+r.err, "fleet-bmc-password") {
		t.Error("the password is in the output (I9)")
	}
}

// I4: an override that is accepted and not kept is followed by no power cycle.
func TestI4AnOverrideThatIsNotKeptIsFollowedByNoPowerCycle(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 2})
	liar := f.Machines()[0]
	liar.BMC().Inject(redfishtest.Fault{Method: "PATCH", Action: redfishtest.IgnoreWrite()})
	r, last := install(t, f)
	if r.status != exitFailed {
		t.Errorf("status %d, want %d", r.status, exitFailed)
	}
	e := last["node-01"]
	if e.State != "Failed" || e.Message != "override not kept" || !strings.Contains(e.Hint, "no power cycle followed") {
		t.Errorf("node-01 ended %+v", e)
	}
	untouched(t, liar)
	if last["node-02"].State != "Maintenance" {
		t.Errorf("node-02 ended %s", last["node-02"].State)
	}
}

// I1: a board is one machine. Two BMCs that report the same one freeze both nodes.
func TestI1TwoBMCsWithOneBoardSerialFreezeBothNodes(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 4, Adjust: func(m *fleet.Machine) {
		if m.Name == "node-02" {
			m.Hardware.BoardSerial = "ZM4EMU000001"
		}
	}})
	r, last := install(t, f)
	if r.status != exitRefused {
		t.Errorf("status %d, want %d", r.status, exitRefused)
	}
	for _, name := range []string{"node-01", "node-02"} {
		e := last[name]
		if e.State != "Held" || !strings.Contains(e.Error, "ZM4EMU000001") || !strings.Contains(e.Error, "demo/node-01") || !strings.Contains(e.Error, "demo/node-02") {
			t.Errorf("%s ended %+v, want Held with both names and the serial", name, e)
		}
	}
	untouched(t, f.Machines()[0], f.Machines()[1])
	for _, name := range []string{"node-03", "node-04"} {
		if last[name].State != "Maintenance" {
			t.Errorf("%s ended %s: %s", name, last[name].State, last[name].Error)
		}
	}
}

// I1: the inventory's serial must be the machine's behind the BMC.
func TestI1ABMCOfAnotherMachineIsNotTouched(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 2, PerChassis: 1})
	edit(t, f, "nodes/demo/node-01.yaml", "serial: S4EMU0000001", "serial: SOMETHINGELSE9")
	r, last := install(t, f)
	e := last["node-01"]
	if r.status != exitRefused || e.State != "Held" || !strings.Contains(e.Error, "SOMETHINGELSE9") {
		t.Errorf("status %d, node-01 ended %+v", r.status, e)
	}
	untouched(t, f.Machines()[0])
}

// I2: a node that runs a configured Talos is held unless it is named.
func TestI2AConfiguredNodeIsNotTouched(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 2})
	m := f.Machines()[0]
	if _, err := talosnode.StartConfigured(t.Context(), talosnode.Config{Address: m.IP.String(), Version: "v1.13.9"}); err != nil {
		t.Fatal(err)
	}
	r, last := install(t, f)
	e := last["node-01"]
	if r.status != exitRefused || e.State != "Held" || e.Message != "already configured" || !strings.Contains(e.Hint, "--reinstall") {
		t.Errorf("status %d, node-01 ended %+v", r.status, e)
	}
	untouched(t, m)

	plan := provision(t, "plan", "--config", f.ConfigFile(), "--cluster", "demo", "--node", "node-01", "--reinstall", "node-01")
	if plan.status != exitDone || !strings.Contains(plan.out, "will be wiped") {
		t.Errorf("plan with --reinstall: status %d\n%s", plan.status, plan.out)
	}
}

// I3: a machine that is not marked install boots its own disk, also when its
// firmware tries the network first; its board shares the chassis serial.
func TestI3AnUnmarkedMachineBootsItsOwnDisk(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 3, Adjust: func(m *fleet.Machine) {
		m.Install = m.Name != "node-03"
		m.NetworkFirst = m.Name == "node-03"
	}})
	bystander := f.Machines()[2]
	if err := bystander.PowerOn(t.Context(), redfishtest.Boot{}); err != nil {
		t.Fatal(err)
	}
	r, last := install(t, f)
	if r.status != exitDone || last["node-01"].State != "Maintenance" || last["node-02"].State != "Maintenance" {
		t.Errorf("status %d, events %+v", r.status, last)
	}
	untouched(t, bystander)
	for _, boot := range bystander.Boots() {
		if boot.Cmdline != "" {
			t.Errorf("node-03 was installed: %+v", boot)
		}
	}
}

// I5: what answers at the node's address must be the node.
func TestI5AWrongMachineAtTheNodesAddressIsNotConfirmed(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 2, Adjust: func(m *fleet.Machine) {
		if m.Name == "node-01" {
			m.TalosIdentity = &redfishtest.Hardware{Serial: "STRANGER1", UUID: "99999999-0000-4000-8000-000000000001", MACs: []string{"0c:c4:7a:99:99:99"}}
		}
	}})
	edit(t, f, "provision.yaml", "bootTimeout: 2m", "bootTimeout: 8s")
	edit(t, f, "provision.yaml", "attempts: 2", "attempts: 1")
	r, last := install(t, f)
	e := last["node-01"]
	if r.status != exitFailed || e.State != "Failed" || e.Message != "wrong machine" || !strings.Contains(e.Error, "STRANGER1") {
		t.Errorf("status %d, node-01 ended %+v", r.status, e)
	}
	if last["node-02"].State != "Maintenance" {
		t.Errorf("node-02 ended %s", last["node-02"].State)
	}
}

// I7: a machine that never shows up is tried as often as its budget says.
func TestI7ASilentMachineFailsAfterItsBudget(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 1, Adjust: func(m *fleet.Machine) { m.Mute = true }})
	edit(t, f, "provision.yaml", "bootTimeout: 2m", "bootTimeout: 2s")
	edit(t, f, "provision.yaml", "minRebootInterval: 10s", "minRebootInterval: 3s")
	r, last := install(t, f)
	e := last["node-01"]
	if r.status != exitFailed || e.State != "Failed" || e.Message != "no DHCP seen" || !strings.Contains(e.Error, "in 2 attempts") {
		t.Errorf("status %d, node-01 ended %+v", r.status, e)
	}
	if n := f.Machines()[0].BMC().PowerOns(); n != 2 {
		t.Errorf("powered on %d times, want 2", n)
	}
}

func TestAPortInUseIsToldBeforeAnyBMCIsAsked(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 1})
	m := f.Machines()[0]
	base := m.IP.As4()
	var lc net.ListenConfig
	held, err := lc.Listen(t.Context(), "tcp", netip.AddrPortFrom(netip.AddrFrom4([4]byte{base[0], base[1], 0, 2}), 8069).String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	r, _ := install(t, f)
	if r.status != exitFailed || !strings.Contains(r.err, "port") || !strings.Contains(r.err, "in use") || !strings.Contains(r.err, "ss -") {
		t.Errorf("status %d, error %q: want the port, that it is in use, and how to find who holds it", r.status, r.err)
	}
	if n := m.BMC().Logins(); n != 0 {
		t.Errorf("%d logins, want none", n)
	}
}

func TestAFactoryThatCannotBeReachedStopsTheRunBeforeAnyPower(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 1})
	edit(t, f, "nodes/_defaults.yaml", "talosVersion: v1.13.9", "talosVersion: v1.13.8")
	edit(t, f, "provision.yaml", "factory: http://", "factory: http://127.0.0.1:9/x")
	r, _ := install(t, f)
	if r.status != exitFailed || !strings.Contains(r.err, "no machine was touched") {
		t.Errorf("status %d, error %q", r.status, r.err)
	}
	untouched(t, f.Machines()...)
}

func TestBadInventoriesAreToldByFileAndLineAndNothingIsTouched(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		file, text string
		want       []string
	}{
		"broken YAML":      {"nodes/demo/node-09.yaml", "serial: [unclosed\nip: 127.0.0.9\n", []string{"demo/node-09.yaml:"}},
		"duplicate IP":     {"nodes/demo/node-09.yaml", "uuid: 7a1e0000-0000-4000-8000-0cc47a999999\nip: IP1\n", []string{"demo/node-09.yaml:2:", "demo/node-01.yaml:2", "ip"}},
		"duplicate serial": {"nodes/demo/node-09.yaml", "serial: DUP1\n", []string{"demo/node-09.yaml:1:", "demo/node-08.yaml", "serial", "DUP1"}},
		"misspelt key":     {"nodes/demo/node-09.yaml", "serail: X1\n", []string{"demo/node-09.yaml:1:1", "did you mean", "serial"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFleet(t, fleet.Config{Nodes: 1})
			m := f.Machines()[0]
			put(t, f, "nodes/demo/node-08.yaml", "serial: DUP1\n")
			put(t, f, tc.file, strings.ReplaceAll(tc.text, "IP1", m.IP.String()))
			r, _ := install(t, f)
			if r.status != exitUsage {
				t.Errorf("status %d, want %d", r.status, exitUsage)
			}
			for _, want := range tc.want {
				if !strings.Contains(r.err, want) {
					t.Errorf("error output lacks %q:\n%s", want, r.err)
				}
			}
			if n := m.BMC().Logins(); n != 0 {
				t.Errorf("%d logins, want none", n)
			}
		})
	}
}

func TestNobodyIsPowerCycledWithoutAYes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer   string
		terminal bool
		want     int
		says     string
	}{
		"no terminal": {"", false, exitRefused, "give --yes"},
		"no":          {"no\n", true, exitRefused, "nothing was touched"},
		"just enter":  {"\n", true, exitRefused, "nothing was touched"},
		"end of file": {"", true, exitRefused, "nothing was touched"},
		"yes":         {"yes\n", true, exitDone, "POWER CYCLED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFleet(t, fleet.Config{Nodes: 1})
			r := provisionAt(t, strings.NewReader(tc.answer), tc.terminal, "--config", f.ConfigFile(), "--cluster", "demo")
			if r.status != tc.want || !strings.Contains(r.err, tc.says) {
				t.Errorf("status %d, want %d; error output %q, want %q in it", r.status, tc.want, r.err, tc.says)
			}
			if tc.want != exitDone {
				untouched(t, f.Machines()...)
			}
			noSessions(t, f)
		})
	}
}

func TestDryRunAndPlanTouchNothingAndWriteNothing(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 4})
	for _, args := range [][]string{{"plan"}, {"--dry-run"}} {
		r := provision(t, append(args, "--config", f.ConfigFile(), "--cluster", "demo")...)
		if r.status != exitDone || !strings.Contains(r.out, "4 to install") || !strings.Contains(r.out, "board serial") {
			t.Errorf("%v: status %d\n%s%s", args, r.status, r.out, r.err)
		}
	}
	untouched(t, f.Machines()...)
	noSessions(t, f)
	matches, err := filepath.Glob(filepath.Join(filepath.Dir(f.ConfigFile()), "state", "*"))
	if err != nil || len(matches) > 0 {
		t.Errorf("a plan left %v (%v)", matches, err)
	}
}

// A node that was installed by this tool and configured since is no reason to
// alarm anyone when the rest of its cluster is run again.
func TestI2ANodeConfiguredAfterItsRunIsSkipped(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 2})
	if r, _ := install(t, f); r.status != exitDone {
		t.Fatalf("status %d: %s", r.status, r.err)
	}
	m := f.Machines()[0]
	if err := m.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := talosnode.StartConfigured(t.Context(), talosnode.Config{Address: m.IP.String(), Version: "v1.13.9"}); err != nil {
		t.Fatal(err)
	}
	r := provision(t, "--config", f.ConfigFile(), "--cluster", "demo", "--yes")
	if r.status != exitDone || !strings.Contains(r.out, "1 done, 0 failed, 0 held, 1 skipped") || !strings.Contains(r.out, "configured since") {
		t.Errorf("status %d, want %d:\n%s", r.status, exitDone, r.out)
	}
	if n := m.BMC().PowerOns(); n != 1 {
		t.Errorf("powered on %d times, want 1", n)
	}
}

// A node whose Talos drops ip= comes up at its lease: that is told for what it
// is, and soon.
func TestANodeThatComesUpAtAnotherAddressIsNamed(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 1, TimeScale: 0.01})
	edit(t, f, "nodes/demo/_defaults.yaml", "ntp: ", "ntp: pool.ntp.org #")
	r, last := install(t, f)
	e := last["node-01"]
	if r.status != exitFailed || e.Message != string(provisioner.CauseOtherAddress) || !strings.Contains(e.Error, "silent at its own address "+f.Machines()[0].IP.String()) {
		t.Errorf("status %d, last event %+v; want %q", r.status, e, provisioner.CauseOtherAddress)
	}
	if !strings.Contains(e.Hint, "ntp") {
		t.Errorf("the hint %q does not name the usual reason", e.Hint)
	}
}
