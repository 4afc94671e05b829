package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/kubeapi"
	"github.com/talos-provision/provision/e2e/talosnode"
)

// demo runs one of the scripts as make does, in folders and on a network of its own.
func demo(t *testing.T, script string, env []string, args ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("the demos take minutes, which is too long for -short")
	}
	bin := filepath.Join(t.TempDir(), "bin") + "/"
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "../...")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the programs: %v\n%s", err, out)
	}
	run := exec.CommandContext(t.Context(), "bash", append([]string{script, "--post", "100ms", "--kernel-time", "100ms", "--install-time", "100ms"}, args...)...)
	run.Env = append(run.Environ(), append(env, "BIN="+filepath.Clean(bin), "DIR="+t.TempDir())...)
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

func TestTheDemoProvisionsTwelveNodes(t *testing.T) {
	t.Parallel()
	out := demo(t, "demo.sh", nil, "--network", "127.90.0.0/16")
	if !regexp.MustCompile(`(?m)^12 done, 0 failed, 0 held, 0 skipped$`).MatchString(out) {
		t.Errorf("not every node was provisioned:\n%s", out)
	}
}

func TestTheDemoOfClustersEndsWithSixReadyNodes(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"by the API": {"--network", "127.91.0.0/16"},
		"by URL":     {"--network", "127.92.0.0/16", "--deliver-by-url"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := demo(t, "demo-ready.sh", nil, args...)
			rows := regexp.MustCompile(`(?m)^(k8s-\S+ +node-\S+ +\S+ +\S+) +v1.13.9`).FindAllStringSubmatch(out, -1)
			got := make([]string, 0, len(rows))
			for _, row := range rows {
				got = append(got, regexp.MustCompile(` +`).ReplaceAllString(row[1], " "))
			}
			want := []string{
				"k8s-prod node-01 Ready control-plane", "k8s-prod node-02 Ready control-plane", "k8s-prod node-03 Ready control-plane",
				"k8s-prod node-04 Ready <none>", "k8s-test node-05 Ready control-plane", "k8s-test node-06 Ready <none>",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("nodes (-want +got):\n%s\n%s", diff, out)
			}
		})
	}
}

func TestNodesAreShownAsTheyAre(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := printNodes(&out, []talosnode.ClusterReport{{Name: "a", Nodes: []talosnode.NodeReport{
		{Name: "n1", Address: "127.0.0.1", Version: "v1.13.9", ControlPlane: true, Registered: true, Ready: true},
		{Name: "n2", Address: "127.0.0.2", Version: "v1.13.9", Registered: true},
		{Name: "n3", Address: "127.0.0.3", Version: "v1.13.9"},
	}}})
	want := "CLUSTER   NAME   STATUS          ROLES           TALOS     INTERNAL-IP\n" +
		"a         n1     Ready           control-plane   v1.13.9   127.0.0.1\n" +
		"a         n2     NotReady        <none>          v1.13.9   127.0.0.2\n" +
		"a         n3     NotRegistered   <none>          v1.13.9   127.0.0.3\n"
	if diff := cmp.Diff(want, out.String()); diff != "" || err != nil {
		t.Errorf("error %v, table (-want +got):\n%s", err, diff)
	}
}

func TestTheDemoOfUpgradesEndsTwoMinorVersionsUp(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		network string
		env     []string
		says    string
	}{
		"without Kubernetes": {"127.96.0.0/16", []string{"CACHE=/nonexistent"}, "no kube-apiserver"},
		"with Kubernetes":    {"127.97.0.0/16", nil, "a real kube-apiserver"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.env == nil {
				kubeapi.Need(t)
			}
			out := demo(t, "demo-upgrade.sh", tt.env, "--network", tt.network, "--ready-time", "100ms")
			if !strings.Contains(out, tt.says) {
				t.Errorf("it does not say %q", tt.says)
			}
			for _, line := range []string{`6 upgraded, 0 failed, 0 held`, `k8s-prod +node-06 +Ready +<none> +v1\.13\.9 .*`, `.* node-01 +Upgraded +upgraded from v1\.12\.12 to v1\.13\.9`} {
				if !regexp.MustCompile(`(?m)^` + line + `$`).MatchString(out) {
					t.Errorf("no line is like %s:\n%s", line, out)
				}
			}
		})
	}
}
