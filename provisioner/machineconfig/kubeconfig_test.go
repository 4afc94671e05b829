package machineconfig_test

import (
	"strings"
	"testing"

	"github.com/talos-provision/provision/provisioner/machineconfig"
)

const fromNode = `apiVersion: v1
kind: Config
clusters:
- name: prod
  cluster: {server: "https://new:6443"}
users:
- name: admin@prod
  user: {client-key-data: new}
contexts:
- name: admin@prod
  context: {cluster: prod, user: admin@prod}
current-context: admin@prod
`

func TestAKubeconfigIsMergedByName(t *testing.T) {
	t.Parallel()
	const mine = `apiVersion: v1
kind: Config
# mine
preferences: {}
clusters:
- name: other
  cluster: {server: "https://other:6443"}
- name: prod
  cluster: {server: "https://old:6443"}
users:
- name: me
  user: {token: keep}
contexts: []
current-context: other
`
	got, err := machineconfig.MergeKubeconfig([]byte(mine), []byte(fromNode))
	if err != nil {
		t.Fatal(err)
	}
	contains(t, string(got), "https://other:6443", "https://new:6443", "token: keep", "client-key-data: new", "current-context: admin@prod", "# mine")
	if strings.Contains(string(got), "https://old") {
		t.Errorf("the old entry stayed:\n%s", got)
	}
	if got, err := machineconfig.MergeKubeconfig(nil, []byte(fromNode)); err != nil || string(got) != fromNode {
		t.Errorf("into nothing: %v, %s", err, got)
	}
}

func TestWhatIsNoKubeconfigIsNotTouched(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{{"hunter2", fromNode}, {"a: [", fromNode}, {fromNode, "hunter2: ["}, {fromNode, "hunter2: {}"}} {
		got, err := machineconfig.MergeKubeconfig([]byte(pair[0]), []byte(pair[1]))
		if err == nil || got != nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q and %q: error %v", pair[0], pair[1], err)
		}
	}
}
