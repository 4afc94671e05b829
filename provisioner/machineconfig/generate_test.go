package machineconfig_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	machineapi "github.com/siderolabs/talos/pkg/machinery/api/machine"
	clientconfig "github.com/siderolabs/talos/pkg/machinery/client/config"
	"github.com/siderolabs/talos/pkg/machinery/compatibility"
	"github.com/siderolabs/talos/pkg/machinery/config/configloader"
	"github.com/siderolabs/talos/pkg/machinery/config/generate/secrets"
	"github.com/siderolabs/talos/pkg/machinery/config/validation"

	"github.com/talos-provision/provision/provisioner/machineconfig"
)

// metal is how Talos judges a config for a machine that is installed on a disk.
type metal struct{}

func (metal) String() string        { return "metal" }
func (metal) RequiresInstall() bool { return true }
func (metal) InContainer() bool     { return false }

var _ validation.RuntimeMode = metal{}

var talosVersions = []string{"v1.9.5", "v1.10.9", "v1.11.6", "v1.12.11", "v1.13.9", "v1.14.1"}

// What we generate for each version of Talos loads, is what the version runs, and
// has nothing that we would complain about ourselves.
func TestGeneratedConfigsSuitTheirVersionOfTalos(t *testing.T) {
	t.Parallel()
	for _, version := range talosVersions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			files := generated(t, machineconfig.Cluster{TalosVersion: version})
			defaults := "talosVersion: " + version + "\nschematicID: " + vanilla + "\nmachineConfig: ../configs/{{ .labels.role }}.yaml\n" +
				"configPatches: [../configs/node.yaml.tmpl]\ntalosconfig: ../configs/talosconfig\nnetmask: 255.255.255.0\ngateway: 10.20.0.1\ninterface: eth0\ndns0: 1.1.1.1\nntp: 10.20.0.1\n"
			tree := map[string]string{
				"nodes/_defaults.yaml":         defaults,
				"nodes/k8s-prod/node-01.yaml":  "ip: 10.20.0.11\nlabels: {role: controlplane}\n",
				"nodes/k8s-prod/worker-1.yaml": "ip: 10.20.0.12\nvlan: 7\nlabels: {role: worker}\n",
			}
			for name, text := range files {
				tree["configs/"+name] = text
			}
			s := newSite(t, tree)
			if findings := s.source.Check(s.nodes(t)); len(findings) > 0 {
				t.Errorf("findings:\n%s", findings)
			}
			for _, n := range s.nodes(t) {
				c, _, err := s.source.Render(n)
				if err != nil {
					t.Fatal(err)
				}
				if got, want := c.ControlPlane(), n.Name == "node-01"; got != want {
					t.Errorf("%s: control plane is %v", n.Name, got)
				}
				want := []string{n.Name, "https://10.20.0.10:6443", "k8s-prod", machineconfig.InstallerImage(version, vanilla, false), "/dev/sda"}
				got := []string{c.Hostname(), c.Endpoint(), c.ClusterName(), c.Install().Image, c.Install().Disk}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", n.Name, diff)
				}
				provider, err := configloader.NewFromBytes(c.Data())
				if err != nil {
					t.Fatalf("%s: %v", n.Name, err)
				}
				if _, err := provider.Validate(metal{}); err != nil {
					t.Errorf("%s: Talos refuses it: %v", n.Name, err)
				}
				contains(t, string(c.Data()), n.IP+"/24", "10.20.0.1", "1.1.1.1")
			}
		})
	}
}

// A node rejects a config whose Kubernetes it does not run, but only when it is up.
func TestKubernetesVersionsAreThoseThatTalosRuns(t *testing.T) {
	t.Parallel()
	for _, version := range talosVersions {
		kube, err := machineconfig.DefaultKubernetesVersion(version)
		if err != nil {
			t.Fatal(err)
		}
		if version == "v1.14.1" {
			continue // newer than the library
		}
		talos, err := compatibility.ParseTalosVersion(&machineapi.VersionInfo{Tag: version})
		if err != nil {
			t.Fatal(err)
		}
		for _, candidate := range []string{kube, "1.26.9", "1.27.0", "1.28.1", "1.29.0", "1.30.0", "1.31.0", "1.32.9", "1.33.0", "1.34.0", "1.35.0", "1.36.0", "1.37.0"} {
			parsed, err := compatibility.ParseKubernetesVersion(candidate)
			if err != nil {
				t.Fatal(err)
			}
			wanted := parsed.SupportedWith(talos) == nil
			err = machineconfig.Cluster{Name: "c", Endpoint: "https://k8s.example.com:6443", TalosVersion: version, KubernetesVersion: candidate}.Check()
			if got := err == nil; got != wanted {
				t.Errorf("Talos %s with Kubernetes %s: accepted is %v, Talos says %v (%v)", version, candidate, got, wanted, err)
			}
			if candidate == kube && !wanted {
				t.Errorf("the default for Talos %s, %s, is not supported by it", version, kube)
			}
		}
	}
}

func TestClustersThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	good := machineconfig.Cluster{Name: "c", Endpoint: "https://10.0.0.1:6443", TalosVersion: "v1.13.9"}
	for name, tc := range map[string]struct {
		change func(*machineconfig.Cluster)
		want   string
	}{
		"name":             {func(c *machineconfig.Cluster) { c.Name = "K8s Prod" }, "cannot be a cluster's name"},
		"http":             {func(c *machineconfig.Cluster) { c.Endpoint = "http://10.0.0.1:6443" }, "like https://10.20.0.10:6443"},
		"no scheme":        {func(c *machineconfig.Cluster) { c.Endpoint = "10.0.0.1:6443" }, "like https://10.20.0.10:6443"},
		"password":         {func(c *machineconfig.Cluster) { c.Endpoint = "https://u:hunter2@10.0.0.1" }, "like https://10.20.0.10:6443"},
		"loopback":         {func(c *machineconfig.Cluster) { c.Endpoint = "https://127.0.0.1:6443" }, "loopback"},
		"talos":            {func(c *machineconfig.Cluster) { c.TalosVersion = "v1.8.0" }, "from v1.9 to v1.14"},
		"no talos":         {func(c *machineconfig.Cluster) { c.TalosVersion = "" }, "from v1.9 to v1.14"},
		"kubernetes":       {func(c *machineconfig.Cluster) { c.KubernetesVersion = "1.37.0" }, "Talos 1.13 runs Kubernetes 1.31 to 1.36"},
		"kubernetes word":  {func(c *machineconfig.Cluster) { c.KubernetesVersion = "latest" }, "like 1.36.3"},
		"disk":             {func(c *machineconfig.Cluster) { c.InstallDisk = "sda" }, "like /dev/sda"},
		"no secrets there": {func(c *machineconfig.Cluster) { c.Secrets = "/does/not/exist" }, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := good
			tc.change(&c)
			_, err := c.Generate()
			if err == nil {
				t.Fatal("accepted")
			}
			contains(t, err.Error(), tc.want)
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error repeats a password: %v", err)
			}
		})
	}
}

func TestTalosconfigLeadsToTheNodes(t *testing.T) {
	t.Parallel()
	files := generated(t, machineconfig.Cluster{TalosVersion: "v1.13.9", Endpoints: []string{"10.0.0.1"}, Nodes: []string{"10.0.0.1", "10.0.0.2"}})
	c, err := clientconfig.FromString(files[machineconfig.TalosconfigFile])
	if err != nil {
		t.Fatal(err)
	}
	context := c.Contexts[c.Context]
	if c.Context != "k8s-prod" || !slices.Equal(context.Endpoints, []string{"10.0.0.1"}) || !slices.Equal(context.Nodes, []string{"10.0.0.1", "10.0.0.2"}) {
		t.Errorf("context %s: endpoints %v, nodes %v", c.Context, context.Endpoints, context.Nodes)
	}
}

// The secrets of a cluster make the same cluster again.
func TestSecretsAreUsedAgain(t *testing.T) {
	t.Parallel()
	file := secretsFile(t)
	first := generated(t, machineconfig.Cluster{TalosVersion: "v1.12.11", Secrets: file})
	bundle, err := secrets.LoadBundle(file)
	if err != nil || bundle.Validate() != nil {
		t.Fatalf("talosctl would not take secrets.yaml: %v, %v", err, bundle.Validate())
	}
	second := generated(t, machineconfig.Cluster{TalosVersion: "v1.12.11", Secrets: file})
	if _, again := second[machineconfig.SecretsFile]; again {
		t.Error("the secrets were written again")
	}
	for _, name := range []string{machineconfig.ControlPlaneFile, machineconfig.WorkerFile} {
		if first[name] != second[name] {
			t.Errorf("%s differs although it was made from the same secrets", name)
		}
	}
}

func TestWhatAreNoSecretsIsToldWithoutRepeatingIt(t *testing.T) {
	t.Parallel()
	whole, err := bundle()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"not YAML":   {"hunter2: [", "no whole secrets bundle"},
		"half":       {whole[:len(whole)/2], "no whole secrets bundle"},
		"other type": {"certs: hunter2\n", "no whole secrets bundle"},
		"empty":      {"", "no whole secrets bundle"},
		"sops":       {"cluster:\n  id: ENC[hunter2]\nsops:\n  version: 3.9.0\n", "encrypted with sops"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "secrets.yaml")
			write(t, file, tc.text)
			_, err := machineconfig.Cluster{Name: "c", Endpoint: "https://10.0.0.1:6443", TalosVersion: "v1.13.9", Secrets: file}.Generate()
			if err == nil {
				t.Fatal("accepted")
			}
			contains(t, err.Error(), tc.want, file)
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error repeats a secret: %v", err)
			}
		})
	}
}

func TestFilesAreForTheirOwnerAloneAndOverwriteNothing(t *testing.T) {
	t.Parallel()
	files, err := machineconfig.Cluster{Name: "c", Endpoint: "https://10.0.0.1:6443", TalosVersion: "v1.13.9"}.Generate()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := files.Write(dir); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o600 {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
	}
	if diff := cmp.Diff([]string{"controlplane.yaml", "node.yaml.tmpl", "secrets.yaml", "talosconfig", "worker.yaml"}, names); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	before, err := os.ReadFile(filepath.Join(dir, "secrets.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	err = files.Write(dir)
	if err == nil {
		t.Fatal("files were overwritten")
	}
	contains(t, err.Error(), "nothing was written", "exists")
	after, err := os.ReadFile(filepath.Join(dir, "secrets.yaml"))
	if err != nil || string(before) != string(after) {
		t.Errorf("secrets.yaml changed (error %v)", err)
	}
}

// One file in the way leaves the folder as it was.
func TestFilesAreWrittenAllOrNone(t *testing.T) {
	t.Parallel()
	files, err := machineconfig.Cluster{Name: "c", Endpoint: "https://10.0.0.1:6443", TalosVersion: "v1.13.9", Secrets: secretsFile(t)}.Generate()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink("/nowhere", filepath.Join(dir, "worker.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := files.Write(dir); err == nil {
		t.Fatal("written")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v (error %v)", entries, err)
	}
}

// A node whose card is not known gets its address on none, instead of on all.
func TestTheNodePatchNeedsToKnowTheCard(t *testing.T) {
	t.Parallel()
	patch := generated(t, machineconfig.Cluster{TalosVersion: "v1.13.9"})[machineconfig.NodePatchFile]
	files := func(node string) map[string]string {
		return map[string]string{
			"nodes/k8s/n1.yaml": "machineConfig: ../../c.yaml\nconfigPatches: [../../node.yaml.tmpl]\n" + node,
			"c.yaml":            "version: v1alpha1\nmachine: {type: worker}\n", "node.yaml.tmpl": patch,
		}
	}
	contains(t, newSite(t, files("ip: 10.0.0.2\nnetmask: 24\n")).refused(t), "k8s/n1 has no value for interface")
	mac := newSite(t, files("ip: fd00::2\nnetmask: 64\ngateway: fd00::1\nmac: 0c:c4:7a:00:00:01\ndns0: '2606:4700:4700::1111'\nntp: fd00::1\n")).render(t)
	contains(t, string(mac.Data()), "hardwareAddr: 0c:c4:7a:00:00:01", "fd00::2/64", "::/0")
	dhcp := string(newSite(t, files("")).render(t).Data())
	if strings.Contains(dhcp, "interfaces:") || !strings.Contains(dhcp, "hostname: n1") {
		t.Errorf("a node that asks DHCP gets %s", dhcp)
	}
}
