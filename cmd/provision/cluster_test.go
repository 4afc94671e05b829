package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/loopback"
	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner/machineconfig"
)

const vanillaSchematic = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"

// clusterSecrets is one secrets.yaml for all tests: making its keys takes seconds.
var clusterSecrets = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "secrets")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	files, err := machineconfig.Cluster{Name: "prod", Endpoint: "https://10.20.0.10:6443", TalosVersion: "v1.13.9"}.Generate()
	if err != nil {
		return "", err
	}
	if err := files.Write(dir); err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(dir, machineconfig.SecretsFile))
	return string(text), err
})

// clusterSite is an inventory of a cluster called prod with a control plane node
// and a worker, on loopback addresses of its own.
type clusterSite struct {
	dir, inventory, secrets string
	hosts                   []string // of cp-1 and worker-1
}

func newClusterSite(t *testing.T) clusterSite {
	t.Helper()
	s := clusterSite{dir: t.TempDir()}
	s.inventory, s.secrets = filepath.Join(s.dir, "nodes"), filepath.Join(s.dir, "secrets.yaml")
	text, err := clusterSecrets()
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, s.secrets, text)
	if err := os.MkdirAll(filepath.Join(s.inventory, "prod"), 0o755); err != nil {
		t.Fatal(err)
	}
	network := loopback.Reserve(t, 100, 249).Addr().As4()[1]
	s.put(t, "_defaults.yaml", "talosVersion: v1.13.9\nschematicID: "+vanillaSchematic+"\nnetmask: 24\ninterface: eth0\n")
	for i, role := range []string{"controlplane", "worker"} {
		host := fmt.Sprintf("127.%d.0.%d", network, i+1)
		s.hosts = append(s.hosts, host)
		s.put(t, []string{"prod/cp-1.yaml", "prod/worker-1.yaml"}[i], "ip: "+host+"\nlabels: {role: "+role+"}\n")
	}
	return s
}

func (s clusterSite) put(t *testing.T, name, text string) {
	t.Helper()
	writeFile(t, filepath.Join(s.inventory, name), text)
}

// run runs a command on the inventory.
func (s clusterSite) run(t *testing.T, args ...string) result {
	t.Helper()
	return provision(t, append(args, "--inventory", s.inventory, "--log-level", "debug")...)
}

// init makes the files from the secrets and does what the command says with the inventory.
func (s clusterSite) init(t *testing.T, args ...string) result {
	t.Helper()
	r := s.run(t, append([]string{"cluster", "init", "prod", "--endpoint", "https://10.20.0.10:6443", "--secrets", s.secrets}, args...)...)
	if r.status != exitDone {
		t.Fatalf("status %d: %s", r.status, r.err)
	}
	_, after, _ := strings.Cut(r.out, "_defaults.yaml:\n\n")
	fields, _, found := strings.Cut(after, "\n\nand the role")
	if !found {
		t.Fatalf("the output does not say what to put into the inventory:\n%s", r.out)
	}
	s.put(t, "prod/_defaults.yaml", fields+"\n")
	return r
}

// What init prints, put into the inventory as it says, is a sound inventory with
// a config for each node.
func TestInitMakesAClusterThatTheInventoryCanUse(t *testing.T) {
	t.Parallel()
	s := newClusterSite(t)
	r := s.init(t, "--install-disk", "/dev/vda")
	for _, want := range []string{
		"wrote " + filepath.Join(s.dir, "configs/prod/controlplane.yaml"), "machineConfig: ../../configs/prod/{{ .labels.role }}.yaml",
		"talosconfig: ../../configs/prod/talosconfig", "- ../../configs/prod/node.yaml.tmpl", "Kubernetes 1.36.3", "metal-installer/" + vanillaSchematic + ":v1.13.9",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("output lacks %q:\n%s", want, r.out)
		}
	}
	if v := s.run(t, "inventory", "validate", "--strict"); v.status != exitDone || !strings.Contains(v.out, "nodes: 2, errors: 0, warnings: 0") {
		t.Errorf("validate: status %d\n%s%s", v.status, v.out, v.err)
	}
	tree, _, err := inventory.Load(s.inventory)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range tree.Nodes {
		c, ok, err := machineconfig.Source{Inventory: s.inventory}.Render(n)
		if err != nil || !ok || c.Hostname() != n.Name || c.ControlPlane() != (n.Name == "cp-1") {
			t.Errorf("%s: %v, error %v", n.Name, c, err)
		}
	}
	talosconfig := textOf(t, filepath.Join(s.dir, "configs/prod/talosconfig"))
	if !strings.Contains(talosconfig, s.hosts[0]) || !strings.Contains(talosconfig, s.hosts[1]) {
		t.Error("the talosconfig does not lead to the nodes")
	}
}

func textOf(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestInitForMachines(t *testing.T) {
	t.Parallel()
	s := newClusterSite(t)
	out := filepath.Join(s.inventory, "prod", "_configs")
	r := s.run(t, "cluster", "init", "prod", "--endpoint", "https://10.20.0.10:6443", "--secrets", s.secrets, "--out", out, "--kubernetes-version", "v1.35.1", "-o", "json")
	var got struct {
		Files             []string
		KubernetesVersion string
		Inventory         struct{ MachineConfig, Talosconfig string }
	}
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.status != exitDone {
		t.Fatalf("status %d, %v: %s%s", r.status, err, r.out, r.err)
	}
	if diff := cmp.Diff([]string{"controlplane.yaml", "node.yaml.tmpl", "talosconfig", "worker.yaml"}, got.Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if got.KubernetesVersion != "1.35.1" || got.Inventory.MachineConfig != "_configs/{{ .labels.role }}.yaml" || got.Inventory.Talosconfig != "_configs/talosconfig" {
		t.Errorf("got %+v", got)
	}
}

func TestInitRefusesWhatWouldDoHarm(t *testing.T) {
	t.Parallel()
	s := newClusterSite(t)
	base := []string{"cluster", "init", "prod", "--endpoint", "https://10.20.0.10:6443", "--secrets", s.secrets}
	for name, tc := range map[string]struct {
		args   []string
		status int
		want   string
	}{
		"among the nodes":   {append(base, "--out", filepath.Join(s.inventory, "prod", "configs")), exitUsage, "would be taken for nodes"},
		"the tree itself":   {append(base, "--out", s.inventory), exitUsage, "would be taken for nodes"},
		"no endpoint":       {[]string{"cluster", "init", "prod"}, exitUsage, "--endpoint https://HOST:6443"},
		"no version":        {[]string{"cluster", "init", "stage", "--endpoint", "https://10.20.0.10:6443", "--secrets", s.secrets}, exitUsage, "--talos-version v1.13.9"},
		"kubernetes":        {append(base, "--kubernetes-version", "1.30.0"), exitUsage, "Talos 1.13 runs Kubernetes 1.31 to 1.36"},
		"unknown output":    {append(base, "-o", "yaml"), exitUsage, "table or json"},
		"secrets not there": {append(base, "--secrets", "/none"), exitUsage, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if r := s.run(t, tc.args...); r.status != tc.status || !strings.Contains(r.err, tc.want) || r.out != "" {
				t.Errorf("status %d, want %d; error %q lacks %q; output %q", r.status, tc.status, r.err, tc.want, r.out)
			}
		})
	}
	t.Cleanup(func() {
		if _, err := os.Stat(filepath.Join(s.dir, "configs")); err == nil {
			t.Error("something was written")
		}
	})
}

// Keys of a cluster that exists are neither overwritten nor made anew unasked.
func TestInitLeavesAClusterThatExists(t *testing.T) {
	t.Parallel()
	s := newClusterSite(t)
	dir := filepath.Join(s.dir, "configs", "prod")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "secrets.yaml"), textOf(t, s.secrets))
	r := s.run(t, "cluster", "init", "prod", "--endpoint", "https://10.20.0.10:6443")
	if r.status != exitRefused || !strings.Contains(r.err, "give it with --secrets") {
		t.Errorf("status %d: %s", r.status, r.err)
	}
	s.secrets = filepath.Join(dir, "secrets.yaml")
	s.init(t)
	if r := s.run(t, "cluster", "init", "prod", "--endpoint", "https://10.20.0.10:6443", "--secrets", s.secrets); r.status != exitRefused || !strings.Contains(r.err, "nothing was written") {
		t.Errorf("again: status %d: %s", r.status, r.err)
	}
}

func TestInitTellsNodesThatDiffer(t *testing.T) {
	t.Parallel()
	s := newClusterSite(t)
	s.put(t, "prod/worker-1.yaml", "talosVersion: v1.12.11\n")
	r := s.run(t, "cluster", "init", "prod", "--endpoint", "https://10.20.0.10:6443")
	if r.status != exitUsage || !strings.Contains(r.err, "prod/worker-1 has another talosVersion than prod/cp-1: give --talos-version") {
		t.Errorf("status %d: %s", r.status, r.err)
	}
}

var longText = regexp.MustCompile(`[A-Za-z0-9+/=._-]{16,}`)

// keyMaterial is every value of secrets.yaml that looks like a key or a token,
// certificates left out: those are public.
func keyMaterial(t *testing.T, secrets string) []string {
	t.Helper()
	var keys []string
	for line := range strings.SplitSeq(secrets, "\n") {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found && name != "crt" {
			keys = append(keys, longText.FindAllString(value, -1)...)
		}
	}
	if len(keys) < 8 {
		t.Fatalf("only %d keys in secrets.yaml", len(keys))
	}
	return keys
}

// I9: nothing of secrets.yaml is in what any command prints, errors and debug
// logs included.
func TestNoCommandShowsTheKeysOfACluster(t *testing.T) {
	t.Parallel()
	s := newClusterSite(t)
	keys := keyMaterial(t, textOf(t, s.secrets))
	var shown strings.Builder
	run := func(args ...string) {
		r := s.run(t, args...)
		shown.WriteString(r.out + r.err)
	}
	r := s.init(t)
	shown.WriteString(r.out + r.err)
	configs := filepath.Join(s.dir, "configs", "prod")
	run("cluster", "init", "prod", "--endpoint", "https://10.20.0.10:6443", "--secrets", s.secrets)
	run("cluster", "init", "prod", "--endpoint", "https://10.20.0.10:6443", "--secrets", filepath.Join(configs, "controlplane.yaml"))
	run("cluster", "init", "prod", "--endpoint", "https://10.20.0.10:6443", "--secrets", s.secrets, "--out", filepath.Join(s.dir, "b"), "-o", "json")
	run("inventory", "show", "--node", "cp-1")
	run("inventory", "validate")
	run("cluster", "health", "prod", "--timeout", "1s")
	run("cluster", "kubeconfig", "prod", "--out", filepath.Join(s.dir, "k"))
	for _, broken := range []func(string) string{
		func(text string) string { return text[:len(text)/2] },
		func(text string) string { return strings.Replace(text, "token:", "tokken:", 1) },
		func(text string) string { return strings.Replace(text, "token:", "token: [", 1) },
		func(text string) string {
			return strings.Replace(text, "type: controlplane", "type: {{ .nothing }}", 1)
		},
		func(text string) string { return strings.ReplaceAll(text, "key:", "kee:") },
	} {
		text := broken(textOf(t, filepath.Join(configs, "controlplane.yaml")))
		writeFile(t, filepath.Join(configs, "broken.yaml"), text)
		writeFile(t, filepath.Join(configs, "broken.yaml.tmpl"), text)
		for _, fields := range []string{
			"machineConfig: ../../configs/prod/broken.yaml\n", "machineConfig: ../../configs/prod/broken.yaml.tmpl\n",
			"configPatches: [../../configs/prod/broken.yaml]\n", "machineConfig: ../../configs/prod/broken.yaml\nconfigPatches: [../../configs/prod/node.yaml.tmpl]\n",
			"talosconfig: ../../configs/prod/broken.yaml\n", "machineConfig: " + text[:300] + "\n",
		} {
			s.put(t, "prod/cp-1.yaml", "ip: "+s.hosts[0]+"\nlabels: {role: controlplane}\n"+fields)
			run("inventory", "validate")
			run("cluster", "health", "prod", "--timeout", "1s")
		}
	}
	if !strings.Contains(shown.String(), "tokken") || !strings.Contains(shown.String(), "no value for nothing") {
		t.Error("the test does not reach the errors that it is for")
	}
	for _, key := range keys {
		if strings.Contains(shown.String(), key) {
			t.Errorf("a key of the cluster is shown: %.4s…", key)
		}
	}
}
