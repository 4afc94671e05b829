package main

import (
	"path/filepath"
	"strings"
	"testing"
)

const (
	noapicSchematic = "schematic: {customization: {extraKernelArgs: [noapic, nolapic]}}"
	noapicID        = "9cba8e32753f91a16c1837ab8abf356af021706ef284aef07380780177d9a06c"
)

// A schematic in the inventory is registered where the factory lacks it, when the
// first of its images is fetched.
func TestASchematicOfTheInventoryIsRegistered(t *testing.T) {
	t.Parallel()
	factory := newImageFactory(t)
	config := assetSite(t, factory.URL, "")
	nodes := filepath.Join(filepath.Dir(config), "nodes", "k8s")
	writeFile(t, filepath.Join(nodes, "node-1.yaml"), "serial: A1\nschematicID: null\n"+noapicSchematic+"\n")
	writeFile(t, filepath.Join(nodes, "node-2.yaml"), "serial: A2\nschematicID: null\n"+noapicSchematic+"\nsecureBoot: true\nmac: 0c:c4:7a:00:00:02\n")
	urls := provision(t, "assets", "list", "--config", config, "--cluster", "k8s", "--urls")
	base := factory.URL + "/image/" + noapicID + "/v1.9.5/"
	wants(t, urls, exitDone, base+"kernel-amd64\n", base+"initramfs-amd64.xz\n", base+"metal-amd64-secureboot-uki.efi\n")
	if lines := strings.Count(urls.out, "\n"); lines != 3 {
		t.Errorf("%d files, want 3:\n%s", lines, urls.out)
	}
	for range 2 {
		wants(t, provision(t, "assets", "pull", "--config", config, "--cluster", "k8s"), exitDone, noapicID, "metal-amd64-secureboot-uki.efi", "cached")
	}
	if n := factory.asked["/schematics"]; n != 1 {
		t.Errorf("the schematic was posted %d times", n)
	}
	// It is the inventory's, so it stays.
	wants(t, provision(t, "assets", "prune", "--config", config), exitDone, "files removed: 0")
}

func TestShowTellsTheIDOfASchematicAndWhereItIsFrom(t *testing.T) {
	t.Parallel()
	config := assetSite(t, "http://127.0.0.1:1", "")
	writeFile(t, filepath.Join(filepath.Dir(config), "nodes", "k8s", "node-1.yaml"), "secureBoot: true\nmac: 0c:c4:7a:00:00:02\nschematicID: null\n"+noapicSchematic+"\n")
	show := func(more ...string) result {
		return provision(t, append([]string{"inventory", "show", "--config", config, "--node", "node-1"}, more...)...)
	}
	r := show()
	wants(t, r, exitDone, "(that of the signed image)", `{"customization":{"extraKernelArgs":["noapic","nolapic"]}}`)
	for _, line := range strings.Split(r.out, "\n") {
		if strings.HasPrefix(line, "schematic") && !strings.Contains(line, "k8s/node-1.yaml:4") {
			t.Errorf("not said where it is from: %s", line)
		}
	}
	wants(t, r, exitDone, noapicID)
	wants(t, show("-o", "json", "--origin"), exitDone, `"schematicID": "`+noapicID+`"`, `"schematicID": {`)
	writeFile(t, filepath.Join(filepath.Dir(config), "nodes", "k8s", "node-1.yaml"), "serial: A1\n"+noapicSchematic+"\n")
	wants(t, provision(t, "inventory", "validate", "--config", config), exitUsage,
		"_defaults.yaml:2:14: error: node-1 has schematicID "+plainSchematic+", but the id of its schematic (k8s/node-1.yaml:2) is "+noapicID)
}
