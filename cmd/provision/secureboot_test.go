package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner"
)

// Machines with Secure Boot on load their signed image by UEFI HTTP boot, from
// the URL that their BMC is told or, where it takes none, from the one that DHCP
// gives; iPXE, which they would refuse, is never loaded.
func TestMachinesWithSecureBootAreInstalled(t *testing.T) {
	t.Parallel()
	noURI := redfishtest.Supermicro()
	noURI.Boot.NoHTTPBootURI = true
	for name, tc := range map[string]struct {
		profile redfishtest.Profile
		target  string
		uri     bool
	}{
		"BMCs that are told a URI":        {redfishtest.Supermicro(), "UefiHttp", true},
		"BMCs that leave the URI to DHCP": {noURI, "UefiHttp", false},
		"BMCs without UEFI HTTP boot":     {redfishtest.OpenBMC(), "Pxe", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFleet(t, fleet.Config{Nodes: 3, Profile: tc.profile, Adjust: func(m *fleet.Machine) { m.SecureBoot = m.Name != "node-03" }})
			r, last := install(t, f)
			for _, m := range f.Machines() {
				boots := m.Boots()
				if e := last[m.Name]; r.status != exitDone || e.State != "Maintenance" || len(boots) != 1 {
					t.Errorf("status %d, %s ended %s after %+v: %s %s\n%s", r.status, m.Name, e.State, boots, e.Message, e.Error, r.err)
					continue
				}
				boot, want := startOf(boots[0]), start{Target: tc.target, Program: "amd64.efi", Version: "v1.13.9", Address: m.IP.String()}
				if !m.SecureBoot { // its neighbour gets what it always got, its address by an argument
					want = start{Target: "Pxe", Program: "snponly.efi", Version: "v1.13.9", Address: boot.Address, Arguments: true}
				}
				if tc.uri && m.SecureBoot {
					want.URI = "http://" + f.Controller() + "/uki/" + identity.NormalizeUUID(m.Hardware.UUID) + "/amd64.efi"
				}
				if boot != want {
					t.Errorf("%s booted %+v, want %+v", m.Name, boot, want)
				}
				if resets := m.BMC().PowerOns(); resets != 1 {
					t.Errorf("%s was powered on %d times", m.Name, resets)
				}
			}
			if !strings.Contains(r.out, "its image was downloaded") {
				t.Errorf("no event tells of the signed image:\n%s", r.out)
			}
			// One image for both, and kernel and initramfs for the third.
			if n := f.Fetches(); n != 3 {
				t.Errorf("the Image Factory was asked %d times, want 3", n)
			}
			noSessions(t, f)
		})
	}
}

// start is what a machine was seen to do.
type start struct {
	Target, URI, Program, Version string
	Address                       string // by DHCP
	Arguments                     bool   // that were handed to the kernel
}

func startOf(b fleet.Booted) start {
	return start{b.Target, b.URI, b.Program, b.Version, b.Leased.String(), b.Cmdline != ""}
}

// I3: what a run does not arm gets no image, whatever its firmware asks for: it
// goes on to its disk.
func TestI3AMachineWithSecureBootThatIsNotArmedBootsItsDisk(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 2, Adjust: func(m *fleet.Machine) {
		m.SecureBoot = true
		m.Install, m.NetworkFirst = m.Name == "node-01", true
	}})
	bystander := f.Machines()[1]
	run := make(chan result, 1)
	go func() {
		r, _ := install(t, f)
		run <- r
	}()
	if err := bystander.PowerOn(t.Context(), redfishtest.Boot{}); err != nil {
		t.Fatal(err)
	}
	if r := <-run; r.status != exitDone {
		t.Fatalf("status %d: %s", r.status, r.err)
	}
	for len(bystander.Boots()) == 0 { // its firmware gives up in its own time
		select {
		case <-t.Context().Done():
			t.Fatal("it never came to an end of its boot")
		case <-time.After(20 * time.Millisecond):
		}
	}
	for _, boot := range bystander.Boots() {
		if boot.Version != "" || boot.Program == "amd64.efi" {
			t.Errorf("it booted %+v", boot)
		}
	}
	untouched(t, bystander)
}

// What a signed image would ignore is refused before any machine is touched.
func TestArgumentsThatASignedImageIgnoresEndARunBeforeItBegins(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 1, Adjust: func(m *fleet.Machine) { m.SecureBoot = true }})
	edit(t, f, "nodes/demo/node-01.yaml", "secureBoot: true", "secureBoot: true\nkernelArgs: talos.platform=metal net.ifnames=0\nvlan: 12")
	r, _ := install(t, f)
	wants(t, r, exitUsage, "its signed image ignores the kernel arguments net.ifnames=0", "so that it would come up without vlan 12")
	untouched(t, f.Machines()...)
}

// A plan names the signed image, and the id that was computed from a schematic.
func TestAPlanKnowsTheIDOfASchematic(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 1, Adjust: func(m *fleet.Machine) { m.SecureBoot = true }})
	edit(t, f, "nodes/_defaults.yaml", "schematicID: "+fleet.VanillaSchematic, noapicSchematic)
	edit(t, f, "nodes/demo/node-01.yaml", "secureBoot: true", "secureBoot: true\nkernelArgs: noapic nolapic")
	r := provision(t, "plan", "--config", f.ConfigFile(), "--cluster", "demo", "-o", "json")
	var plan provisioner.Plan
	if err := json.Unmarshal([]byte(r.out), &plan); err != nil || r.status != exitDone || len(plan.Nodes) != 1 {
		t.Fatalf("status %d, %v:\n%s%s", r.status, err, r.out, r.err)
	}
	if n := plan.Nodes[0]; n.SchematicID != noapicID || !n.SecureBoot || n.KernelArgs != "" {
		t.Errorf("planned %+v", n)
	}
}
