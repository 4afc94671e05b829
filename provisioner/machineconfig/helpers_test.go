package machineconfig_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner/machineconfig"
)

const vanilla = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"

// site is a folder with an inventory in nodes/ and what its nodes name.
type site struct {
	dir    string
	source machineconfig.Source
}

// newSite writes files, whose paths begin at the folder that holds nodes/.
func newSite(t *testing.T, files map[string]string) site {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(dir, filepath.FromSlash(name)), text)
	}
	return site{dir, machineconfig.Source{Inventory: filepath.Join(dir, "nodes")}}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// nodes loads the inventory, which must be sound but for warnings.
func (s site) nodes(t *testing.T) []inventory.Node {
	t.Helper()
	tree, findings, err := inventory.Load(s.source.Inventory)
	if err != nil || findings.HasErrors() {
		t.Fatalf("inventory: %v\n%s", err, findings)
	}
	return tree.Nodes
}

// one is the only node of the inventory.
func (s site) one(t *testing.T) inventory.Node {
	t.Helper()
	nodes := s.nodes(t)
	if len(nodes) != 1 {
		t.Fatalf("%d nodes", len(nodes))
	}
	return nodes[0]
}

// render renders the only node, which must work.
func (s site) render(t *testing.T) machineconfig.Config {
	t.Helper()
	c, ok, err := s.source.Render(s.one(t))
	if err != nil || !ok {
		t.Fatalf("render: ok %v, error %v", ok, err)
	}
	return c
}

// refused is the error of rendering the only node.
func (s site) refused(t *testing.T) string {
	t.Helper()
	c, ok, err := s.source.Render(s.one(t))
	if err == nil || ok || c.Data() != nil {
		t.Fatalf("rendered: ok %v, error %v", ok, err)
	}
	return err.Error()
}

// bundle is the text of one secrets.yaml: making its keys takes seconds.
var bundle = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "secrets")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	files, err := machineconfig.Cluster{Name: "c", Endpoint: "https://10.0.0.1:6443", TalosVersion: "v1.13.9"}.Generate()
	if err != nil {
		return "", err
	}
	if err := files.Write(dir); err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(dir, machineconfig.SecretsFile))
	return string(text), err
})

// secretsFile is a file with those secrets.
func secretsFile(t *testing.T) string {
	t.Helper()
	text, err := bundle()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "secrets.yaml")
	write(t, file, text)
	return file
}

// generated are the files of a cluster, by name.
func generated(t *testing.T, c machineconfig.Cluster) map[string]string {
	t.Helper()
	if c.Name == "" {
		c.Name = "k8s-prod"
	}
	if c.Endpoint == "" {
		c.Endpoint = "https://10.20.0.10:6443"
	}
	if c.InstallDisk == "" {
		c.InstallDisk = "/dev/sda"
	}
	if c.Secrets == "" {
		c.Secrets = secretsFile(t)
	}
	files, err := c.Generate()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "out")
	if err := files.Write(dir); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, name := range files.Names() {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(text)
	}
	return texts
}

func contains(t *testing.T, text string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
}
