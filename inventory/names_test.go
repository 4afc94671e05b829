package inventory_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory"
)

// namesTree writes an inventory of these files.
func namesTree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The names are those that a load gives, however broken other files are.
func TestNamesAreThoseOfTheLoadedInventory(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"folders":               {"a/n1.yaml": "serial: S1\n", "a/b/n2.yml": "serial: S2\n", "n0.yaml": "cluster: c\nserial: S0\n"},
		"a cluster by defaults": {"site/_defaults.yaml": "ntp: ntp.example\ncluster: k8s # ours\n", "site/r1/n1.yaml": "serial: S1\n", "other/n2.yaml": "serial: S2\n"},
		"nearest defaults":      {"_defaults.yaml": "cluster: all\n", "x/_defaults.yml": "cluster: 'near'\n", "x/n1.yaml": "serial: S1\n", "y/n2.yaml": "serial: S2\n"},
		"a node's own cluster":  {"x/n1.yaml": "cluster: \"own\"\nserial: S1\n", "x/n2.yaml": "serial: S2\n# cluster: no\n"},
		"what is no node":       {"a/n1.yaml": "serial: S1\n", "a/_old.yaml": "serial: S2\n", "_configs/n3.yaml": "x: 1\n", ".git/n4.yaml": "x: 1\n", "a/README.md": "cluster: no\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := namesTree(t, files)
			tree, findings, err := inventory.Load(dir)
			if err != nil || findings.HasErrors() {
				t.Fatal(err, findings)
			}
			want := make([]inventory.Name, 0, len(tree.Nodes))
			for _, n := range tree.Nodes {
				want = append(want, inventory.Name{Cluster: n.Cluster, Node: n.Name})
			}
			got, err := inventory.Names(dir)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("error %v, names (-loaded +got):\n%s", err, diff)
			}
		})
	}
	broken := namesTree(t, map[string]string{"a/n1.yaml": "serial: [\n", "a/n2.yaml": "cluster: b\n\t{", "a/_defaults.yaml": ": :\n"})
	got, err := inventory.Names(broken)
	if diff := cmp.Diff([]inventory.Name{{Cluster: "a", Node: "n1"}, {Cluster: "b", Node: "n2"}}, got); err != nil || diff != "" {
		t.Errorf("of broken files: error %v, names (-want +got):\n%s", err, diff)
	}
	if _, err := inventory.Names(filepath.Join(broken, "none")); err == nil {
		t.Error("a folder that is not there has names")
	}
}
