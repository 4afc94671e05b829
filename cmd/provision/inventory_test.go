package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/inventory"
)

// inventoryOf writes an inventory and gives its folder.
func inventoryOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, path, content)
	}
	return dir
}

func TestValidateExitStatus(t *testing.T) {
	t.Parallel()
	const warned = "vlan: 7\ninterface: ens1\n" // without an ip
	for name, tc := range map[string]struct {
		content string
		args    []string
		want    int
		says    string
	}{
		"sound":                    {"serial: A1\n", nil, exitDone, "nodes: 1, errors: 0, warnings: 0"},
		"sound, strict":            {"serial: A1\n", []string{"--strict"}, exitDone, "nodes: 1, errors: 0, warnings: 0"},
		"warning":                  {warned, nil, exitDone, "c/n1.yaml:1:7: warning: n1 has a vlan but no ip"},
		"warning, strict":          {warned, []string{"--strict"}, exitUsage, "c/n1.yaml:1:7: error: n1 has a vlan but no ip"},
		"error":                    {"serail: A1\n", nil, exitUsage, "c/n1.yaml:1:1: error: unknown key serail; did you mean serial?"},
		"error as JSON":            {"serail: A1\n", []string{"-o", "json"}, exitUsage, `"rule": "unknown-key"`},
		"warning as SARIF, strict": {warned, []string{"--format", "sarif", "--strict"}, exitUsage, `"level": "error"`},
		"error as annotation":      {"serail: A1\n", []string{"--format", "github"}, exitUsage, "::error file="},
		"the format wins over -o":  {"serail: A1\n", []string{"--format", "text", "-o", "json"}, exitUsage, "c/n1.yaml:1:1: error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := inventoryOf(t, map[string]string{"c/n1.yaml": tc.content})
			r := provision(t, append([]string{"inventory", "validate", "--inventory", dir}, tc.args...)...)
			if r.status != tc.want || !strings.Contains(r.out, tc.says) {
				t.Errorf("status %d, want %d; output lacks %q:\n%s%s", r.status, tc.want, tc.says, r.out, r.err)
			}
		})
	}
	if r := provision(t, "inventory", "validate", "--format", "xml"); r.status != exitUsage || !strings.Contains(r.err, "text, json, sarif, github or gitlab") {
		t.Errorf("unknown format: %d %s", r.status, r.err)
	}
}

// Reports name files as a CI system does that runs this at the root of the repository.
func TestReportsNameFilesFromTheWorkingDirectory(t *testing.T) {
	dir := inventoryOf(t, map[string]string{"my nodes/c/n1.yaml": "serail: A1\n"})
	t.Chdir(dir)
	for format, want := range map[string]string{"sarif": `"uri": "my%20nodes/c/n1.yaml"`, "github": "file=my nodes/c/n1.yaml,line=1,col=1"} {
		for _, root := range []string{"my nodes", "./my nodes/", filepath.Join(dir, "my nodes")} {
			if r := provision(t, "inventory", "validate", "--format", format, "--inventory", root); !strings.Contains(r.out, want) {
				t.Errorf("%s of %s lacks %s:\n%s", format, root, want, r.out)
			}
		}
	}
}

func TestShowTellsWhereValuesComeFrom(t *testing.T) {
	t.Parallel()
	dir := inventoryOf(t, map[string]string{
		"_defaults.yaml": "bmc: {username: admin, passwordEnv: P}\n", "c/_defaults.yaml": "netmask: 24\nlabels: {role: worker}\n",
		"c/n1.yaml": "ip: 10.0.0.1\nmac: 0c:c4:7a:00:00:01\nbmc: {address: 10.9.9.1}\n",
	})
	show := func(args ...string) result {
		return provision(t, append([]string{"inventory", "show", "--inventory", dir, "--node", "n1"}, args...)...)
	}
	r := show()
	for _, want := range []string{
		"ip               c/n1.yaml:1         10.0.0.1\n", "macs             c/n1.yaml:2         0c:c4:7a:00:00:01\n",
		"labels.role      c/_defaults.yaml:2  worker\n", "bmc.passwordEnv  _defaults.yaml:1    P\n", "arch             default             amd64\n",
		"ip=10.0.0.1:::24:n1:::::",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("output lacks %q:\n%s", want, r.out)
		}
	}
	var plain inventory.Node
	if err := json.Unmarshal([]byte(show("-o", "json").out), &plain); err != nil || plain.IP != "10.0.0.1" {
		t.Errorf("-o json: %v", err)
	}
	var both struct {
		Node    inventory.Node
		Origins map[string]inventory.Origin
	}
	if err := json.Unmarshal([]byte(show("-o", "json", "--origin").out), &both); err != nil || !both.Node.Equal(plain) {
		t.Errorf("-o json --origin: %v", err)
	}
	if got, want := slices.Sorted(maps.Keys(both.Origins)), strings.Fields("bmc.address bmc.passwordEnv bmc.username cluster ip labels.role macs name netmask"); !slices.Equal(got, want) {
		t.Errorf("origins of %v, want %v", got, want)
	}
	if got, want := both.Origins["netmask"], (inventory.Origin{File: "c/_defaults.yaml", Line: 1, Column: 10}); got != want {
		t.Errorf("netmask comes from %+v, want %+v", got, want)
	}
}

// The schema is printed as it is published.
func TestSchemaIsThePublishedOne(t *testing.T) {
	t.Parallel()
	published, err := os.ReadFile("../../docs/inventory.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if r := provision(t, "inventory", "schema"); r.status != exitDone || r.out != string(published) {
		t.Errorf("status %d, %d bytes, want the %d of docs/inventory.schema.json", r.status, len(r.out), len(published))
	}
}

// A chassis of four boards, one node that shares nothing, and one mistake.
func fleetFiles() map[string]string {
	return map[string]string{
		"_defaults.yaml": "bmc: {username: admin, passwordEnv: P}\nlabels: {role: worker}\n",
		"a/n1.yaml":      "serial: CHASSIS1\nboardSerial: B1\nip: 10.0.0.1\nnetmask: 24\n",
		"a/n2.yaml":      "serial: CHASSIS1\nbmc: {address: https://10.9.9.2}\n",
		"a/n3.yaml":      "bmc: {address: 10.9.9.3}\nlabels: {role: control}\n",
		"b/n1.yaml":      "serial: S1\nlabels: {zone: z}\n",
		"b/n4.yaml":      "",
	}
}

func TestListSaysByWhatNodesAreRecognised(t *testing.T) {
	t.Parallel()
	dir := inventoryOf(t, fleetFiles())
	r := provision(t, "inventory", "list", "--inventory", dir)
	const want = `CLUSTER  NODE  INSTALL  IP        RECOGNISED BY    UNIQUE
a        n1    no       10.0.0.1  board serial B1  yes
a        n2    no       -         BMC 10.9.9.2     learnt from the BMC (serial CHASSIS1 is also that of a/n1, but BMC https://10.9.9.2 is asked for more)
a        n3    no       -         BMC 10.9.9.3     learnt from the BMC
b        n1    no       -         serial S1        yes
b        n4    no       -         -                no: give it a bmc.address, serial, boardSerial, uuid or mac
`
	if diff := cmp.Diff(want, r.out); diff != "" || r.status != exitDone {
		t.Errorf("status %d, output (-want +got):\n%s", r.status, diff)
	}
	var nodes []listed
	r = provision(t, "inventory", "list", "--inventory", dir, "-o", "json", "--node", "a/n1,b/n1")
	if err := json.Unmarshal([]byte(r.out), &nodes); err != nil || len(nodes) != 2 {
		t.Fatalf("%v: %s", err, r.out)
	}
	if got := nodes[0].Recognition; got.Certainty != inventory.Unique || got.Value != "B1" || len(got.Traits) != 2 || !slices.Equal(got.Traits[1].Shared, []string{"a/n2"}) {
		t.Errorf("a/n1 is recognised by %+v", got)
	}
}

// What collides is what one wants to see, so errors do not stop the list.
func TestListShowsAnInventoryWithErrors(t *testing.T) {
	t.Parallel()
	dir := inventoryOf(t, map[string]string{"a/n1.yaml": "boardSerial: B1\n", "a/n2.yaml": "boardSerial: B1\n"})
	r := provision(t, "inventory", "list", "--inventory", dir)
	if r.status != exitUsage || !strings.Contains(r.err, "is also that of n2") || !strings.Contains(r.out, "no: board serial B1 is claimed by a/n1 and a/n2") {
		t.Errorf("status %d:\n%s%s", r.status, r.out, r.err)
	}
}

func TestSelectionFlags(t *testing.T) {
	t.Parallel()
	dir := inventoryOf(t, fleetFiles())
	for args, want := range map[string]string{
		"":                                   "a/n1 a/n2 a/n3 b/n1 b/n4",
		"--cluster a":                        "a/n1 a/n2 a/n3",
		"--node n[1-2]":                      "a/n1 a/n2 b/n1",
		"--cluster a --node n[1-3] -l !zone": "a/n1 a/n2 a/n3",
		"--selector role=worker":             "a/n1 a/n2 b/n1 b/n4",
		"--selector role=worker,!zone":       "a/n1 a/n2 b/n4",
		"--exclude b/*,n2":                   "a/n1 a/n3",
		"-l role!=control --exclude n1":      "a/n2 b/n4",
	} {
		var nodes []listed
		r := provision(t, append([]string{"inventory", "list", "--inventory", dir, "-o", "json"}, strings.Fields(args)...)...)
		if err := json.Unmarshal([]byte(r.out), &nodes); err != nil {
			t.Fatalf("%s: %v: %s", args, err, r.err)
		}
		got := make([]string, 0, len(nodes))
		for _, n := range nodes {
			got = append(got, n.Cluster+"/"+n.Node)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s selects %v, want %s", args, got, want)
		}
	}
	for args, want := range map[string]string{
		"--exclude n9":         "exclude: no node is called n9",
		"--selector rol=x":     "did you mean role?",
		"--selector role=x":    "no node of the selection has labels that fit role=x",
		"--cluster prod":       "the clusters are a, b",
		"--exclude *":          "every selected node is excluded",
		"--selector role==(x)": "is not a condition",
	} {
		r := provision(t, append([]string{"inventory", "list", "--inventory", dir}, strings.Fields(args)...)...)
		if r.status != exitUsage || !strings.Contains(r.err, want) {
			t.Errorf("%s: status %d, error %q lacks %q", args, r.status, r.err, want)
		}
	}
}

// What docs/inventory.md shows of the examples is what one sees. A line "..."
// leaves out the rest.
func TestOutputsInTheDocumentationOfTheInventory(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/inventory.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```\n$ provision ")[1:]
	if len(blocks) < 3 {
		t.Fatalf("only %d outputs are shown", len(blocks))
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		command, want, _ := strings.Cut(block, "\n")
		want, _, cut := strings.Cut(want, "...\n")
		r := provision(t, append(strings.Fields(command), "--inventory", "../../docs/examples/nodes")...)
		got := r.out + r.err
		if cut {
			got = got[:min(len(got), len(want))]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("provision %s (-documented +got):\n%s", command, diff)
		}
	}
}

// The flags of the selection hold for what touches machines, too.
func TestPlanTakesTheSelectedNodes(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 3})
	first, second := f.Machines()[0], f.Machines()[1]
	edit(t, f, "nodes/_defaults.yaml", "install: false\n", "install: false\nlabels: {role: worker}\n")
	edit(t, f, "nodes/demo/"+second.Name+".yaml", "install: true\n", "install: true\nlabels: {role: control}\n")
	for args, want := range map[string]string{
		"--exclude " + first.Name:                                        "2 to install",
		"--selector role=worker":                                         "2 to install",
		"--selector role=worker --exclude " + first.Name:                 "1 to install",
		"-l role=control --node " + first.Name + "," + second.Name:       "1 to install",
		"-l role=control --node " + first.Name:                           "no node of the selection has labels that fit role=control",
		"-l role=worker --reinstall " + second.Name:                      "no node of the selection has labels that fit role=worker",
		"--exclude " + second.Name + " --reinstall demo/" + second.Name:  "every selected node is excluded",
		"--exclude demo/" + second.Name + "x":                            "exclude: no node is called demo/",
		"--selector role=worker --selector role=control --exclude node*": "is excluded",
	} {
		r := provision(t, append([]string{"plan", "--config", f.ConfigFile(), "--cluster", "demo"}, strings.Fields(args)...)...)
		if !strings.Contains(r.out+r.err, want) {
			t.Errorf("plan %s: status %d, output lacks %q:\n%s%s", args, r.status, want, r.out, r.err)
		}
	}
	untouched(t, f.Machines()...)
}
