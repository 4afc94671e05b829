package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/store"
)

// A machine of no inventory file boots its own disk (I3), and is shown to the
// operator as a file that would take it in.
func TestAnUnknownMachineIsShownAsAnInventoryFile(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 2, PerChassis: 1, POST: time.Second, Adjust: func(m *fleet.Machine) {
		m.NetworkFirst, m.Asset = m.Name == "node-02", "rack 7"
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
	for _, want := range []string{"serial: S4EMU0000002\n", "boardSerial: ZM4EMU000002\n", "uuid: 7a1e0000-0000-4000-8000-0cc47a000002\n", "mac: 0c:c4:7a:00:00:02\n", "install: false\n", "arch: amd64\n",
		"Emulated Quad-Node Emulator", "asset rack 7", "booted by efi", "asked 1 times"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("output lacks %q:\n%s%s", want, r.out, r.err)
		}
	}
	var machines []store.Unknown
	r = provision(t, "status", "--unknown", "--config", f.ConfigFile(), "-o", "json")
	if err := json.Unmarshal([]byte(r.out), &machines); err != nil || len(machines) != 1 {
		t.Fatalf("%d machines, error %v:\n%s%s", len(machines), err, r.out, r.err)
	}
	hardware, got := stranger.Hardware, machines[0]
	got.Seen, got.Source, got.Reason = time.Time{}, "", ""
	want := store.Unknown{
		Times: 1, Arch: "amd64", Platform: "efi", Manufacturer: "Emulated", Product: hardware.Model, Asset: "rack 7",
		Facts: identity.Facts{Serial: hardware.Serial, BoardSerial: hardware.BoardSerial, UUID: hardware.UUID, MACs: hexhyp(hardware.MACs)},
		NICs:  hexhyp(hardware.MACs),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, boot := range stranger.Boots() {
		if boot.Cmdline != "" {
			t.Errorf("the unknown machine was installed: %+v", boot)
		}
	}
}

// hexhyp writes MACs as iPXE sends them.
func hexhyp(macs []string) []string {
	sent := make([]string, 0, len(macs))
	for _, mac := range macs {
		sent = append(sent, strings.ReplaceAll(mac, ":", "-"))
	}
	return sent
}

// Every card that iPXE drives is in the file, whichever the machine booted from.
func TestTheInventoryFileNamesEveryCard(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "provision.yaml")
	writeFile(t, config, "state: "+dir+"\n")
	s, err := store.Open(filepath.Join(dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	err = s.RecordUnknown(store.Unknown{
		Source: "10.0.0.9", Facts: identity.Facts{Serial: "S1", MACs: []string{"0c-c4-7a-00-00-02"}},
		NICs: []string{"0c-c4-7a-00-00-01", "0c-c4-7a-00-00-02"}, Asset: "A7", Reason: "nobody",
	})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	r := provision(t, "status", "--unknown", "--config", config)
	for _, want := range []string{"macs: ['0c:c4:7a:00:00:02', '0c:c4:7a:00:00:01']\n", "serial: S1\n", "from 10.0.0.9; asset A7", "; nobody\n"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("output lacks %q:\n%s%s", want, r.out, r.err)
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
