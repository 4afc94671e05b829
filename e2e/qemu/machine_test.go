package qemu

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/qemu/disk"
)

// A machine without an order to boot from the network boots its own disk. A
// BIOS machine that asks the network first gets there too when nobody answers.
func TestMachineBootsItsDisk(t *testing.T) {
	t.Parallel()
	need(t)
	for _, tt := range []struct {
		name     string
		firmware Firmware
		target   string
		// before is what shows that the network was tried first.
		before string
	}{
		{name: "UEFI, default order", firmware: UEFI},
		{name: "UEFI, Hdd", firmware: UEFI, target: "Hdd"},
		{name: "BIOS, default order", firmware: BIOS},
		{name: "BIOS, Pxe without an answer", firmware: BIOS, target: "Pxe", before: "No more network devices"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx := testContext(t)
			network := newTestNetwork(ctx, t, NetworkConfig{})
			machine := newTestMachine(ctx, t, network, Config{Firmware: tt.firmware})
			start := time.Now()
			if err := machine.PowerOn(ctx, redfishtest.Boot{Target: tt.target}); err != nil {
				t.Fatal(err)
			}
			if err := machine.WaitForLog(ctx, disk.Marker); err != nil {
				t.Fatal(err)
			}
			t.Logf("booted the disk %s after power-on", time.Since(start).Round(100*time.Millisecond))
			if !machine.LogContains(tt.before) {
				t.Errorf("the firmware did not try the network (no %q in its log)", tt.before)
			}
		})
	}
}

// Waiting for OVMF to give up on a silent network takes minutes; that it asks
// there first is what counts.
func TestMachineAsksTheNetworkFirstWhenToldSo(t *testing.T) {
	t.Parallel()
	need(t)
	for _, tt := range []struct {
		name         string
		target       string
		networkFirst bool
	}{
		{name: "one-time Pxe", target: "Pxe"},
		{name: "default order with the network first", networkFirst: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx := testContext(t)
			machine := newTestMachine(ctx, t, newTestNetwork(ctx, t, NetworkConfig{}), Config{DefaultNetworkFirst: tt.networkFirst})
			if err := machine.PowerOn(ctx, redfishtest.Boot{Target: tt.target}); err != nil {
				t.Fatal(err)
			}
			if err := machine.WaitForLog(ctx, "Start PXE over IPv4"); err != nil {
				t.Fatal(err)
			}
			if machine.LogContains(disk.Marker) {
				t.Error("the disk came before the network")
			}
		})
	}
}

func TestMachinePowersOffAndOnAgain(t *testing.T) {
	t.Parallel()
	need(t)
	ctx := testContext(t)
	machine := newTestMachine(ctx, t, newTestNetwork(ctx, t, NetworkConfig{}), Config{Firmware: BIOS})
	if machine.Powered() {
		t.Error("a new machine is on")
	}
	if err := machine.PowerOff(ctx); err != nil {
		t.Errorf("powering off a machine that is off: %v", err)
	}
	for powerOn := 1; powerOn <= 2; powerOn++ {
		if err := machine.PowerOn(ctx, redfishtest.Boot{Target: "Hdd"}); err != nil {
			t.Fatal(err)
		}
		if err := machine.WaitForLog(ctx, disk.Marker); err != nil {
			t.Fatal(err)
		}
		if !machine.Powered() {
			t.Errorf("power-on %d: the machine is off", powerOn)
		}
		pid := machine.run.process.PID()
		if err := machine.PowerOff(ctx); err != nil {
			t.Fatal(err)
		}
		if machine.Powered() {
			t.Errorf("power-on %d: the machine is still on after a power-off", powerOn)
		}
		if alive(pid) {
			t.Errorf("power-on %d: process %d is still there", powerOn, pid)
		}
	}
	want := []redfishtest.Boot{{Target: "Hdd"}, {Target: "Hdd"}}
	if diff := cmp.Diff(want, machine.Boots()); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
	if got := strings.Count(machine.SerialHistory(), "Booting from Hard Disk"); got != 2 {
		t.Errorf("the history holds %d boots, want 2", got)
	}
}

func TestMachineReportsWhyQEMURefusesToStart(t *testing.T) {
	t.Parallel()
	need(t)
	ctx := testContext(t)
	machine := newTestMachine(ctx, t, newTestNetwork(ctx, t, NetworkConfig{}), Config{UUID: "not-a-uuid"})
	err := machine.PowerOn(ctx, redfishtest.Boot{})
	if err == nil || !strings.Contains(err.Error(), "Invalid UUID") {
		t.Errorf("error = %v, want QEMU's own words", err)
	}
	if machine.Powered() {
		t.Error("the machine counts as on")
	}
}

// Nothing is left behind: no process, no port, no namespace.
func TestCloseRemovesEverything(t *testing.T) {
	t.Parallel()
	need(t)
	ctx := testContext(t)
	network := newTestNetwork(ctx, t, NetworkConfig{VLANs: []VLAN{{ID: 7, Address: netip.MustParsePrefix("10.99.0.1/24")}}})
	machine := newTestMachine(ctx, t, network, Config{Firmware: BIOS})
	if err := machine.PowerOn(ctx, redfishtest.Boot{}); err != nil {
		t.Fatal(err)
	}
	sleeper, err := network.Start(network.Command(ctx, "sleep", "1000"))
	if err != nil {
		t.Fatal(err)
	}
	pids := []int{machine.run.process.PID(), sleeper.PID()}
	for range 2 { // closing twice is no error
		if err := machine.Close(); err != nil {
			t.Error(err)
		}
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is still there", pid)
		}
	}
	if exists("/run/netns/" + network.Name()) {
		t.Errorf("the namespace %s is still there", network.Name())
	}
	if err := machine.PowerOn(context.Background(), redfishtest.Boot{}); err == nil {
		t.Error("a removed machine can be powered on")
	}
}

// alive tells whether the process exists and still is one of ours.
func alive(pid int) bool {
	path := filepath.Join("/proc", strconv.Itoa(pid), "comm")
	_, err := os.Stat(path)
	return err == nil
}
