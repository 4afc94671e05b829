package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/fleet"
)

// onFleet gives the flags to work on nodes of a fleet.
func onFleet(f *fleet.Fleet, nodes string, args ...string) []string {
	all := slices.Concat([]string{"bmc"}, args, []string{"--config", f.ConfigFile(), "--cluster", "demo"})
	if nodes != "" {
		all = append(all, "--node", nodes)
	}
	return all
}

// adHoc gives the flags to work on a machine of a fleet by its address.
func adHoc(f *fleet.Fleet, m *fleet.Machine, args ...string) []string {
	dir := filepath.Dir(f.ConfigFile())
	return slices.Concat([]string{"bmc"}, args, []string{
		"--address", m.BMC().URL(), "--username", "provisioner",
		"--password-file", filepath.Join(dir, "bmc-password"), "--ca-file", filepath.Join(dir, "bmc-ca.pem"),
	})
}

// The document of one BMC has these keys and no others, in this order.
func TestBMCInfoOfOneAddressIsTheDocument(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 1})
	m := f.Machines()[0]
	r := provision(t, adHoc(f, m, "info", "-o", "json")...)
	if r.status != exitDone || r.err != "" {
		t.Fatalf("status %d: %s", r.status, r.err)
	}
	mac := m.Hardware.MACs[0]
	want := `{
  "vendor": "Supermicro",
  "model": "Quad-Node Emulator",
  "system": "1",
  "serial": "` + m.Hardware.Serial + `",
  "boardSerial": "` + m.Hardware.BoardSerial + `",
  "chassisSerial": "` + m.Hardware.ChassisSerial + `",
  "uuid": "` + m.Hardware.UUID + `",
  "macs": [
    "` + mac + `"
  ],
  "powerState": "Off",
  "boot": {
    "target": "Pxe",
    "enabled": "Disabled",
    "mode": "UEFI"
  },
  "sources": `
	if got, _, _ := strings.Cut(r.out, `{
    "boardSerial"`); got != want {
		t.Errorf("document (-want +got):\n%s", cmp.Diff(want, got))
	}
	var document struct{ Sources map[string]string }
	if err := json.Unmarshal([]byte(r.out), &document); err != nil {
		t.Fatal(err)
	}
	for fact, source := range map[string]string{
		"serial":        "/redfish/v1/Systems/1#/SerialNumber",
		"boardSerial":   "/redfish/v1/Chassis/1#/Oem/Supermicro/BoardSerialNumber",
		"chassisSerial": "/redfish/v1/Chassis/1#/SerialNumber",
		"uuid":          "/redfish/v1/Systems/1#/UUID",
	} {
		if document.Sources[fact] != source {
			t.Errorf("%s was read from %q, want %q", fact, document.Sources[fact], source)
		}
	}
	if document.Sources["mac "+mac] == "" {
		t.Errorf("no source for the MAC in %v", document.Sources)
	}
	noSessions(t, f)
}

func TestBMCInfoOfSeveralNodesIsAnArrayAndATable(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 3, Adjust: func(m *fleet.Machine) {
		if m.Name == "node-02" {
			m.Password = "another-password"
		}
	}})
	r := provision(t, onFleet(f, "", "info", "-o", "json")...)
	if r.status != exitFailed {
		t.Errorf("status %d, want %d", r.status, exitFailed)
	}
	var all []map[string]any
	if err := json.Unmarshal([]byte(r.out), &all); err != nil {
		t.Fatalf("%v in %s", err, r.out)
	}
	for i, m := range f.Machines() {
		if all[i]["node"] != m.Name || all[i]["cluster"] != "demo" || all[i]["address"] != m.BMC().URL() {
			t.Errorf("element %d is %v", i, all[i])
		}
		if m.Name != "node-02" && (all[i]["boardSerial"] != m.Hardware.BoardSerial || all[i]["error"] != nil) {
			t.Errorf("%s is %v", m.Name, all[i])
		}
	}
	if text, _ := all[1]["error"].(string); !strings.Contains(text, "user name or password") || all[1]["vendor"] != nil {
		t.Errorf("node-02 is %v", all[1])
	}
	if n := f.Machines()[1].BMC().RefusedLogins(); n != 1 {
		t.Errorf("%d logins were refused, want one attempt", n)
	}

	r = provision(t, onFleet(f, "", "info")...)
	lines := strings.Split(r.out, "\n")
	if !strings.HasPrefix(lines[0], "NODE") || len(lines) != 5 || !strings.Contains(lines[1], f.Machines()[0].Hardware.BoardSerial) {
		t.Errorf("table:\n%s", r.out)
	}
	if !strings.Contains(r.err, "node-02: ") {
		t.Errorf("errors:\n%s", r.err)
	}
	page := provision(t, onFleet(f, "node-03", "info")...)
	for _, want := range []string{"board serial", "/redfish/v1/Chassis/1#/Oem/Supermicro/BoardSerialNumber", f.Machines()[2].Hardware.UUID} {
		if page.status != exitDone || !strings.Contains(page.out, want) {
			t.Errorf("page lacks %q:\n%s", want, page.out)
		}
	}
	noSessions(t, f)
}

// Labels and exclusion select as for any command.
func TestBMCSelection(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 3})
	edit(t, f, "nodes/demo/node-02.yaml", "install: true", "install: true\nlabels: {role: worker}")
	for _, tt := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--selector", "role=worker"}, "node-02"},
		{[]string{"--cluster", "demo", "--exclude", "node-02"}, "node-01 node-03"},
		{[]string{"--node", "demo/node-03"}, "node-03"},
	} {
		r := provision(t, slices.Concat([]string{"bmc", "power", "status", "-o", "json", "--config", f.ConfigFile()}, tt.flags)...)
		var all []bmcResult
		if !strings.HasPrefix(r.out, "[") {
			r.out = "[" + r.out + "]"
		}
		if err := json.Unmarshal([]byte(r.out), &all); err != nil {
			t.Fatalf("%v: %v in %s%s", tt.flags, err, r.out, r.err)
		}
		names := make([]string, 0, len(all))
		for _, b := range all {
			names = append(names, b.Node)
		}
		if got := strings.Join(names, " "); got != tt.want {
			t.Errorf("%v selects %s, want %s", tt.flags, got, tt.want)
		}
	}
}

func TestBMCUsage(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 1})
	m := f.Machines()[0]
	address := []string{"bmc", "info", "--address", m.BMC().URL()}
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"bmc", "info"}, "--node LIST, --cluster NAME, --selector LABELS or --address URL"},
		{address, "--username"},
		{append(address[:4:4], "--username", "x"), "--password-env NAME, --password-file FILE or --password-command"},
		{append(address[:4:4], "--username", "x", "--password-env", "A", "--password-file", "B"), "in one way"},
		{append(address[:4:4], "--username", "x", "--password", "y"), "unknown flag: --password"},
		{append(adHoc(f, m, "info"), "--node", "node-01"), "outside of the inventory"},
		{append(adHoc(f, m, "info"), "--address", "https://root:calvin@192.0.2.1"), "give --username"},
		{append(onFleet(f, "node-01", "info"), "--insecure"), "--insecure belongs to --address"},
		{onFleet(f, "node-99", "info"), "no node is called node-99"},
		{onFleet(f, "", "info", "-o", "yaml"), "table or json"},
		{onFleet(f, "", "media", "insert"), "accepts 1 arg"},
		{onFleet(f, "", "power", "sideways"), "unknown command"},
		{append(onFleet(f, "", "info"), "--trace", "/nowhere/at/all"), "--trace"},
	} {
		if r := provision(t, tt.args...); r.status != exitUsage || !strings.Contains(r.err, tt.says) {
			t.Errorf("%v: status %d, says %s; want %d and %q", tt.args, r.status, r.err, exitUsage, tt.says)
		} else if strings.Contains(r.out+r.err, "calvin") {
			t.Errorf("%v: shows a password: %s%s", tt.args, r.out, r.err)
		}
	}
}

func TestBMCUnreachableIsOneFailure(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 2})
	f.Machines()[1].BMC().Close()
	r := provision(t, onFleet(f, "", "power", "on", "--yes")...)
	if r.status != exitFailed || f.Machines()[0].BMC().PowerState() != "On" || !strings.Contains(r.err, "cannot be reached") {
		t.Errorf("status %d: %s", r.status, r.err)
	}
}
