package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/pxe/httpboot"
)

// imageFactory is an Image Factory that counts what it is asked for. It serves
// images of plainSchematic, and of schematics that were posted.
type imageFactory struct {
	*httptest.Server
	mu    sync.Mutex
	asked map[string]int
	known map[string]bool
}

const plainSchematic = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"

func newImageFactory(t *testing.T) *imageFactory {
	t.Helper()
	f := &imageFactory{asked: map[string]int{}, known: map[string]bool{plainSchematic: true}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *imageFactory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[r.URL.Path]++
	if r.Method == http.MethodPost {
		text, _ := io.ReadAll(r.Body)
		id := fmt.Sprintf("%x", sha256.Sum256(text))
		f.known[id] = true
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]string{"id": id})
		return
	}
	parts := strings.Split(r.URL.Path, "/")
	if len(parts) != 5 || !f.known[parts[2]] {
		http.NotFound(w, r)
		return
	}
	content := "MZ" + parts[3] // the kernel is the same in all schematics
	if strings.HasPrefix(parts[4], "initramfs") {
		content = "\x28\xb5\x2f\xfd" + r.URL.Path
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", fmt.Sprint(100*len(content)))
	_, _ = io.WriteString(w, strings.Repeat(content, 100))
}

// assetSite is a configuration with an inventory of two nodes and one that is not installed.
func assetSite(t *testing.T, factory, extra string) (config string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"nodes/_defaults.yaml":  "talosVersion: v1.9.5\nschematicID: " + plainSchematic + "\ninstall: true\nkernelArgs: talos.platform=metal slab_nomerge pti=on\n",
		"nodes/k8s/node-1.yaml": "serial: A1\n",
		"nodes/k8s/node-2.yaml": "serial: A2\n",
		"nodes/k8s/node-3.yaml": "serial: A3\ninstall: false\ntalosVersion: v1.10.4\n",
		"provision.yaml":        fmt.Sprintf("inventory: %s\nassets:\n  factory: %s\n  cache: %s\n%s", filepath.Join(dir, "nodes"), factory, filepath.Join(dir, "cache"), extra),
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, path, text)
	}
	return filepath.Join(dir, "provision.yaml")
}

func wants(t *testing.T, r result, status int, texts ...string) {
	t.Helper()
	if r.status != status {
		t.Errorf("status %d, want %d", r.status, status)
	}
	for _, text := range texts {
		if !strings.Contains(r.out+r.err, text) {
			t.Errorf("output lacks %q:\n%s%s", text, r.out, r.err)
		}
	}
}

// TestAssetsFromTheFactoryToAnAirGappedSite goes the way of docs/assets.md.
func TestAssetsFromTheFactoryToAnAirGappedSite(t *testing.T) {
	t.Parallel()
	factory := newImageFactory(t)
	online := assetSite(t, factory.URL, "")

	wants(t, provision(t, "assets", "list", "--config", online, "--cluster", "k8s"), exitDone, "kernel-amd64", "initramfs-amd64.xz", "not cached", "0 B in ")
	urls := provision(t, "assets", "list", "--config", online, "--cluster", "k8s", "--urls")
	base := factory.URL + "/image/" + plainSchematic + "/v1.9.5/"
	if diff := cmp.Diff(base+"initramfs-amd64.xz\n"+base+"kernel-amd64\n", urls.out); diff != "" {
		t.Error(diff)
	}
	for range 2 { // the second finds everything there
		wants(t, provision(t, "assets", "pull", "--config", online, "--cluster", "k8s"), exitDone, "kernel-amd64", "initramfs-amd64.xz", "cached")
	}
	for path, n := range factory.asked {
		if n != 1 {
			t.Errorf("%s was asked for %d times", path, n)
		}
	}
	if len(factory.asked) != 2 {
		t.Errorf("two nodes with one image made %d requests: %v", len(factory.asked), factory.asked)
	}
	var listed struct {
		Files []asset `json:"files"`
		Used  int64   `json:"used"`
	}
	r := provision(t, "assets", "list", "--config", online, "-o", "json")
	if err := json.Unmarshal([]byte(r.out), &listed); err != nil || len(listed.Files) != 2 || !listed.Files[0].Cached || listed.Used == 0 {
		t.Errorf("error %v, list %s", err, r.out)
	}

	offline := assetSite(t, "http://127.0.0.1:1", "")
	wants(t, provision(t, "assets", "pull", "--config", offline, "--cluster", "k8s"), exitFailed, "FAILED", "connection refused", "check assets.factory")
	carried := filepath.Join(filepath.Dir(online), "cache")
	wants(t, provision(t, "assets", "import", "--config", offline, carried), exitDone, "imported: 2, already there: 0, skipped: 0, failed: 0")
	wants(t, provision(t, "assets", "import", "--config", offline, carried), exitDone, "imported: 0, already there: 2")
	wants(t, provision(t, "assets", "pull", "--config", offline, "--cluster", "k8s"), exitDone, "cached")

	wants(t, provision(t, "assets", "verify", "--config", offline), exitDone, "kernel-amd64: ok", "files: 2, damaged: 0")
	kernel := filepath.Join(filepath.Dir(offline), "cache", plainSchematic, "v1.9.5", "kernel-amd64")
	writeFile(t, kernel, "MZ something else")
	wants(t, provision(t, "assets", "verify", "--config", offline), exitFailed, "kernel-amd64: DAMAGED: its SHA-256 is", "files: 2, damaged: 1")
}

func TestAssetsOfASchematicThatTheFactoryDoesNotKnow(t *testing.T) {
	t.Parallel()
	factory := newImageFactory(t)
	config := assetSite(t, factory.URL, "")
	file := filepath.Join(t.TempDir(), "schematic.yaml")
	writeFile(t, file, "customization:\n  extraKernelArgs: [noapic, nolapic]\n")
	const id = "9cba8e32753f91a16c1837ab8abf356af021706ef284aef07380780177d9a06c"
	image := []string{"--config", config, "--schematic", file, "--talos-version", "v1.9.5"}
	wants(t, provision(t, append([]string{"assets", "list", "--urls"}, image...)...), exitDone, "/image/"+id+"/v1.9.5/kernel-amd64")
	wants(t, provision(t, append([]string{"assets", "pull"}, image...)...), exitDone, id, "cached")
	if n := factory.asked["/schematics"]; n != 1 {
		t.Errorf("the schematic was posted %d times", n)
	}
	wants(t, provision(t, "assets", "pull", "--config", config, "--schematic", id, "--talos-version", "v1.9.5", "--secure-boot"), exitDone, "metal-amd64-secureboot-uki.efi")
	wants(t, provision(t, "assets", "pull", "--config", config, "--cluster", "k8s"), exitDone)
	kernel, err := os.Stat(filepath.Join(filepath.Dir(config), "cache", id, "v1.9.5", "kernel-amd64"))
	if err != nil {
		t.Fatal(err)
	}
	same, err := os.Stat(filepath.Join(filepath.Dir(config), "cache", plainSchematic, "v1.9.5", "kernel-amd64"))
	if err != nil || !os.SameFile(kernel, same) {
		t.Errorf("the kernel, which does not depend on the schematic, is stored twice (%v)", err)
	}
}

func TestPruneKeepsWhatTheInventoryNeeds(t *testing.T) {
	t.Parallel()
	factory := newImageFactory(t)
	config := assetSite(t, factory.URL, "")
	for _, version := range []string{"v1.7.0", "v1.10.4", "v1.9.5"} {
		wants(t, provision(t, "assets", "pull", "--config", config, "--schematic", plainSchematic, "--talos-version", version), exitDone)
	}
	prune := func(args ...string) result {
		return provision(t, append([]string{"assets", "prune", "--config", config}, args...)...)
	}
	wants(t, prune("--unused-for", "1h"), exitDone, "files removed: 0")
	wants(t, prune("--dry-run"), exitDone, "would remove "+plainSchematic+"/v1.7.0/kernel-amd64", "files that would be removed: 2")
	r := prune()
	wants(t, r, exitDone, "removed "+plainSchematic+"/v1.7.0/kernel-amd64", "files removed: 2")
	if strings.Contains(r.out, "v1.10.4") || strings.Contains(r.out, "v1.9.5") {
		t.Errorf("a file of the inventory went, also of a node that is not installed:\n%s", r.out)
	}
	wants(t, prune("--all", "-o", "json"), exitDone, `"version": "v1.10.4"`, `"freed": `)
	wants(t, provision(t, "assets", "list", "--config", config), exitDone, "0 B in ")
}

func TestMistakesWithAssetsAreTold(t *testing.T) {
	t.Parallel()
	factory := newImageFactory(t)
	config := assetSite(t, factory.URL, "  quota: 1KiB\nhttp: {maxTransfers: 4}\n")
	for name, tc := range map[string]struct {
		args   []string
		status int
		want   string
	}{
		"no cluster":           {[]string{"pull"}, exitUsage, "name the cluster"},
		"no such cluster":      {[]string{"pull", "--cluster", "k9s"}, exitUsage, "k9s"},
		"nothing to install":   {[]string{"pull", "--cluster", "k8s", "--node", "node-3"}, exitUsage, "no node of this selection is marked install"},
		"half an image":        {[]string{"pull", "--talos-version", "v1.9.5"}, exitUsage, "go together"},
		"no such schematic":    {[]string{"pull", "--schematic", "./nothing.yaml", "--talos-version", "v1.9.5"}, exitUsage, "no such file"},
		"not a schematic":      {[]string{"pull", "--schematic", "abc", "--talos-version", "v1.9.5"}, exitUsage, "64 lower-case hex"},
		"no Talos version":     {[]string{"pull", "--schematic", plainSchematic, "--talos-version", "1.9"}, exitUsage, "form v1.13.9"},
		"over quota":           {[]string{"pull", "--cluster", "k8s"}, exitFailed, "assets.quota is 1.0 KiB"},
		"nothing to import":    {[]string{"import", t.TempDir()}, exitFailed, "imported: 0"},
		"import of what is no": {[]string{"import", config}, exitFailed, "not the name of a boot file"},
		"import of nothing":    {[]string{"import"}, exitUsage, "requires at least 1 arg"},
		"negative time":        {[]string{"prune", "--unused-for", "-1h"}, exitUsage, "give a time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wants(t, provision(t, append(append([]string{"assets"}, tc.args...), "--config", config)...), tc.status, tc.want)
		})
	}
	for text, want := range map[string]string{"assets: {quota: much}": `"much" is not a size`, "http: {maxTransfers: -1}": "http.maxTransfers is -1"} {
		file := filepath.Join(t.TempDir(), "provision.yaml")
		writeFile(t, file, text)
		wants(t, provision(t, "assets", "list", "--config", file), exitUsage, want)
	}
}

// TestAnUnknownMachineIsAFileThatTheInventoryTakes joins what a machine sent to
// the rules of the inventory.
func TestAnUnknownMachineIsAFileThatTheInventoryTakes(t *testing.T) {
	t.Parallel()
	for name, query := range map[string]string{
		"all":          "serial=S123&board-serial=BRD%231&uuid=7a1e0000-0000-4000-8000-000000000001&mac=0c-c4-7a-00-00-02&nic=0c-c4-7a-00-00-01&arch=x86_64&platform=efi&manufacturer=Acme&product=R1&asset=7",
		"placeholders": "serial=Default%20string&uuid=ffffffff-ffff-ffff-ffff-ffffffffffff&mac=0c-c4-7a-00-00-02&arch=arm64",
		"odd serial":   "serial=0012345&mac=00-00-00-00-00-00",
	} {
		dir := t.TempDir()
		r := httpboot.ParseRequest(query, netip.MustParseAddr("127.0.0.9"))
		if err := os.Mkdir(filepath.Join(dir, "new"), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, "new", "node-1.yaml"), r.InventoryYAML())
		tree, findings, err := inventory.Load(dir)
		if err != nil || findings.HasErrors() || len(tree.Nodes) != 1 {
			t.Fatalf("%s: error %v, findings %v\n%s", name, err, findings, r.InventoryYAML())
		}
		if n := tree.Nodes[0]; n.Install || len(n.MACs) != len(r.MACs()) {
			t.Errorf("%s: node %+v", name, n)
		}
	}
}
