package machineconfig_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/provisioner/machineconfig"
)

const small = "machine: {type: worker, token: hunter2}\n"

// One line in a _defaults.yaml serves a folder of files, such as talhelper writes.
func TestPathsAreTemplatesThatBeginAtTheFileThatStatesThem(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"of the defaults":     {"nodes/_defaults.yaml": "machineConfig: ../clusterconfig/{{ .cluster }}-{{ .name }}.yaml\n", "nodes/k8s/n1.yaml": "", "clusterconfig/k8s-n1.yaml": small},
		"named as in Go":      {"nodes/_defaults.yaml": "machineConfig: ../{{ .Cluster }}-{{ .Name }}.yaml\n", "nodes/k8s/n1.yaml": "", "k8s-n1.yaml": small},
		"of the node":         {"nodes/k8s/rack/n1.yaml": "machineConfig: ../../../n1.yaml\n", "n1.yaml": small},
		"by label":            {"nodes/_defaults.yaml": "machineConfig: ../{{ .labels.role }}.yaml\n", "nodes/k8s/n1.yaml": "labels: {role: worker}\n", "worker.yaml": small},
		"within the tree":     {"nodes/k8s/n1.yaml": "machineConfig: _configs/n1.yaml\n", "nodes/k8s/_configs/n1.yaml": small},
		"replaced by a node":  {"nodes/_defaults.yaml": "machineConfig: ../none.yaml\n", "nodes/k8s/n1.yaml": "machineConfig: ../../mine.yaml\n", "mine.yaml": small},
		"with has, one value": {"nodes/k8s/n1.yaml": "machineConfig: ../../{{ if has \"vlan\" }}a{{ else }}b{{ end }}.yaml\n", "b.yaml": small},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := newSite(t, files).render(t).Data(); string(got) != small {
				t.Errorf("config is %q", got)
			}
		})
	}
}

func TestANodeWithoutAConfigHasNone(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"nodes/_defaults.yaml": "machineConfig: ../c.yaml\n", "nodes/k8s/n1.yaml": "machineConfig: null\n"})
	c, ok, err := s.source.Render(s.one(t))
	if ok || err != nil || c.Data() != nil || c.Digest() != "" {
		t.Errorf("ok %v, error %v, config %v", ok, err, c)
	}
}

func TestTemplatesAreFilledInFromTheNode(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{
		"nodes/k8s/n1.yaml": "machineConfig: ../../c.yaml.tmpl\nip: 10.0.0.2\nnetmask: 255.255.255.0\ngateway: 10.0.0.1\nmacs: [0c:c4:7a:00:00:01]\nlabels: {rack: r07}\n",
		"c.yaml.tmpl":       "machine:\n  type: worker\n  x: [{{ .name }}, {{ .cluster }}, {{ .id }}, {{ .ip }}, {{ .cidr }}, {{ .defaultRoute }}, {{ index .macs 0 }}, {{ .labels.rack }}, {{ .arch }}, {{ .install }}]\n",
	})
	contains(t, string(s.render(t).Data()), "x: [n1, k8s, k8s/n1, 10.0.0.2, 10.0.0.2/24, 0.0.0.0/0, 0c:c4:7a:00:00:01, r07, amd64, false]")
}

// A file that is not called .tmpl is taken as it is: manifests within it may have
// braces of their own.
func TestFilesThatAreNoTemplatesAreTakenAsTheyAre(t *testing.T) {
	t.Parallel()
	text := "machine: {type: worker}\ncluster:\n  inlineManifests:\n  - contents: '{{ .Values.x }} ${y}'\n"
	s := newSite(t, map[string]string{"nodes/k8s/n1.yaml": "machineConfig: ../../c.yaml\n", "c.yaml": text})
	if got := string(s.render(t).Data()); got != text {
		t.Errorf("config is %q", got)
	}
}

func TestWhatCannotBeRenderedIsToldByFileAndLine(t *testing.T) {
	t.Parallel()
	node := "serial: S1\nmachineConfig: ../../c.yaml"
	for name, tc := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"missing file": {map[string]string{"nodes/k8s/n1.yaml": node}, []string{"k8s/n1: machineConfig (k8s/n1.yaml:2): read ", "/c.yaml: no such file", "begin in the folder of the file that states them"}},
		"folder":       {map[string]string{"nodes/k8s/n1.yaml": node, "c.yaml/x": ""}, []string{"is not a regular file"}},
		"value not set": {map[string]string{"nodes/k8s/n1.yaml": node + ".tmpl\n", "c.yaml.tmpl": "machine:\n  a: hunter2\n  vlan: {{ .vlan }}\n"},
			[]string{"k8s/n1.yaml:2", "c.yaml.tmpl:3: k8s/n1 has no value for vlan", `{{ if has "vlan" }}`}},
		"label not set":    {map[string]string{"nodes/k8s/n1.yaml": node + ".tmpl\n", "c.yaml.tmpl": "a: {{ .labels.role }}\n"}, []string{"c.yaml.tmpl:1: k8s/n1 has no value for role"}},
		"label as a value": {map[string]string{"nodes/k8s/n1.yaml": node + ".tmpl\nlabels: {role: x}\n", "c.yaml.tmpl": "a: {{ .role }}\n"}, []string{"did you mean .labels.role?"}},
		"in the path":      {map[string]string{"nodes/k8s/n1.yaml": "machineConfig: ../{{ .rack }}.yaml\n"}, []string{"n1.yaml:1): the path: k8s/n1 has no value for rack"}},
		"broken path":      {map[string]string{"nodes/k8s/n1.yaml": "machineConfig: ../{{ .name.yaml\n"}, []string{"n1.yaml:1): the path: it is no valid template"}},
		"no function":      {map[string]string{"nodes/k8s/n1.yaml": node + ".tmpl\n", "c.yaml.tmpl": "a: hunter2\nb: {{ name }}\n"}, []string{"c.yaml.tmpl:2: it is no valid template: there is no function name", "{{ .name }}"}},
		"secret in action": {map[string]string{"nodes/k8s/n1.yaml": node + ".tmpl\n", "c.yaml.tmpl": "b: {{ \"hunter2\" \"hunter2 }}\n"}, []string{"c.yaml.tmpl:1: it is no valid template"}},
		"BMC account":      {map[string]string{"nodes/k8s/n1.yaml": node + ".tmpl\nbmc: {username: u}\n", "c.yaml.tmpl": "b: {{ .bmc.username }}\n"}, []string{"has no value for bmc"}},
		"fails":            {map[string]string{"nodes/k8s/n1.yaml": node + ".tmpl\n", "c.yaml.tmpl": "a: 1\nb: {{ index \"hunter2\" 99 }}\n"}, []string{"c.yaml.tmpl:2: it cannot be filled in for k8s/n1"}},
		"not YAML":         {map[string]string{"nodes/k8s/n1.yaml": node, "c.yaml": "machine:\n  token: \"hunter2\n"}, []string{"c.yaml:", "it is not YAML"}},
		"second document":  {map[string]string{"nodes/k8s/n1.yaml": node, "c.yaml": "machine: {type: worker}\n---\na: b\n*hunter2: [\n"}, []string{"c.yaml:", "it is not YAML"}},
		"a list":           {map[string]string{"nodes/k8s/n1.yaml": node, "c.yaml": "\n- hunter2\n"}, []string{"c.yaml:2: it is not YAML: it is not a mapping"}},
		"empty":            {map[string]string{"nodes/k8s/n1.yaml": node, "c.yaml": "---\n# nothing\n"}, []string{"c.yaml: it is empty"}},
		"too large":        {map[string]string{"nodes/k8s/n1.yaml": node, "c.yaml": strings.Repeat("#", 4<<20+1)}, []string{"Talos takes 4194304"}},
		"no patch":         {map[string]string{"nodes/k8s/n1.yaml": node + "\nconfigPatches: [../../p.yaml]\n", "c.yaml": small}, []string{"configPatches (k8s/n1.yaml:3): read ", "p.yaml: no such file"}},
		"patch is empty":   {map[string]string{"nodes/k8s/n1.yaml": node + "\nconfigPatches: [../../p.yaml]\n", "c.yaml": small, "p.yaml": "\n"}, []string{"p.yaml is empty"}},
		"unknown key": {map[string]string{"nodes/k8s/n1.yaml": node + "\nconfigPatches: [../../p.yaml]\n", "c.yaml": small, "p.yaml": "machine:\n  tokken: hunter2\n  network: {hosst: hunter2}\n"},
			[]string{"p.yaml is no patch of a machine config: unknown keys: machine.network.hosst, machine.tokken", "talosctl machineconfig patch"}},
		"wrong type":     {map[string]string{"nodes/k8s/n1.yaml": node + "\nconfigPatches: [../../p.yaml]\n", "c.yaml": small, "p.yaml": "machine: {sysctls: hunter2}\n"}, []string{"p.yaml is no patch of a machine config: the value in line 1 has the wrong type"}},
		"unknown kind":   {map[string]string{"nodes/k8s/n1.yaml": node + "\nconfigPatches: [../../p.yaml]\n", "c.yaml": small, "p.yaml": "apiVersion: v1alpha1\nkind: UnattendedInstallConfig\n"}, []string{"p.yaml is no patch", "put the document into the file of machineConfig"}},
		"in the config":  {map[string]string{"nodes/k8s/n1.yaml": node + "\nconfigPatches: [../../p.yaml]\n", "c.yaml": "machine: {type: worker, tokken: hunter2}\n", "p.yaml": "machine: {token: x}\n"}, []string{"p.yaml cannot be applied", "unknown keys: machine.tokken"}},
		"template patch": {map[string]string{"nodes/k8s/n1.yaml": node + "\nconfigPatches: [../../p.tmpl]\n", "c.yaml": small, "p.tmpl": "machine:\n  network:\n    hostname: {{ .vlan }}\n"}, []string{"p.tmpl:3: k8s/n1 has no value for vlan"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			message := newSite(t, tc.files).refused(t)
			contains(t, message, tc.want...)
			if strings.Contains(message, "hunter2") {
				t.Errorf("the error repeats a value of the config (I9): %s", message)
			}
		})
	}
}

func TestPatchesAreAppliedInTheirOrder(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{
		"nodes/k8s/n1.yaml": "machineConfig: ../../c.yaml\nconfigPatches: [../../1.yaml, ../../2.yaml.tmpl, ../../3.json, ../../4.yaml]\n",
		"c.yaml":            "version: v1alpha1\nmachine:\n  type: worker\n  token: t\n  sysctls: {a: base, b: base}\n  nodeLabels: {gone: x}\n",
		"1.yaml":            "machine: {sysctls: {b: first, c: first}}\n",
		"2.yaml.tmpl":       "machine: {sysctls: {c: '{{ .name }}'}, network: {hostname: '{{ .name }}'}}\n",
		"3.json":            `[{"op": "replace", "path": "/machine/type", "value": "controlplane"}]`,
		"4.yaml":            "machine:\n  nodeLabels:\n    $patch: delete\n",
	})
	c := s.render(t)
	contains(t, string(c.Data()), "a: base", "b: first", "c: n1")
	if !c.ControlPlane() || c.Hostname() != "n1" || strings.Contains(string(c.Data()), "gone") {
		t.Errorf("config is %s", c.Data())
	}
}

// Kinds of Talos 1.14, which the library does not know, go through unchanged,
// and do not keep the rest from being patched.
func TestDocumentsOfANewerTalosStayAsTheyAre(t *testing.T) {
	t.Parallel()
	newer := "apiVersion: v1alpha1\nkind: UnattendedInstallConfig\ninstaller:\n    image: factory.talos.dev/metal-installer/" + vanilla + ":v1.14.1 # stays\n" +
		"provisioning:\n    diskSelector:\n        match: disk.transport == \"nvme\"\n    wipe: false\n"
	base := "version: v1alpha1\nmachine:\n    type: controlplane\n    token: t\n"
	kubelet := "apiVersion: v1alpha1\nkind: KubeletConfig\nimage: ghcr.io/siderolabs/kubelet:v1.37.0\n"
	cluster := "apiVersion: v1alpha1\nkind: KubeClusterConfig\nclusterName: prod\nendpoint: https://10.0.0.1:6443\n"
	files := map[string]string{
		"nodes/k8s/n1.yaml": "machineConfig: ../../c.yaml\n", "c.yaml": base + "---\n" + newer + "---\n" + kubelet + "---\n" + cluster,
		"p.yaml": "machine: {nodeLabels: {rack: r1}}\n",
	}
	plain := newSite(t, files).render(t)
	if string(plain.Data()) != files["c.yaml"] {
		t.Errorf("without patches the config changed: %s", plain.Data())
	}
	files["nodes/k8s/n1.yaml"] += "configPatches: [../../p.yaml]\n"
	patched := newSite(t, files).render(t)
	contains(t, string(patched.Data()), "rack: r1", newer, kubelet, cluster)
	for _, c := range []machineconfig.Config{plain, patched} {
		want := machineconfig.Install{Given: true, Match: `disk.transport == "nvme"`, Image: "factory.talos.dev/metal-installer/" + vanilla + ":v1.14.1"}
		got := c.Install()
		if got.Given != want.Given || got.Match != want.Match || got.Image != want.Image || got.Wipe {
			t.Errorf("install is %+v", got)
		}
		if diff := cmp.Diff([]string{"1.37.0", "prod", "https://10.0.0.1:6443"}, []string{c.KubernetesVersion(), c.ClusterName(), c.Endpoint()}); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"v1alpha1", "UnattendedInstallConfig", "KubeletConfig", "KubeClusterConfig"}, c.Kinds()); diff != "" {
			t.Errorf("kinds (-want +got):\n%s", diff)
		}
	}
}

// A block of text may have a line of dashes, as long as it is indented.
func TestDashesWithinABlockAreNoEndOfADocument(t *testing.T) {
	t.Parallel()
	c, err := machineconfig.Parse([]byte("---\nmachine:\n  type: worker\n  files:\n  - content: |\n      a\n      ---\n      b\n--- # next\nkind: HostnameConfig\nhostname: n1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"v1alpha1", "HostnameConfig"}, c.Kinds()); diff != "" || c.Hostname() != "n1" {
		t.Errorf("hostname %s, kinds (-want +got):\n%s", c.Hostname(), diff)
	}
}

func TestDigestTellsWhetherTheConfigChanged(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"nodes/k8s/n1.yaml": "machineConfig: ../../c.yaml\n", "c.yaml": small})
	first, again := s.render(t), s.render(t)
	if err := os.WriteFile(filepath.Join(s.dir, "c.yaml"), []byte(small+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if changed := s.render(t); first.Digest() != again.Digest() || changed.Digest() == first.Digest() || len(first.Digest()) != 64 {
		t.Errorf("digests %s, %s, %s", first.Digest(), again.Digest(), changed.Digest())
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{small, "---\n---\n", "a: &x [*x]\n", "machine: {install: {diskSelector: {size: '>= 1GB'}}}\n", "--- |\n x\n---\nkind: [HostnameConfig]\n", "machine: *a\n", "? a\n: b\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := machineconfig.Parse(data)
		if err == nil && len(c.Kinds()) == 0 {
			t.Error("a config without a document")
		}
		_, _ = c.SelectDisk(nil)
	})
}
