package render_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/render"
)

const (
	schematic = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"
	factory   = "https://factory.example"
	image     = factory + "/image/" + schematic + "/v1.13.9/"
)

// node is one that can be booted, before its identity is given.
func node(name string, change func(*inventory.Node)) inventory.Node {
	n := inventory.Node{
		Name: name, Cluster: "metal", File: "metal/" + name + ".yaml", Install: true, Arch: "amd64",
		SchematicID: schematic, TalosVersion: "v1.13.9", KernelArgs: "talos.platform=metal",
		IP: "10.0.0.1", Gateway: "10.0.0.254", Netmask: "255.255.255.0", Interface: "eth0",
	}
	change(&n)
	return n
}

func script(t *testing.T, nodes ...inventory.Node) (string, []render.Problem) {
	t.Helper()
	text, problems, err := render.IPXE(render.Script{Nodes: nodes, AssetsURL: factory, Source: "nodes"})
	if err != nil {
		t.Fatal(err)
	}
	return text, problems
}

// The reference inventory's node is booted with just its command line.
func TestTheReferenceInventoryIsRenderedWithItsCommandLine(t *testing.T) {
	t.Parallel()
	tree, findings, err := inventory.Load("../testdata/reference/nodes")
	if err != nil || findings.HasErrors() {
		t.Fatal(err, findings)
	}
	text, problems := script(t, tree.Nodes...)
	if len(problems) > 0 {
		t.Error(problems)
	}
	args, err := tree.Nodes[0].KernelCommandLine()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []machine{{serial: "ABCDEFGHIJ01"}, {serial: "S123", board: "ABCDEFGHIJ01"}} {
		got := follow(t, text, m, always)
		base := factory + "/image/" + schematic + "/v1.9.5/"
		want := outcome{
			kernel: base + "kernel-amd64 initrd=initramfs.xz " + args,
			initrd: "--name initramfs.xz " + base + "initramfs-amd64.xz",
			last:   "provision: node_k8s-dev_node-01 boots Talos v1.9.5",
		}
		if got != want {
			t.Errorf("%+v:\ngot  %+v\nwant %+v", m, got, want)
		}
	}
	if got := follow(t, text, machine{serial: "OTHER1"}, always); got.kernel != "" {
		t.Errorf("an unknown machine boots %s", got)
	}
}

func TestWhoIsBooted(t *testing.T) {
	t.Parallel()
	const chassis = "S100000X0000001"
	nodes := []inventory.Node{
		node("node-01", func(n *inventory.Node) { n.Serial, n.BoardSerial = chassis, "ZM000001" }),
		node("node-02", func(n *inventory.Node) { n.Serial, n.BoardSerial = chassis, "ZM000002" }),
		node("node-03", func(n *inventory.Node) { n.Serial, n.BoardSerial, n.Install = chassis, "ZM000003", false }),
		node("node-04", func(n *inventory.Node) { n.Serial = chassis; n.UUID = "11223344-5566-7788-99aa-bbccddeeff04" }),
		node("odd-01", func(n *inventory.Node) { n.Serial = "A B/1%x $ || exit #; &&" }),
		node("odd-02", func(n *inventory.Node) { n.Serial = "%41 B" }),
		node("odd-03", func(n *inventory.Node) { n.Serial = "sérial" }),
		node("dell-01", func(n *inventory.Node) { n.Serial, n.BoardSerial = "F54P1G3", "CNIVC0014M0388" }),
		node("lower-01", func(n *inventory.Node) { n.Serial = "czj94x1234" }),
		node("padded-01", func(n *inventory.Node) { n.Serial = "PADDED01  " }),
		node("uuid-01", func(n *inventory.Node) { n.UUID = "4c4c4544-0042-4310-8031-b2c04f333334" }),
		node("mac-01", func(n *inventory.Node) { n.MACs = []string{"0C-C4-7A-00-00-01"} }),
		node("both-01", func(n *inventory.Node) { n.Serial, n.UUID = "UNIQUE01", "11223344-5566-7788-99aa-bbccddeeff99" }),
		node("off-01", func(n *inventory.Node) { n.Serial, n.Install = "OFF0000001", false }),
	}
	text, problems := script(t, nodes...)
	if len(problems) > 0 {
		t.Error(problems)
	}
	for _, tc := range []struct {
		name    string
		machine machine
		want    string
	}{
		{"a board of a chassis", machine{serial: chassis, board: "ZM000001"}, "node_metal_node-01"},
		{"another one", machine{serial: chassis, board: "ZM000002"}, "node_metal_node-02"},
		{"one that is not marked install (I3)", machine{serial: chassis, board: "ZM000003"}, ""},
		{"a board that is not in the inventory", machine{serial: chassis, board: "ZM000009"}, ""},
		{"a chassis serial alone", machine{serial: chassis}, ""},
		{"a shared serial with a UUID", machine{serial: chassis, uuid: "11223344-5566-7788-99aa-bbccddeeff04"}, "node_metal_node-04"},
		{"that UUID in another chassis", machine{serial: "ELSEWHERE", uuid: "11223344-5566-7788-99aa-bbccddeeff04"}, ""},
		{"every character that means something", machine{serial: "A B/1%x $ || exit #; &&"}, "node_metal_odd-01"},
		{"a percent sign", machine{serial: "%41 B"}, "node_metal_odd-02"},
		{"what it might be mistaken for", machine{serial: "A B"}, ""},
		{"not ASCII", machine{serial: "sérial"}, "node_metal_odd-03"},
		{"Dell's composite", machine{serial: "F54P1G3", board: "/F54P1G3/CNIVC0014M0388/"}, "node_metal_dell-01"},
		{"Dell's board after a repair", machine{serial: "F54P1G3", board: "/F54P1G3/CNOTHER14M0388/"}, ""},
		{"upper case", machine{serial: "CZJ94X1234"}, "node_metal_lower-01"},
		{"spaces of the firmware", machine{serial: "PADDED01  "}, "node_metal_padded-01"},
		{"without them", machine{serial: "PADDED01"}, "node_metal_padded-01"},
		{"a UUID", machine{uuid: "4c4c4544-0042-4310-8031-b2c04f333334"}, "node_metal_uuid-01"},
		{"a UUID in the other byte order", machine{uuid: "44454c4c-4200-1043-8031-b2c04f333334"}, "node_metal_uuid-01"},
		{"a MAC", machine{mac: "0c:c4:7a:00:00:01"}, "node_metal_mac-01"},
		{"serial with its UUID", machine{serial: "UNIQUE01", uuid: "11223344-5566-7788-99aa-bbccddeeff99"}, "node_metal_both-01"},
		{"serial with another UUID (I1)", machine{serial: "UNIQUE01", uuid: "00000000-5566-7788-99aa-bbccddeeff99"}, ""},
		{"one node by board, another by serial (I1)", machine{serial: "czj94x1234", board: "ZM000001"}, ""},
		{"one node by board, another by MAC (I1)", machine{serial: chassis, board: "ZM000001", mac: "0c:c4:7a:00:00:01"}, ""},
		{"not marked install", machine{serial: "OFF0000001"}, ""},
		{"nothing at all", machine{}, ""},
		{"words of the script", machine{serial: "none", board: "none"}, ""},
	} {
		for _, platform := range []string{"efi", "pcbios"} {
			tc.machine.platform = platform
			got := follow(t, text, tc.machine, always)
			if got.node() != tc.want {
				t.Errorf("%s: %s, want %q", tc.name, got, tc.want)
			}
			exit := map[string]string{"efi": "1", "pcbios": "disk"}[platform]
			if tc.want == "" && got.exit != exit {
				t.Errorf("%s on %s: %s, want exit %s", tc.name, platform, got, exit)
			}
		}
	}
}

func TestADownloadIsTriedAgainAndThenGivenUp(t *testing.T) {
	t.Parallel()
	text, _ := script(t, node("node-01", func(n *inventory.Node) { n.Serial = "SERIAL01" }))
	m := machine{serial: "SERIAL01", platform: "efi"}
	if got := follow(t, text, m, func(failed int) bool { return failed == 3 }); got.node() == "" && got.failures != 3 {
		t.Errorf("%s after %d failures", got, got.failures)
	}
	if got := follow(t, text, m, func(int) bool { return false }); got.exit != "1" || got.failures != 11 {
		t.Errorf("%s after %d failures, want exit 1 after 11", got, got.failures)
	}
}

func TestWhatAScriptCannotBootIsTold(t *testing.T) {
	t.Parallel()
	shared := func(n *inventory.Node) { n.Serial = "SHARED01" }
	long := strings.Repeat("x=1 ", 1100)
	for _, tc := range []struct {
		name  string
		nodes []inventory.Node
		want  []string
	}{
		{"nothing to know it by", []inventory.Node{node("node-01", func(*inventory.Node) {})}, []string{"metal/node-01.yaml: metal/node-01 boots its own disk: it has no serial"}},
		{"a shared serial", []inventory.Node{node("node-01", shared), node("node-02", shared)}, []string{"share its serial SHARED01", "share its serial SHARED01"}},
		{"one board twice", []inventory.Node{
			node("node-01", func(n *inventory.Node) { n.BoardSerial = "ZM1ABC" }), node("node-02", func(n *inventory.Node) { n.BoardSerial = "zm1abc " }),
		}, []string{"another node has its boardSerial", "another node has its boardSerial"}},
		{"a placeholder", []inventory.Node{node("node-01", func(n *inventory.Node) { n.Serial = "To be filled by O.E.M." })}, []string{"no boardSerial, uuid or mac of its own"}},
		{"no schematic", []inventory.Node{node("node-01", func(n *inventory.Node) { n.Serial, n.SchematicID = "SERIAL01", "" })}, []string{"schematicID is not set"}},
		{"a signed image", []inventory.Node{node("node-01", func(n *inventory.Node) { n.Serial, n.SecureBoot = "SERIAL01", true })}, []string{"secureBoot needs the signed image"}},
		{"a bad version", []inventory.Node{node("node-01", func(n *inventory.Node) { n.Serial, n.TalosVersion = "SERIAL01", "v1 || exit" })}, []string{"talosVersion"}},
		{"an operator", []inventory.Node{node("node-01", func(n *inventory.Node) { n.Serial, n.KernelArgs = "SERIAL01", "a || exit" })}, []string{`"||" would end`}},
		{"a comment", []inventory.Node{node("node-01", func(n *inventory.Node) { n.Serial, n.KernelArgs = "SERIAL01", "a #b" })}, []string{"comment"}},
		{"a setting", []inventory.Node{node("node-01", func(n *inventory.Node) { n.Serial, n.KernelArgs = "SERIAL01", "a=${serial}" })}, []string{"${"}},
		{"too long", []inventory.Node{node("node-01", func(n *inventory.Node) { n.Serial, n.KernelArgs = "SERIAL01", long })}, []string{"bytes"}},
		{"not marked install", []inventory.Node{node("node-01", func(n *inventory.Node) { n.Install = false })}, nil},
	} {
		text, problems := script(t, tc.nodes...)
		if len(problems) != len(tc.want) {
			t.Errorf("%s: problems %v, want %q", tc.name, problems, tc.want)
			continue
		}
		for i, p := range problems {
			if !strings.Contains(p.String(), tc.want[i]) {
				t.Errorf("%s: %s, want %q", tc.name, p, tc.want[i])
			}
		}
		for _, n := range tc.nodes {
			if got := follow(t, text, machine{serial: n.Serial, board: n.BoardSerial, platform: "efi"}, always); got.exit != "1" {
				t.Errorf("%s: %s, want exit 1", tc.name, got)
			}
		}
	}
}

func TestSelectionLeavesOthersOutButStillKnowsTheirSerials(t *testing.T) {
	t.Parallel()
	nodes := []inventory.Node{
		node("node-01", func(n *inventory.Node) { n.Serial = "SHARED01" }),
		node("node-02", func(n *inventory.Node) { n.Serial, n.Cluster = "SHARED01", "other" }),
		node("node-03", func(n *inventory.Node) { n.Serial, n.Cluster = "OTHER001", "other" }),
	}
	text, problems, err := render.IPXE(render.Script{
		Nodes: nodes, AssetsURL: factory, Selected: func(n inventory.Node) bool { return n.Cluster == "metal" },
	})
	if err != nil || len(problems) != 1 || problems[0].Node != "metal/node-01" {
		t.Errorf("problems %v, error %v: want that node-01 shares its serial", problems, err)
	}
	if got := follow(t, text, machine{serial: "OTHER001"}, always); got.node() != "" {
		t.Errorf("a node of another cluster boots: %s", got)
	}
}

func TestAssetsURLs(t *testing.T) {
	t.Parallel()
	for url, good := range map[string]bool{
		"http://10.0.0.1:8080/talos/": true, "https://factory.talos.dev": true, "http://[fd00::1]:80": true,
		"": false, "ftp://x": false, "http://u:p@x": false, "http://x/?a=b": false, "http://x/a b": false, "http://x/${y}": false, "factory.talos.dev": false,
	} {
		text, _, err := render.IPXE(render.Script{Nodes: []inventory.Node{node("n", func(n *inventory.Node) { n.Serial = "SERIAL01" })}, AssetsURL: url})
		if (err == nil) != good {
			t.Errorf("%q: %v", url, err)
		}
		if err != nil && strings.Contains(err.Error(), "u:p@") {
			t.Errorf("the password is told: %v", err)
		}
		if good && !strings.Contains(text, "kernel "+strings.TrimRight(url, "/")+"/image/") {
			t.Errorf("%q is not in the script", url)
		}
	}
}

func TestTalosVariablesReachTalosAndNotIPXE(t *testing.T) {
	t.Parallel()
	text, problems := script(t, node("node-01", func(n *inventory.Node) {
		n.Serial, n.KernelArgs, n.IP = "SERIAL01", "talos.config=https://c.example/m?u=${uuid} quiet", ""
	}))
	got := follow(t, text, machine{serial: "SERIAL01"}, always)
	want := image + "kernel-amd64 initrd=initramfs.xz talos.config=https://c.example/m?u=%24%7Buuid%7D quiet"
	if diff := cmp.Diff(want, got.kernel); diff != "" || len(problems) > 0 {
		t.Error(diff, problems)
	}
}
