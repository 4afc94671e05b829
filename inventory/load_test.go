package inventory_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/talos-provision/provision/inventory"
)

// tree writes files and gives their folder.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func load(t testing.TB, dir string) (*inventory.Tree, inventory.Findings) {
	t.Helper()
	loaded, findings, err := inventory.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return loaded, findings
}

// clean loads an inventory in which nothing is wrong.
func clean(t testing.TB, files map[string]string) *inventory.Tree {
	t.Helper()
	loaded, findings := load(t, tree(t, files))
	if len(findings) > 0 {
		t.Errorf("findings:\n%s", findings)
	}
	return loaded
}

// says compares what a person reads.
func says(t testing.TB, findings inventory.Findings, want ...string) {
	t.Helper()
	got := strings.Split(findings.String(), "\n")
	if len(findings) == 0 {
		got = nil
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func node(t testing.TB, loaded *inventory.Tree, name string) inventory.Node {
	t.Helper()
	n, err := loaded.Node(name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

const (
	schematic     = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"
	referenceArgs = "talos.platform=metal console=tty0 init_on_alloc=1 slab_nomerge pti=on consoleblank=0 " +
		"nvme_core.io_timeout=4294967295 printk.devkmsg=on ima_template=ima-ng ima_appraise=fix ima_hash=sha512"
)

func TestReferenceInventoryLoadsUnchanged(t *testing.T) {
	t.Parallel()
	loaded, findings := load(t, "testdata/reference/nodes")
	says(t, findings,
		"_defaults.yaml:6:6: warning: ntp fr.pool.ntp.org is a name: Talos would ignore the ip= and vlan= arguments altogether and ask DHCP for an address; "+
			`write the address of a time server, or unset ntp with "ntp: null"`,
		"k8s-dev/node-01.yaml:2:5: warning: node-01 has the address of its gateway, 192.168.100.1; "+
			"give the node its own address, if another machine is the gateway")
	want := []inventory.Node{{
		Name: "node-01", Cluster: "k8s-dev", File: "k8s-dev/node-01.yaml",
		Install: true, SchematicID: schematic, TalosVersion: "v1.9.5", KernelArgs: referenceArgs, Arch: "amd64",
		IP: "192.168.100.1", Netmask: "255.255.255.0", Gateway: "192.168.100.1", Interface: "ens1", VLAN: "1234",
		DNS0: "1.1.1.1", DNS1: "8.8.8.8", NTP: "fr.pool.ntp.org", Serial: "ABCDEFGHIJ01",
	}}
	if diff := cmp.Diff(want, loaded.Nodes, cmpopts.IgnoreUnexported(inventory.Node{})); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}

	line, err := loaded.Nodes[0].KernelCommandLine()
	if err != nil {
		t.Fatal(err)
	}
	const golden = "ip=192.168.100.1::192.168.100.1:255.255.255.0:node-01:ens1.1234::1.1.1.1:8.8.8.8:fr.pool.ntp.org vlan=ens1.1234:ens1 " + referenceArgs
	if line != golden {
		t.Errorf("command line:\n got %s\nwant %s", line, golden)
	}
}

func TestOriginNamesTheFileThatGaveTheValue(t *testing.T) {
	t.Parallel()
	loaded, _ := load(t, "testdata/reference/nodes")
	n := node(t, loaded, "node-01")
	want := map[string]string{
		"name": "k8s-dev/node-01.yaml", "cluster": "k8s-dev/node-01.yaml", "serial": "k8s-dev/node-01.yaml:1",
		"install": "k8s-dev/node-01.yaml:3", "netmask": "k8s-dev/_defaults.yaml:1", "talosVersion": "_defaults.yaml:2",
		"arch": "default", "bmc.address": "default", "nonsense": "default",
	}
	for field, origin := range want {
		if got := n.Origin(field).String(); got != origin {
			t.Errorf("%s comes from %s, want %s", field, got, origin)
		}
	}
	if got := n.Origins()["kernelArgs"]; got != (inventory.Origin{File: "_defaults.yaml", Line: 3, Column: 13}) {
		t.Errorf("kernelArgs comes from %+v", got)
	}
	if got := len(n.Origins()); got != 15 {
		t.Errorf("%d origins: %v", got, n.Origins())
	}
	text, err := json.Marshal(n)
	if err != nil || strings.Contains(string(text), "_defaults.yaml") {
		t.Errorf("JSON of a node carries origins: %s %v", text, err)
	}
}

func TestScalarsKeepTheirText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0123", "1e5", "1_0", "0x1F", "yes", "on", "1.50", "2024-01-02", "true", "12:30:45", "0o17", "+12", ".52"} {
		loaded := clean(t, map[string]string{"c/n1.yaml": "serial: " + text + "\nlabels: {rack: " + text + "}\n"})
		n := node(t, loaded, "n1")
		if n.Serial != text || n.Labels["rack"] != text {
			t.Errorf("%s became serial %q and label %q", text, n.Serial, n.Labels["rack"])
		}
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	loaded := clean(t, map[string]string{
		"_defaults.yaml": "ntp: root\ndns0: 1.1.1.1\ndns1: 8.8.8.8\nlabels: {role: worker, site: a}\nmacs: [0c:c4:7a:00:00:99]\n" +
			"bmc: {username: admin, passwordEnv: BMC_PASSWORD, insecure: true}\n",
		"c/_defaults.yaml":   "ntp: cluster\nlabels: {role: control, rack: 1}\n",
		"c/r/_defaults.yml":  "# nothing yet\n",
		"c/r/n1.yaml":        "dns1: null\nlabels: {site: ~}\nmacs: [0c:c4:7a:00:00:01]\nbmc: {address: 10.0.0.1, insecure: false}\n",
		"c/r/deep/er/n2.yml": "",
		"c/r/n3.yaml":        "mac: 0c-c4-7a-00-00-03\nmacs: null\nbmc: null\nlabels: null\n",
		"c/_template.yaml":   "serail: {",
		"c/README.md":        "no node",
		".git/n9.yaml":       "serail: {",
		"c/.hidden.yaml":     "serail: {",
		"c/r/e.yaml":         "cluster: other\nlabels:\n  a.b/c: d\nmacs: null\n",
	})
	admin := inventory.BMC{Username: "admin", PasswordEnv: "BMC_PASSWORD", Insecure: true}
	n1BMC := admin
	n1BMC.Address, n1BMC.Insecure = "10.0.0.1", false
	want := []inventory.Node{
		{
			Name: "n1", Cluster: "c", File: "c/r/n1.yaml", Arch: "amd64", NTP: "cluster", DNS0: "1.1.1.1",
			MACs: []string{"0c:c4:7a:00:00:01"}, Labels: map[string]string{"role": "control", "rack": "1"}, BMC: n1BMC,
		},
		{
			Name: "n2", Cluster: "c", File: "c/r/deep/er/n2.yml", Arch: "amd64", NTP: "cluster", DNS0: "1.1.1.1", DNS1: "8.8.8.8",
			MACs: []string{"0c:c4:7a:00:00:99"}, Labels: map[string]string{"role": "control", "rack": "1", "site": "a"}, BMC: admin,
		},
		{
			Name: "n3", Cluster: "c", File: "c/r/n3.yaml", Arch: "amd64", NTP: "cluster", DNS0: "1.1.1.1", DNS1: "8.8.8.8",
			MACs: []string{"0c-c4-7a-00-00-03"},
		},
		{
			Name: "e", Cluster: "other", File: "c/r/e.yaml", Arch: "amd64", NTP: "cluster", DNS0: "1.1.1.1", DNS1: "8.8.8.8",
			Labels: map[string]string{"role": "control", "rack": "1", "site": "a", "a.b/c": "d"}, BMC: admin,
		},
	}
	if diff := cmp.Diff(want, loaded.Nodes, cmpopts.IgnoreUnexported(inventory.Node{})); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if got := node(t, loaded, "e").Origin("labels.a.b/c").String(); got != "c/r/e.yaml:3" {
		t.Errorf("label comes from %s", got)
	}
	if got := node(t, loaded, "n1").Origin("bmc.username").String(); got != "_defaults.yaml:6" {
		t.Errorf("bmc.username comes from %s", got)
	}
}

func TestBrokenYAMLIsOneFindingAndTheRestIsLoaded(t *testing.T) {
	t.Parallel()
	loaded, findings := load(t, tree(t, map[string]string{
		"c/n1.yaml": "serial: A1\nip: [10.0.0.1\ninstall: true\n",
		"c/n2.yaml": "serial: A2\n",
		"c/n3.yaml": "serial: A3\n\tip: 10.0.0.3\n",
		"c/n4.yaml": "serial: A4\n---\nserial: A5\n",
		"c/n5.yaml": "- serial: A5\n",
		"c/n6.yaml": "serial: *nowhere\n",
	}))
	says(t, findings,
		"c/n1.yaml:2: error: the file is not valid YAML: did not find expected ',' or ']'; correct this line or the one above it; indent with spaces, not tabs",
		"c/n3.yaml:2: error: the file is not valid YAML: found a tab character that violates indentation; correct this line or the one above it; indent with spaces, not tabs",
		"c/n4.yaml:3: error: the file is not valid YAML: a second document begins; correct this line or the one above it; indent with spaces, not tabs",
		"c/n5.yaml:1:1: error: the file is not a mapping; write lines like \"serial: ABC123\"",
		"c/n6.yaml:1: error: the file is not valid YAML: unknown anchor 'nowhere' referenced; correct this line or the one above it; indent with spaces, not tabs",
	)
	if !findings.HasErrors() {
		t.Error("no errors")
	}
	if got := node(t, loaded, "n2").Serial; got != "A2" {
		t.Errorf("n2 has serial %q", got)
	}
}

func TestBrokenDefaultsDoNotMakeNodesIncomplete(t *testing.T) {
	t.Parallel()
	_, findings := load(t, tree(t, map[string]string{
		"c/_defaults.yaml": "netmask: 255.255.255.0\n  gateway: 10.0.0.254\n",
		"c/n1.yaml":        "serial: A1\nip: 10.0.0.1\ninstall: true\n",
	}))
	says(t, findings, "c/_defaults.yaml:2: error: the file is not valid YAML: mapping values are not allowed in this context; "+
		"correct this line or the one above it; indent with spaces, not tabs")
}

func TestFilesThatDoNotBelong(t *testing.T) {
	t.Parallel()
	outside := tree(t, map[string]string{"secret.yaml": "serial: A9\n"})
	dir := tree(t, map[string]string{
		"c/real.yaml":         "serial: A1\n",
		"c/large.yaml":        "serial: A2\n# " + strings.Repeat("x", 1<<20),
		"c/latin.yaml":        "serial: A3\nntp: caf\xe9\n",
		"c/utf16.yaml":        "\xff\xfes\x00:\x00",
		"c/nul.yaml":          "serial: \"A\x00\"\n",
		"c/_default.yaml":     "ntp: a\n",
		"d/_defaults.yaml":    "ntp: a\n",
		"d/_defaults.yml":     "ntp: b\n",
		"c/folder.yaml/n.yml": "serial: A4\n",
	})
	for link, target := range map[string]string{
		"c/out.yaml": filepath.Join(outside, "secret.yaml"), "c/up.yaml": "../../../../etc/hostname", "c/in.yaml": "real.yaml",
		"c/lost.yaml": "nowhere.yaml", "elsewhere": outside, "again": "c", "c/loop.yaml": "loop.yaml",
	} {
		if err := os.Symlink(target, filepath.Join(dir, filepath.FromSlash(link))); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "c", "pipe.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, findings := load(t, dir)
	says(t, findings,
		"again: error: a symbolic link to a folder is not followed; move the folder here or link its files one by one",
		"c/_default.yaml: warning: the file is ignored, because its name begins with _; did you mean _defaults.yaml?",
		"c/in.yaml:1:9: error: serial A1 of in is also that of real (c/real.yaml:1); give each of them boardSerial, uuid, mac or bmc.address, or correct one",
		"c/large.yaml: error: the file is larger than 1 MiB; a node needs a few lines; remove the rest",
		"c/latin.yaml:2: error: the file is not UTF-8 text; save it as UTF-8",
		"c/loop.yaml: error: cannot be read: too many levels of symbolic links; check that it exists and may be read",
		"c/lost.yaml: error: cannot be read: no such file or directory; check that it exists and may be read",
		"c/nul.yaml:1: error: the file is not valid YAML: control characters are not allowed; correct this line or the one above it; indent with spaces, not tabs",
		"c/out.yaml: error: the symbolic link leads out of the inventory; copy the file into the inventory",
		"c/pipe.yaml: error: is not a regular file; remove it from the inventory",
		"c/real.yaml:1:9: error: serial A1 of real is also that of in (c/in.yaml:1); give each of them boardSerial, uuid, mac or bmc.address, or correct one",
		"c/up.yaml: error: the symbolic link leads out of the inventory; copy the file into the inventory",
		"c/utf16.yaml:1: error: the file is not UTF-8 text; save it as UTF-8",
		"d/_defaults.yml: error: the folder has two files of defaults; move its values into d/_defaults.yaml",
		"elsewhere: error: the symbolic link leads out of the inventory; copy the file into the inventory",
	)
}

func TestAnchorBombIsAFinding(t *testing.T) {
	t.Parallel()
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10), ","))
	}
	loaded, findings := load(t, tree(t, map[string]string{
		"c/bomb.yaml": bomb.String(),
		"c/self.yaml": "macs: &m [*m]\n",
		"c/fine.yaml": "serial: &s ABC\nlabels: {asset: *s}\n",
	}))
	says(t, findings,
		"c/bomb.yaml:1:1: error: the file's aliases repeat its values too often; write the values out",
		"c/self.yaml:1:1: error: the file's aliases repeat its values too often; write the values out",
	)
	if got := node(t, loaded, "fine").Labels["asset"]; got != "ABC" {
		t.Errorf("alias gives %q", got)
	}
}

func TestFolderThatCannotBeRead(t *testing.T) {
	t.Parallel()
	_, _, err := inventory.Load(filepath.Join(t.TempDir(), "nodes"))
	if err == nil || !strings.HasSuffix(err.Error(), "no such file or directory; give the folder of the node files with --inventory") {
		t.Errorf("error: %v", err)
	}
	_, findings := load(t, t.TempDir())
	says(t, findings, ".: warning: the inventory has no node; add a file like CLUSTER/node-01.yaml")
}
