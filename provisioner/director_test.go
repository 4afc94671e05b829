package provisioner

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/talos"
	"github.com/talos-provision/provision/pxe/dhcp"
	"github.com/talos-provision/provision/pxe/httpboot"
)

// Two boards of one chassis that a run works on, and a third that it does not.
var (
	board1 = identity.Facts{Serial: "S1", BoardSerial: "B1", UUID: "7a1e0000-0000-4000-8000-000000000001", MACs: []string{"0c:c4:7a:00:00:01"}}
	board2 = identity.Facts{Serial: "S1", BoardSerial: "B2", UUID: "7a1e0000-0000-4000-8000-000000000002", MACs: []string{"0c:c4:7a:00:00:02"}}
	board3 = identity.Facts{Serial: "S1", BoardSerial: "B3", UUID: "7a1e0000-0000-4000-8000-000000000003", MACs: []string{"0c:c4:7a:00:00:03"}}
)

// atWork is a controller in the middle of a run over node-1 and node-2, whose
// BMCs were asked; node-3 is known by its inventory file only.
func atWork(t *testing.T, state State, at step) *Controller {
	t.Helper()
	nodes := []inventory.Node{
		{Name: "node-1", Cluster: "a", IP: "10.0.0.1", Arch: "amd64", TalosVersion: "v1.13.9", SchematicID: "s"},
		{Name: "node-2", Cluster: "a", IP: "10.0.0.2", Arch: "amd64", TalosVersion: "v1.13.9", SchematicID: "s"},
		{Name: "node-3", Cluster: "a", Serial: "S1", BoardSerial: "B3"},
	}
	c, err := New(Options{
		Inventory: Inventory{Nodes: nodes}, Prober: talos.Prober{},
		Dial: func(context.Context, inventory.Node) (BMC, error) { return nil, bmc.ErrUnreachable },
	})
	if err != nil {
		t.Fatal(err)
	}
	c.fleet.Learn("a/node-1", board1)
	c.fleet.Learn("a/node-2", board2)
	for _, n := range nodes[:2] {
		c.nodes[n.ID()] = &node{
			Node: n, c: c, run: &run{}, args: "args-of-" + n.Name, notify: make(chan struct{}, 1),
			record: store.Node{Cluster: "a", Name: n.Name, State: string(state), Step: string(at)},
		}
	}
	return c
}

func ask(facts identity.Facts) httpboot.Request {
	return httpboot.Request{Facts: facts, Arch: "amd64", Platform: "efi", Source: netip.MustParseAddr("10.0.0.77")}
}

// I3: only an armed node that is recognised without ambiguity gets an install.
func TestI3OnlyAnArmedNodeGetsAnInstall(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		state State
		step  step
		want  httpboot.Kind
	}{
		"pending":                 {Pending, stepNone, httpboot.Wait},
		"identified":              {Identified, stepNone, httpboot.Wait},
		"armed, not yet off":      {Armed, stepNone, httpboot.Wait},
		"powering off":            {Armed, stepPoweringOff, httpboot.Wait},
		"off":                     {Armed, stepOff, httpboot.Wait},
		"faster than its BMC":     {Armed, stepPoweringOn, httpboot.Install},
		"power cycled":            {PowerCycled, stepNone, httpboot.Install},
		"booting, asks again":     {Booting, step(stageScript), httpboot.Install},
		"confirmed":               {Maintenance, stepNone, httpboot.LocalBoot},
		"failed":                  {Failed, stepNone, httpboot.LocalBoot},
		"held":                    {Held, stepNone, httpboot.LocalBoot},
		"a state nobody knows of": {State("?"), stepNone, httpboot.Wait},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := atWork(t, tc.state, tc.step).Direct(t.Context(), ask(board2))
			if answer.Kind != tc.want || answer.Node != "a/node-2" {
				t.Errorf("got %v for %q, want %v for a/node-2", answer.Kind, answer.Node, tc.want)
			}
			if tc.want == httpboot.Install && (answer.Args != "args-of-node-2" || answer.Version != "v1.13.9" || answer.Schematic != "s") {
				t.Errorf("got %+v, want node-2's own arguments and image", answer)
			}
		})
	}
}

// I3: a machine that is unknown, in doubt or not part of the run boots its own disk.
func TestI3EverythingElseBootsItsOwnDisk(t *testing.T) {
	t.Parallel()
	foreign := board2
	foreign.BoardSerial = "B9"
	for name, tc := range map[string]struct {
		request httpboot.Request
		reason  string
	}{
		"unknown":                        {ask(identity.Facts{Serial: "X", UUID: "11111111-2222-4333-8444-555555555555"}), ""},
		"says nothing":                   {ask(identity.Facts{}), ""},
		"only placeholders":              {ask(identity.Facts{Serial: "To be filled by O.E.M.", UUID: "ffffffff-ffff-ffff-ffff-ffffffffffff"}), ""},
		"only the shared chassis serial": {ask(identity.Facts{Serial: "S1"}), "S1"},
		"another board with this UUID":   {ask(foreign), "B9"},
		"two nodes at once":              {ask(identity.Facts{BoardSerial: "B1", UUID: board2.UUID}), "a/node-2"},
		"in the inventory, not the run":  {ask(board3), "no run works on it"},
		"the wrong architecture":         {httpboot.Request{Facts: board2, Arch: "arm64"}, "arm64"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := atWork(t, PowerCycled, stepNone).Direct(t.Context(), tc.request)
			if answer.Kind != httpboot.LocalBoot || !strings.Contains(answer.Reason, tc.reason) || answer.Args != "" {
				t.Errorf("got %+v, want a local boot because of %q", answer, tc.reason)
			}
		})
	}
}

// A node's own way to its disk holds whether or not a run works on it.
func TestANodeIsSentToItsDiskInItsOwnWay(t *testing.T) {
	t.Parallel()
	nodes := []inventory.Node{{Name: "node-3", Cluster: "a", Serial: "S1", BoardSerial: "B3", LocalBoot: "sanboot"}}
	c, err := New(Options{
		Inventory: Inventory{Nodes: nodes}, Prober: talos.Prober{},
		Dial: func(context.Context, inventory.Node) (BMC, error) { return nil, bmc.ErrUnreachable },
	})
	if err != nil {
		t.Fatal(err)
	}
	if a := c.Direct(t.Context(), ask(board3)); a.Kind != httpboot.LocalBoot || a.LocalBoot != "sanboot" {
		t.Errorf("without a run: %+v", a)
	}
	c.nodes["a/node-3"] = &node{Node: nodes[0], c: c, record: store.Node{State: string(Maintenance)}}
	if a := c.Direct(t.Context(), ask(board3)); a.Kind != httpboot.LocalBoot || a.LocalBoot != "sanboot" {
		t.Errorf("after its run: %+v", a)
	}
}

// A HEAD asks what there is: it is no request of a booting machine (I4).
func TestI4AHeadRequestIsNoBoot(t *testing.T) {
	t.Parallel()
	c := atWork(t, PowerCycled, stepNone)
	head := ask(board1)
	head.Head = true
	if a := c.Direct(t.Context(), head); a.Kind != httpboot.Install {
		t.Errorf("answer %+v, want what a GET would get", a)
	}
	if stage := c.nodes["a/node-1"].sighted().stage; stage != stageNone {
		t.Errorf("stage %q after a HEAD, want none", stage)
	}
}

// I5: only this very machine, ready in maintenance, in its version, is confirmed.
func TestI5WhatConfirmsANode(t *testing.T) {
	t.Parallel()
	up := func(serial, uuid string, macs ...string) talos.Observation {
		return talos.Observation{
			State: talos.Maintenance, Stage: "maintenance", Ready: true, Version: "v1.13.9",
			Facts: identity.Facts{Serial: serial, UUID: uuid, MACs: macs},
		}
	}
	notReady, oldVersion, noVersion := up("S1", board1.UUID), up("S1", board1.UUID), up("S1", board1.UUID)
	notReady.Ready, oldVersion.Version, noVersion.Version = false, "v1.12.0", ""
	for name, tc := range map[string]struct {
		observed talos.Observation
		miss     string // "" means confirmed
	}{
		"by its UUID":                    {up("S1", board1.UUID), ""},
		"by its UUID in the other order": {up("S1", "00001e7a-0000-0040-8000-000000000001"), ""},
		"by its MAC":                     {up("S1", "", board1.MACs...), ""},
		"Talos 1.9 tells no version":     {noVersion, ""},
		"not ready":                      {notReady, "not ready"},
		"nothing answers":                {talos.Observation{}, "not ready"},
		"configured":                     {talos.Observation{State: talos.Configured}, "not ready"},
		"another version":                {oldVersion, "v1.12.0"},
		"its neighbour":                  {up("S1", board2.UUID), "a/node-2"},
		"a stranger":                     {up("X1", "11111111-2222-4333-8444-555555555555"), "X1"},
		"only the shared serial":         {up("S1", ""), "S1"},
		"nothing said":                   {up("", ""), "different machine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := atWork(t, Booting, stepNone)
			miss := c.confirm(c.nodes["a/node-1"].Node, tc.observed)
			if (tc.miss == "") != (miss == "") || !strings.Contains(miss, tc.miss) {
				t.Errorf("got %q, want %q in it (empty: confirmed)", miss, tc.miss)
			}
		})
	}
}

// I4: what the node itself asked for moves its boot on, in any order, never back.
func TestI4RequestsOfTheNodeTellItsBootStage(t *testing.T) {
	t.Parallel()
	c := atWork(t, PowerCycled, stepNone)
	n, source := c.nodes["a/node-1"], netip.MustParseAddr("10.0.0.77")
	file := func(name string, sent int64) httpboot.Transfer {
		return httpboot.Transfer{Source: source, Name: name, Method: "GET", Bytes: sent, Size: 100}
	}
	for _, s := range []struct {
		what string
		do   func()
		want bootStage
	}{
		{"a plain lease is no boot", func() { c.ObserveLease(dhcp.Lease{MAC: board1.MACs[0], IP: source, Class: dhcp.ClassPlain}) }, stageNone},
		{"a stranger's lease", func() { c.ObserveLease(dhcp.Lease{MAC: "02:00:00:00:00:09", IP: source, Class: dhcp.ClassPXE}) }, stageNone},
		{"its ROM's lease", func() { c.ObserveLease(dhcp.Lease{MAC: board1.MACs[0], IP: source, Class: dhcp.ClassPXE}) }, stageDHCP},
		{"its script", func() { c.Direct(t.Context(), ask(board1)) }, stageScript},
		{"half a kernel", func() { c.ObserveHTTP(file("s/v/kernel-amd64", 50)) }, stageScript},
		{"the kernel", func() { c.ObserveHTTP(file("s/v/kernel-amd64", 100)) }, stageKernel},
		{"the initramfs", func() { c.ObserveHTTP(file("s/v/initramfs-amd64.xz", 100)) }, stageInitramfs},
		{"a late lease", func() { c.ObserveLease(dhcp.Lease{MAC: board1.MACs[0], IP: source, Class: dhcp.ClassIPXE}) }, stageInitramfs},
	} {
		s.do()
		if got := n.sighted().stage; got != s.want {
			t.Errorf("after %s: stage %q, want %q", s.what, got, s.want)
		}
	}
	if other := c.nodes["a/node-2"].sighted().stage; other != stageNone {
		t.Errorf("its neighbour moved to %q", other)
	}
}

// A machine that asks while its run is cut short waits for it, for a while, and gets
// no install script (I3).
func TestAMachineWhoseRunWasCutShortWaitsForIt(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		state State
		at    step
		stop  bool
		run   string
		waits int
		want  httpboot.Kind
	}{
		"it booted":                       {Booting, stepNone, false, "r1", 0, httpboot.Wait},
		"it was power cycled":             {PowerCycled, stepNone, false, "r1", 3, httpboot.Wait},
		"it was being powered on":         {Armed, stepPoweringOn, false, "r1", 0, httpboot.Wait},
		"it was not touched yet":          {Identified, stepNone, false, "r1", 0, httpboot.LocalBoot},
		"it was off":                      {Armed, stepOff, false, "r1", 0, httpboot.LocalBoot},
		"it was confirmed":                {Maintenance, stepNone, false, "r1", 0, httpboot.LocalBoot},
		"the run was stopped":             {Booting, stepNone, true, "r1", 0, httpboot.LocalBoot},
		"it is of an older run":           {Booting, stepNone, false, "r0", 0, httpboot.LocalBoot},
		"it has waited for two minutes":   {Booting, stepNone, false, "r1", interruptedWaits, httpboot.LocalBoot},
		"it failed in the unfinished run": {Failed, stepNone, false, "r1", 0, httpboot.LocalBoot},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state, err := store.Open(filepath.Join(t.TempDir(), "state.db"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = state.Close() }()
			_, _, errRun := state.BeginRun(store.Run{ID: "r1", Cluster: "a"})
			errNode := state.Record(store.Node{Cluster: "a", Name: "node-2", Run: tt.run, State: string(tt.state), Step: string(tt.at)}, store.Event{})
			if err := errors.Join(errRun, errNode); err != nil {
				t.Fatal(err)
			}
			if tt.stop {
				if err := state.StopRun("a", "", "r1"); err != nil {
					t.Fatal(err)
				}
			}
			c := atWork(t, Pending, stepNone)
			c.opts.Store = state
			clear(c.nodes)
			request := ask(board2)
			request.Waits = tt.waits
			if answer := c.Direct(t.Context(), request); answer.Kind != tt.want {
				t.Errorf("answered %s (%s), want %s", answer.Kind, answer.Reason, tt.want)
			}
		})
	}
}
