package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/fleet"
)

func TestBMCPower(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 3})
	powers := func() []string {
		all := make([]string, 0, len(f.Machines()))
		for _, m := range f.Machines() {
			all = append(all, m.BMC().PowerState())
		}
		return all
	}
	for _, step := range []struct {
		args   []string
		nodes  string
		want   []string
		resets []string
	}{
		{[]string{"power", "on", "--yes"}, "node-[01-02]", []string{"On", "On", "Off"}, []string{"On"}},
		{[]string{"power", "on", "--yes"}, "node-01", []string{"On", "On", "Off"}, []string{"On"}},
		{[]string{"power", "cycle", "--yes"}, "node-01", []string{"On", "On", "Off"}, []string{"On", "ForceOff", "On"}},
		{[]string{"power", "off", "--yes", "--graceful", "1m"}, "node-01", []string{"Off", "On", "Off"}, []string{"On", "ForceOff", "On", "GracefulShutdown"}},
		{[]string{"power", "off", "--yes"}, "", []string{"Off", "Off", "Off"}, []string{"On", "ForceOff", "On", "GracefulShutdown"}},
	} {
		r := provision(t, onFleet(f, step.nodes, append(step.args, "-o", "json")...)...)
		if r.status != exitDone {
			t.Fatalf("%v: status %d: %s", step.args, r.status, r.err)
		}
		if diff := cmp.Diff(step.want, powers()); diff != "" {
			t.Errorf("%v: power (-want +got):\n%s", step.args, diff)
		}
		if diff := cmp.Diff(step.resets, f.Machines()[0].BMC().Resets()); diff != "" {
			t.Errorf("%v: resets of node-01 (-want +got):\n%s", step.args, diff)
		}
	}
	r := provision(t, onFleet(f, "", "power", "status", "-o", "json")...)
	var all []bmcResult
	if err := json.Unmarshal([]byte(r.out), &all); err != nil {
		t.Fatal(err)
	}
	want := bmcResult{Cluster: "demo", Node: "node-01", Address: f.Machines()[0].BMC().URL(), Action: "power status", Result: "done", PowerState: "Off"}
	if len(all) != 3 || cmp.Diff(want, all[0]) != "" {
		t.Errorf("status is %+v, first wanted %+v", all, want)
	}
	if r := provision(t, onFleet(f, "", "power", "status")...); r.status != exitDone || strings.Count(r.out, "Off") != 3 {
		t.Errorf("table:\n%s", r.out)
	}
	noSessions(t, f)
}

// A person is asked once, by names; whoever is not here to answer says no.
func TestBMCPowerIsConfirmed(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 2})
	for _, tt := range []struct {
		name     string
		answer   string
		terminal bool
		status   int
		says     string
	}{
		{"nobody there", "", false, exitRefused, "2 machines would be POWERED ON and nobody is here to ask: give --yes"},
		{"no", "no\n", true, exitRefused, "not confirmed: nothing was touched"},
		{"end of input", "", true, exitRefused, "not confirmed"},
	} {
		r := provisionAt(t, strings.NewReader(tt.answer), tt.terminal, onFleet(f, "", "power", "on")...)
		if r.status != tt.status || !strings.Contains(r.err, tt.says) {
			t.Errorf("%s: status %d, says %s", tt.name, r.status, r.err)
		}
		untouched(t, f.Machines()...)
		noSessions(t, f)
	}
	if n := f.Machines()[0].BMC().Logins(); n != 2 {
		t.Errorf("%d logins, want 2: none when nobody can be asked", n)
	}
	r := provisionAt(t, strings.NewReader("yes\n"), true, onFleet(f, "", "power", "on")...)
	for _, m := range f.Machines() {
		if m.BMC().PowerState() != "On" || !strings.Contains(r.err, m.Name+" at "+m.BMC().URL()+" (Supermicro Quad-Node Emulator") {
			t.Errorf("status %d, %s is %s, question: %s", r.status, m.Name, m.BMC().PowerState(), r.err)
		}
	}
	noSessions(t, f)
}

// I1: the machine behind a node's BMC address must be that node.
func TestBMCPowerRefusesAnotherNodesMachine(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 3, PerChassis: 1})
	one, two := f.Machines()[0], f.Machines()[1]
	edit(t, f, "nodes/demo/node-01.yaml", one.BMC().URL(), "https://swapped")
	edit(t, f, "nodes/demo/node-02.yaml", two.BMC().URL(), one.BMC().URL())
	edit(t, f, "nodes/demo/node-01.yaml", "https://swapped", two.BMC().URL())
	for _, args := range [][]string{
		{"power", "cycle", "--yes"}, {"power", "off", "--yes"}, {"power", "on", "--yes"}, {"boot", "pxe"},
		{"media", "insert", "http://192.0.2.1/talos.iso"},
	} {
		r := provision(t, onFleet(f, "node-[01-02]", args...)...)
		if r.status != exitRefused || strings.Count(r.err, "is not node-0") != 2 || strings.Count(r.out, "refused") != 2 {
			t.Errorf("%v: status %d\n%s%s", args, r.status, r.out, r.err)
		}
	}
	untouched(t, one, two)
	if got := one.BMC().Override().Enabled + two.BMC().Override().Enabled + one.BMC().Media(); got != "DisabledDisabled" {
		t.Errorf("armed: %s", got)
	}
	// The others go on.
	r := provision(t, onFleet(f, "", "power", "on", "--yes")...)
	if r.status != exitRefused || f.Machines()[2].BMC().PowerState() != "On" {
		t.Errorf("status %d, node-03 is %s", r.status, f.Machines()[2].BMC().PowerState())
	}
	noSessions(t, f)
}

// I1: two machines with one board serial cannot be told apart, so neither is touched.
func TestBMCPowerFreezesTwins(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 2, Adjust: func(m *fleet.Machine) { m.Hardware.BoardSerial = "ZM4EMUTWINS" }})
	r := provision(t, onFleet(f, "", "power", "on", "--yes")...)
	if r.status != exitRefused || strings.Count(r.err, "ZM4EMUTWINS") < 2 {
		t.Errorf("status %d: %s", r.status, r.err)
	}
	untouched(t, f.Machines()...)
	noSessions(t, f)
}

// Without an inventory nothing tells whose machine it is: every change is asked about.
func TestBMCAdHocAlwaysAsks(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 1})
	m := f.Machines()[0]
	for _, args := range [][]string{
		{"power", "on"}, {"power", "off"}, {"power", "cycle"}, {"boot", "pxe"}, {"boot", "clear"}, {"media", "insert", "http://192.0.2.1/a.iso"}, {"media", "eject"},
	} {
		if r := provision(t, adHoc(f, m, args...)...); r.status != exitRefused || !strings.Contains(r.err, "nobody is here to ask") {
			t.Errorf("%v: status %d: %s", args, r.status, r.err)
		}
	}
	if n := len(m.BMC().Requests()); n != 0 {
		t.Errorf("%d requests were made", n)
	}
	if r := provision(t, append(adHoc(f, m, "info", "-o", "json"), "--address", m.BMC().URL())...); r.status != exitDone || m.BMC().Logins() != 1 {
		t.Errorf("named twice: status %d, %d logins", r.status, m.BMC().Logins())
	}
	r := provisionAt(t, strings.NewReader("yes\n"), true, adHoc(f, m, "boot", "pxe")...)
	if r.status != exitDone || m.BMC().Override().Enabled != "Once" || !strings.Contains(r.err, "1 machine will be told to boot once by pxe") {
		t.Errorf("status %d: %s", r.status, r.err)
	}
	if r := provision(t, adHoc(f, m, "power", "cycle", "--yes")...); r.status != exitDone || m.BMC().PowerOns() != 1 {
		t.Errorf("status %d, %d power-ons: %s", r.status, m.BMC().PowerOns(), r.err)
	}
	noSessions(t, f)
}

// An interrupt while the person thinks leaves no session and touches nothing.
func TestBMCInterruptedWhileAsking(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 2})
	in, out := io.Pipe()
	defer func() { _ = out.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	errOut := &watcher{see: "Type yes:", then: cancel}
	a := &app{in: in, out: io.Discard, errOut: errOut, terminal: true}
	root := rootCommand(a)
	root.SetArgs(onFleet(f, "", "power", "cycle"))
	if status := a.exitStatus(root.ExecuteContext(ctx)); status != exitInterrupted {
		t.Errorf("status %d: %s", status, errOut.text.String())
	}
	untouched(t, f.Machines()...)
	noSessions(t, f)
}

// An interrupt at work tells what was done and what was not.
func TestBMCInterruptedAtWork(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 2})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.Machines()[0].BMC().Inject(redfishtest.Fault{Method: "POST", Path: "/redfish/v1/Systems/1/Actions/*", Action: redfishtest.Call(func(*redfishtest.Service) { cancel() })})
	var errOut bytes.Buffer
	a := &app{in: strings.NewReader(""), out: io.Discard, errOut: &errOut}
	root := rootCommand(a)
	root.SetArgs(onFleet(f, "node-01", "power", "on", "--yes"))
	if status := a.exitStatus(root.ExecuteContext(ctx)); status != exitInterrupted || !strings.Contains(errOut.String(), "interrupted") {
		t.Errorf("status %d: %s", status, errOut.String())
	}
	noSessions(t, f)
}

// watcher calls then once what is written contains see.
type watcher struct {
	see  string
	then func()

	mu   sync.Mutex
	text strings.Builder
}

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	if strings.Contains(w.text.String(), w.see) {
		w.then()
	}
	return len(p), nil
}
