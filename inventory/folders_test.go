package inventory_test

import "testing"

// Machine configs may live within the tree without being taken for nodes.
func TestFoldersThatAreSetAsideAreNotLookedInto(t *testing.T) {
	t.Parallel()
	loaded, findings := load(t, tree(t, map[string]string{
		"_configs/node-01.yaml": "machine: {token: secret}\n", "k8s/_configs/node-01.yaml": "[", "k8s/.git/x.yaml": "[",
		"k8s/node-01.yaml": "serial: S1\nmachineConfig: _configs/{{ .name }}.yaml\n",
	}))
	says(t, findings)
	if len(loaded.Nodes) != 1 || loaded.Nodes[0].MachineConfig != "_configs/{{ .name }}.yaml" {
		t.Errorf("nodes: %+v", loaded.Nodes)
	}
	if got := loaded.Nodes[0].Origin("machineConfig").String(); got != "k8s/node-01.yaml:2" {
		t.Errorf("machineConfig comes from %s", got)
	}
}
