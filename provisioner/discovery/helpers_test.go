package discovery

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/talos-provision/provision/inventory"
)

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// load loads an inventory that must be free of errors.
func load(t *testing.T, dir string) *inventory.Tree {
	t.Helper()
	tree, findings, err := inventory.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	return tree
}
