package inventory_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory"
)

// FuzzLoad reads a tree of three files. Whatever they hold, loading ends, names
// real places, keeps secrets, and gives the same answer again.
func FuzzLoad(f *testing.F) {
	f.Add("netmask: 255.255.255.0\n", "serial: 0123\nip: 10.0.0.1\ninstall: true\n", "serial: 0123\n")
	f.Add("bmc: {username: a, passwordEnv: P}\nlabels: {a: b}\n", "bmc: {address: b1, insecure: true}\nlabels: null\n", "bmc: null\nmacs: [0c:c4:7a:00:00:01]\nmac: x\n")
	f.Add("a: &a [*a]\n", "<<: *x\n", "? {a: b}\n: c\n")
	f.Add("schematic: {customization: {extraKernelArgs: [1e3, ~], meta: [{key: 0x0a, value: a}], bootloader: none}}\nsecureBoot: true\n", "schematic: &a {overlay: {options: {a: {1: *a}}}}\n", "schematic: null\nschematicID: x\nuuid: y\n")
	f.Add("---\n---\n", "\xff\xfe", "serial: !!binary aGk=\n")
	f.Add("ip: 10.0.0.1\nnetmask: 33\ngateway: fd00::1\nvlan: 1\ninterface: e\n", "ip: ::\nnetmask: ::\n", "kernelArgs: |\n  a\n  siderolink.api=b\n")
	f.Add("bmc: {password: hunter2}", "bmc: {address: 'https://a:hunter2@b'}", "bmc: {passwordEnv: '-hunter2'}")
	f.Fuzz(func(t *testing.T, defaults, n1, n2 string) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "c"), 0o755); err != nil {
			t.Fatal(err)
		}
		contents := map[string]string{"_defaults.yaml": defaults, "c/n1.yaml": n1, "c/n2.yaml": n2}
		for name, content := range contents {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		loaded, findings, err := inventory.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, finding := range findings {
			content, known := contents[finding.File]
			if !known || finding.Line < 0 || finding.Line > 2+strings.Count(content, "\n")+strings.Count(content, "\r")+strings.Count(content, "\u0085")+strings.Count(content, "\u2028")+strings.Count(content, "\u2029") || finding.Message == "" {
				t.Errorf("finding at no real place: %+v", finding)
			}
		}
		for _, n := range loaded.Nodes {
			line, err := n.KernelCommandLine()
			if err == nil && strings.ContainsAny(line, "\r\n") {
				t.Errorf("command line of several lines: %q", line)
			}
			if err != nil && !findings.HasErrors() {
				t.Errorf("no finding explains %v", err)
			}
			if _, err := json.Marshal(n); err != nil {
				t.Error(err)
			}
			if !utf8.ValidString(n.Serial) {
				t.Errorf("serial %q is not text", n.Serial)
			}
		}
		again, findingsAgain, err := inventory.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(loaded.Nodes, again.Nodes) + cmp.Diff(findings, findingsAgain); diff != "" {
			t.Errorf("loaded again, the tree differs:\n%s", diff)
		}
	})
}
