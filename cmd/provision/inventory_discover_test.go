package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/talos-provision/provision/e2e/fleet"
)

// discover runs `provision inventory discover` on the BMCs of a fleet.
func discover(t *testing.T, f *fleet.Fleet, args ...string) result {
	t.Helper()
	args = append([]string{"inventory", "discover", "--config", f.ConfigFile(), "--cluster", "demo", "--bmc", bmcList(f)}, args...)
	return provision(t, args...)
}

func bmcList(f *fleet.Fleet) string {
	addresses := make([]string, len(f.Machines()))
	for i, m := range f.Machines() {
		addresses[i] = m.BMC().URL()
	}
	return strings.Join(addresses, ",")
}

// forget removes the fleet's node files, or leaves of each what keep says.
func forget(t *testing.T, f *fleet.Fleet, keep func(m *fleet.Machine) string) {
	t.Helper()
	for _, m := range f.Machines() {
		name := filepath.Join("nodes", "demo", m.Name+".yaml")
		if keep != nil {
			put(t, f, name, keep(m))
			continue
		}
		if err := os.Remove(filepath.Join(filepath.Dir(f.ConfigFile()), name)); err != nil {
			t.Fatal(err)
		}
	}
}

// From nothing but BMCs to a plan: the files that are written are an inventory.
func TestDiscoverWritesAnInventoryThatPlanAccepts(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{})
	forget(t, f, nil)
	shown := discover(t, f)
	if shown.status != exitDone || strings.Count(shown.out, "--- /dev/null\n") != 12 || !strings.Contains(shown.out, "nothing was written") {
		t.Errorf("status %d\n%s%s", shown.status, shown.out, shown.err)
	}
	for _, text := range []string{
		"chassis serial C4EMU0000002: shared by demo/node-05, demo/node-06, demo/node-07, demo/node-08; told apart by board serial:\n  demo/node-05  ZM4EMU000005\n",
		"+boardSerial: ZM4EMU000012\n",
	} {
		if !strings.Contains(shown.out, text) {
			t.Errorf("no %q in:\n%s", text, shown.out)
		}
	}
	if files, err := filepath.Glob(filepath.Join(filepath.Dir(f.ConfigFile()), "nodes/demo/node-*")); err != nil || len(files) > 0 {
		t.Fatalf("without --write there are %v, %v", files, err)
	}

	written := discover(t, f, "--write")
	if written.status != exitDone || !strings.Contains(written.out, "new nodes: 12") {
		t.Fatalf("status %d\n%s%s", written.status, written.out, written.err)
	}
	if plan := provision(t, "plan", "--config", f.ConfigFile(), "--cluster", "demo"); plan.status != exitDone || strings.Count(plan.out, "install is not true") != 12 {
		t.Errorf("a run would not skip all that were only found: status %d\n%s%s", plan.status, plan.out, plan.err)
	}
	for _, m := range f.Machines() {
		edit(t, f, "nodes/demo/"+m.Name+".yaml", "install: false # set ip first, then true", "ip: "+m.IP.String()+"\ninstall: true")
	}
	plan := provision(t, "plan", "--config", f.ConfigFile(), "--cluster", "demo", "-o", "json")
	if plan.status != exitDone || strings.Count(plan.out, `"action": "install"`) != 12 || strings.Count(plan.out, `"identifiedBy": "board serial"`) != 12 {
		t.Errorf("status %d\n%s%s", plan.status, plan.out, plan.err)
	}
	untouched(t, f.Machines()...)
	noSessions(t, f)
}

// An inventory that was made for chassis serials by hand keeps every line.
func TestDiscoverAddsToFilesAndKeepsTheirLines(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 4})
	original := func(m *fleet.Machine) string {
		return fmt.Sprintf("# %s, ask Jo\nserial:   %s   # chassis\n\nip: %s\ninstall: true\nbmc: {address:   %q} # shelf\n# end", m.Name, m.Hardware.Serial, m.IP, m.BMC().URL())
	}
	forget(t, f, original)
	r := discover(t, f, "--write", "-o", "json")
	var document struct {
		BMCs []struct {
			Node, Action string
		}
		Chassis []struct{ ToldApartBy string }
		Written []string
	}
	if err := json.Unmarshal([]byte(r.out), &document); err != nil || r.status != exitDone {
		t.Fatalf("status %d, %v\n%s%s", r.status, err, r.out, r.err)
	}
	if len(document.BMCs) != 4 || document.BMCs[3].Action != "patch" || document.BMCs[3].Node != "node-04" || len(document.Written) != 4 || document.Chassis[0].ToldApartBy != "board serial" {
		t.Errorf("%+v", document)
	}
	for _, m := range f.Machines() {
		got, err := os.ReadFile(filepath.Join(filepath.Dir(f.ConfigFile()), "nodes/demo", m.Name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		added := fmt.Sprintf("boardSerial: %s\nuuid: %s\nmacs:\n- %s\n", m.Hardware.BoardSerial, m.Hardware.UUID, m.Hardware.MACs[0])
		if string(got) != strings.Replace(original(m), "# chassis\n", "# chassis\n"+added, 1) {
			t.Errorf("%s became:\n%s", m.Name, got)
		}
	}
	if plan := provision(t, "plan", "--config", f.ConfigFile(), "--cluster", "demo", "-o", "json"); plan.status != exitDone || strings.Count(plan.out, `"action": "install"`) != 4 {
		t.Errorf("status %d\n%s%s", plan.status, plan.out, plan.err)
	}
	if again := discover(t, f); again.status != exitDone || !strings.Contains(again.out, "unchanged: 4") {
		t.Errorf("status %d\n%s%s", again.status, again.out, again.err)
	}
}

func TestDiscoverReportsConflictsAndWritesTheRest(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 3, Adjust: func(m *fleet.Machine) {
		if m.Name == "node-02" {
			m.Hardware.BoardSerial = "ZM4EMU000001"
		}
	}})
	forget(t, f, nil)
	r := discover(t, f, "--write")
	if r.status != exitRefused || strings.Count(r.out, "\nconflict: ") != 2 || !strings.Contains(r.out, "board serial ZM4EMU000001 is that of") || !strings.Contains(r.out, "written below") {
		t.Errorf("status %d\n%s%s", r.status, r.out, r.err)
	}
	if text, err := os.ReadFile(filepath.Join(filepath.Dir(f.ConfigFile()), "nodes/demo/node-01.yaml")); err != nil || !strings.Contains(string(text), "ZM4EMU000003") {
		t.Errorf("the third machine is not written: %s, %v", text, err)
	}
}

func TestDiscoverStopsBeforeItLocksAccounts(t *testing.T) {
	t.Setenv("DISCOVER_TEST_PASSWORD", "wrong-password-of-the-test")
	f := startFleet(t, fleet.Config{Nodes: 8})
	forget(t, f, nil)
	r := discover(t, f, "--write", "--username", "provisioner", "--password-env", "DISCOVER_TEST_PASSWORD")
	refused := 0
	for _, m := range f.Machines() {
		refused += m.BMC().RefusedLogins()
	}
	if r.status != exitFailed || refused != 3 || !strings.Contains(r.err, "no other was asked") || strings.Contains(r.out, "written below") {
		t.Errorf("status %d after %d refusals\n%s%s", r.status, refused, r.out, r.err)
	}
	if strings.Contains(r.out+r.err, "wrong-password-of-the-test") {
		t.Error("the password is told (I9)")
	}
}

func TestDiscoverWithoutAnyAnswer(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "nodes")
	r := provision(t, "inventory", "discover", "--config", os.DevNull, "--inventory", dir, "--cluster", "prod", "--bmc", "127.0.0.0/30", "--port", "9", "--username", "u", "--password-env", "PATH", "--write")
	if r.status != exitFailed || !strings.Contains(r.out, "unreachable: 127.0.0.0-127.0.0.3:9") || !strings.Contains(r.err, "no BMC answered") {
		t.Errorf("status %d\n%s%s", r.status, r.out, r.err)
	}
	for want, args := range map[string][]string{
		"name the BMCs":           {"--cluster", "prod"},
		"name the cluster":        {"--bmc", "10.0.0.1"},
		"folder of the inventory": {"--bmc", "10.0.0.1", "--cluster", "../x"},
		"give one of them":        {"--bmc", "10.0.0.1", "--cluster", "x", "--password-env", "A", "--password-file", "b"},
		"no user or password":     {"--bmc", "10.0.0.1", "--cluster", "x", "--username", "u"},
		"CIDR":                    {"--bmc", "10.0.0.1/x", "--cluster", "x", "--username", "u", "--password-env", "A"},
		"DISCOVER_NOT_SET":        {"--bmc", "10.0.0.1", "--cluster", "x", "--username", "u", "--password-env", "DISCOVER_NOT_SET"},
	} {
		r := provision(t, append([]string{"inventory", "discover", "--config", os.DevNull, "--inventory", dir}, args...)...)
		if r.status != exitUsage || !strings.Contains(r.err, want) {
			t.Errorf("%v: status %d, %q: want %d and %q", args, r.status, r.err, exitUsage, want)
		}
	}
}
