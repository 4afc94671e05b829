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

// markers is how the disk's text shows on the serial port: SeaBIOS copies what
// its screen shows there too, so that each letter comes twice.
var markers = map[Firmware]string{UEFI: disk.Marker, BIOS: doubled(disk.Marker)}

func doubled(text string) string {
	var out strings.Builder
	for _, letter := range text {
		out.WriteString(strings.Repeat(string(letter), 2))
	}
	return out.String()
}

// A machine without an order to boot from the network boots its own disk; with
// one it tries the network first, and its disk when nobody answers there.
func TestMachineBootsItsDisk(t *testing.T) {
	t.Parallel()
	need(t)
	for _, tt := range []struct {
		name     string
		firmware Firmware
		target   string
		// before is what the firmware says when it tries the network first.
		before string
	}{
		{name: "UEFI, default order", firmware: UEFI},
		{name: "UEFI, Hdd", firmware: UEFI, target: "Hdd"},
		{name: "UEFI, Pxe without an answer", firmware: UEFI, target: "Pxe", before: "Start PXE over IPv4"},
		{name: "BIOS, default order", firmware: BIOS},
		{name: "BIOS, Pxe without an answer", firmware: BIOS, target: "Pxe", before: "iPXE"},
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
			if err := machine.WaitForLog(ctx, markers[tt.firmware]); err != nil {
				t.Fatal(err)
			}
			t.Logf("booted the disk %s after power-on", time.Since(start).Round(100*time.Millisecond))
			if !machine.LogContains(tt.before) {
				t.Errorf("the firmware did not try the network (no %q in its log)", tt.before)
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
		if err := machine.WaitForLog(ctx, markers[BIOS]); err != nil {
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
	if got := strings.Count(machine.SerialHistory(), markers[BIOS]); got != 2 {
		t.Errorf("the history holds %d boots, want 2", got)
	}
}

// A one-time boot target is used up by one boot: a machine that resets itself
// comes back by its default order, as a real one does.
func TestMachineResettingItselfBootsByItsDefaultOrder(t *testing.T) {
	t.Parallel()
	need(t)
	ctx := testContext(t)
	image := guestImage(ctx, t)
	machine := newTestMachine(ctx, t, newTestNetwork(ctx, t, NetworkConfig{}), Config{
		Firmware: BIOS,
		Kernel:   image.Kernel, Initramfs: image.Initramfs,
		Cmdline: "console=ttyS0 panic=-1 rdinit=/none", // panics and resets at once
	})
	if err := machine.PowerOn(ctx, redfishtest.Boot{Target: "Pxe", Mode: "Legacy"}); err != nil {
		t.Fatal(err)
	}
	for len(machine.Boots()) < 2 {
		select {
		case <-ctx.Done():
			t.Fatal("the machine did not come back from its reset")
		case <-time.After(logPoll):
		}
	}
	want := []redfishtest.Boot{{Target: "Pxe", Mode: "Legacy"}, {}}
	if diff := cmp.Diff(want, machine.Boots()[:2]); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
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
