package talosnode_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"

	"github.com/talos-provision/provision/e2e/talosnode"
)

// talosctl is the real program, against one node.
type talosctl struct {
	program, node, talosconfig string
}

// realTalosctl skips the test where e2e/deps.sh has not built the program; with
// E2E=required that is an error.
func realTalosctl(t *testing.T, node string) talosctl {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(cache, "talos-provision", "talosctl", "talosctl")
	if _, err := os.Stat(program); err != nil {
		message := "there is no talosctl at " + program + ": run e2e/deps.sh"
		if os.Getenv("E2E") == "required" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	return talosctl{program: program, node: node, talosconfig: filepath.Join(t.TempDir(), "talosconfig")}
}

// run returns what the program prints.
func (c talosctl) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	common := []string{"--talosconfig", c.talosconfig, "--nodes", c.node}
	if _, err := os.Stat(c.talosconfig); err == nil {
		common = append(common, "--endpoints", c.node)
	}
	command := exec.CommandContext(ctx, c.program, append(args, common...)...) //nolint:gosec // our own test's arguments
	command.Env = append(os.Environ(), "HOME="+t.TempDir(), "HTTPS_PROXY=", "https_proxy=")
	out, err := command.CombinedOutput()
	return string(out), err
}

// prints runs the program and looks for words in what it prints.
func (c talosctl) prints(t *testing.T, command string, words ...string) {
	t.Helper()
	out, err := c.run(t, strings.Fields(command)...)
	if err != nil {
		t.Errorf("talosctl %s: %v\n%s", command, err, out)
		return
	}
	for _, word := range words {
		if !strings.Contains(out, word) {
			t.Errorf("talosctl %s does not print %q:\n%s", command, word, out)
		}
	}
}

func TestRealTalosctlAcceptsANodeInMaintenance(t *testing.T) {
	t.Parallel()
	const address = "127.31.1.1"
	ctl := realTalosctl(t, address)
	for _, version := range []string{"v1.12.11", "v1.13.9"} {
		node := booted(t, talosnode.Config{
			Address: address, Version: version, UUID: "7a1e0000-0000-4000-8000-0cc47a000001", Serial: "S4EMU0000001",
			Devices: []talosnode.Device{{Path: "/dev/vda", Size: 1 << 40, Serial: "S3EVNX0J", Transport: "virtio"}},
			Reboot:  func() {}, // the machine takes its time
		})
		ctl.prints(t, "get machinestatus --insecure", "maintenance")
		ctl.prints(t, "get disks --insecure", "vda", "1.1 TB")
		ctl.prints(t, "get systeminformation --insecure", "7a1e0000-0000-4000-8000-0cc47a000001")
		if version == "v1.13.9" {
			ctl.prints(t, "version --insecure", "v1.13.9")
		}
		file := filepath.Join(t.TempDir(), "controlplane.yaml")
		if err := os.WriteFile(file, newPKI(t).config(t, controlPlane), 0o600); err != nil {
			t.Fatal(err)
		}
		ctl.prints(t, "apply-config --insecure --dry-run --file "+file, "Dry run summary")
		ctl.prints(t, "apply-config --insecure --file "+file)
		eventuallyRefused(t, node.Addr().String())
		node.Stop()
	}
}

func TestRealTalosctlRunsACluster(t *testing.T) {
	t.Parallel()
	const address = "127.31.2.1"
	ctl := realTalosctl(t, address)
	pki := newPKI(t)
	text, err := pki.talosconfig(t).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ctl.talosconfig, text, 0o600); err != nil {
		t.Fatal(err)
	}
	clusters := new(talosnode.Clusters)
	for i, kind := range []string{"cp", "worker"} {
		config := pki.config(t, controlPlane)
		if kind == "worker" {
			config = pki.config(t, worker)
		}
		booted(t, talosnode.Config{
			Address: "127.31.2." + []string{"1", "2"}[i], UUID: kind, Disk: configuredDisk(config), FromDisk: true, Clusters: clusters,
			Cmdline: "talos.platform=metal",
		})
	}
	ctl.prints(t, "version", "v1.13.9")
	ctl.prints(t, "get machinestatus", "booting")
	ctl.prints(t, "service etcd", "Preparing")
	ctl.prints(t, "bootstrap")
	ctl.prints(t, "health --server --wait-timeout 2m --control-plane-nodes "+address+" --worker-nodes 127.31.2.2", "all k8s nodes to report ready: OK")
	ctl.prints(t, "etcd members", address+":2380")
	ctl.prints(t, "etcd status", "3.6.0")
	ctl.prints(t, "get members", "controlplane", "worker", "127.31.2.2")
	ctl.prints(t, "get disks", "vda")
	ctl.prints(t, "get systeminformation", "cp")
	ctl.prints(t, "get extensions", schematic)
	ctl.prints(t, "get machineconfig -o yaml", "cluster:")
	ctl.prints(t, "kubeconfig "+filepath.Join(t.TempDir(), "kubeconfig")+" --merge=false")
	if out, err := ctl.run(t, "bootstrap"); err == nil || !strings.Contains(out, "etcd data directory is not empty") {
		t.Errorf("second bootstrap: %v\n%s", err, out)
	}
	ctl.prints(t, "reboot --timeout 2m", "post check passed")
	ctl.prints(t, "upgrade --drain=false --timeout 2m --image factory.talos.dev/metal-installer/"+schematic+":v1.13.8")
	ctl.prints(t, "version", "v1.13.8")
	ctl.prints(t, "get machinestatus", runtime.MachineStageRunning.String())
}
