package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/fleet"
)

// A machine of no inventory file boots its own disk (I3), and is shown to the
// operator as a file that would take it in.
func TestAnUnknownMachineIsShownAsAnInventoryFile(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 2, PerChassis: 1, POST: time.Second, Adjust: func(m *fleet.Machine) {
		m.NetworkFirst = m.Name == "node-02"
	}})
	stranger := f.Machines()[1]
	if err := os.Remove(filepath.Join(filepath.Dir(f.ConfigFile()), "nodes/demo/node-02.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := stranger.PowerOn(t.Context(), redfishtest.Boot{}); err != nil {
		t.Fatal(err)
	}
	if r, _ := install(t, f); r.status != exitDone {
		t.Fatalf("status %d: %s", r.status, r.err)
	}
	r := provision(t, "status", "--unknown", "--config", f.ConfigFile())
	for _, want := range []string{"serial: S4EMU0000002\n", "boardSerial: ZM4EMU000002\n", "uuid: 7a1e0000-0000-4000-8000-0cc47a000002\n", "macs: ['0c:c4:7a:00:00:02']\n", "Quad-Node Emulator", "amd64, efi"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("output lacks %q:\n%s%s", want, r.out, r.err)
		}
	}
	for _, boot := range stranger.Boots() {
		if boot.Cmdline != "" {
			t.Errorf("the unknown machine was installed: %+v", boot)
		}
	}
}

// Machines that are nobody's can be kept out of the boot network altogether.
func TestUnknownMachinesAreServedAsConfigured(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"lease", "silent"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			f := startFleet(t, fleet.Config{Nodes: 2, PerChassis: 1, POST: time.Second, Adjust: func(m *fleet.Machine) {
				m.NetworkFirst = m.Name == "node-02"
			}})
			edit(t, f, "provision.yaml", "mode: server", "mode: server\n  unknown: "+policy)
			if err := os.Remove(filepath.Join(filepath.Dir(f.ConfigFile()), "nodes/demo/node-02.yaml")); err != nil {
				t.Fatal(err)
			}
			if err := f.Machines()[1].PowerOn(t.Context(), redfishtest.Boot{}); err != nil {
				t.Fatal(err)
			}
			if r, _ := install(t, f); r.status != exitDone {
				t.Errorf("status %d: %s", r.status, r.err)
			}
			if r := provision(t, "status", "--unknown", "--config", f.ConfigFile()); !strings.Contains(r.out, "no unknown machine") {
				t.Errorf("the unknown machine got as far as a script:\n%s", r.out)
			}
		})
	}
}
