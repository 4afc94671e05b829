package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// renderSite writes files for render and gives their folder.
func renderSite(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const renderConfig = `network: {interface: eth1}
dhcp:
  subnets:
  - {cidr: 192.168.42.0/24, range: 192.168.42.100-192.168.42.200, gateway: 192.168.42.1, dns: [1.1.1.1], lease: 1h}
assets: {factory: "http://mirror.example"}
`

func TestRenderWritesBothFilesOfABootServer(t *testing.T) {
	t.Parallel()
	dir := renderSite(t, map[string]string{
		"provision.yaml":       renderConfig,
		"nodes/_defaults.yaml": "schematicID: 376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba\ntalosVersion: v1.13.9\nkernelArgs: talos.platform=metal slab_nomerge pti=on\n",
		"nodes/prod/a.yaml":    "serial: S1ABC\nboardSerial: B1\ninstall: true\n",
		"nodes/prod/b.yaml":    "serial: S1ABC\nboardSerial: B2\n",
		"nodes/dev/c.yaml":     "serial: S9ABC\ninstall: true\n",
	})
	at := []string{"inventory", "render", "--config", filepath.Join(dir, "provision.yaml"), "--inventory", filepath.Join(dir, "nodes")}
	run := func(args ...string) result { return provision(t, append(at, args...)...) }

	dnsmasq := run("--format", "dnsmasq", "--tftp-root", "/srv/boot", "--script-url", "http://192.168.42.1/x.ipxe")
	for _, line := range []string{
		"interface=eth1\n", "dhcp-range=set:net0,192.168.42.100,192.168.42.200,255.255.255.0,3600\n", "tftp-root=/srv/boot\n", "dhcp-boot=tag:ipxe,http://192.168.42.1/x.ipxe\n",
	} {
		if dnsmasq.status != exitDone || !strings.Contains(dnsmasq.out, line) {
			t.Errorf("status %d, no %q in:\n%s%s", dnsmasq.status, line, dnsmasq.out, dnsmasq.err)
		}
	}

	ipxe := run("--format", "ipxe", "--cluster", "prod")
	if ipxe.status != exitDone || !strings.Contains(ipxe.out, "iseq ${board-serial} B1 && set by-board node_prod_a ||\n") ||
		!strings.Contains(ipxe.out, "\nkernel http://mirror.example/image/376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba/v1.13.9/kernel-amd64 initrd=initramfs.xz talos.platform=metal slab_nomerge pti=on || goto failed\n") ||
		strings.Contains(ipxe.out, "S9ABC") {
		t.Errorf("status %d:\n%s%s", ipxe.status, ipxe.out, ipxe.err)
	}
	if other := run("--format", "ipxe", "--assets-url", "http://other.example/talos/"); !strings.Contains(other.out, "kernel http://other.example/talos/image/") || !strings.Contains(other.out, "S9ABC") {
		t.Errorf("status %d:\n%s%s", other.status, other.out, other.err)
	}

	for name, args := range map[string][]string{
		"--format":       {},
		"dnsmasq or":     {"--format", "isc"},
		"assets URL":     {"--format", "ipxe", "--assets-url", "mirror"},
		"no node":        {"--format", "ipxe", "--cluster", "test"},
		"-o json":        {"--format", "ipxe", "-o", "json"},
		"TFTP root":      {"--format", "dnsmasq", "--tftp-root", "here"},
		"no subnet":      {"--format", "dnsmasq", "--config", os.DevNull},
		"not a file nam": {"--format", "dnsmasq", "--script-url", "http://u:p@h"},
	} {
		if r := run(args...); r.status != exitUsage || (name != "no subnet" && !strings.Contains(r.err, name)) {
			t.Errorf("%v: status %d, %q: want %d and %q", args, r.status, r.err, exitUsage, name)
		}
	}
}

func TestRenderTellsWhichNodesAStaticScriptCannotBoot(t *testing.T) {
	t.Parallel()
	dir := renderSite(t, map[string]string{"prod/a.yaml": "serial: S1ABC\ninstall: true\nschematicID: 376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba\ntalosVersion: v1.13.9\nkernelArgs: talos.platform=metal slab_nomerge pti=on\n" +
		"bmc: {address: 10.0.0.1}\n", "prod/b.yaml": "serial: S1ABC\nbmc: {address: 10.0.0.2}\n"})
	r := provision(t, "inventory", "render", "--config", os.DevNull, "--inventory", dir, "--format", "ipxe")
	if r.status != exitFailed || !strings.Contains(r.err, "prod/a boots its own disk: other nodes share its serial S1ABC") || strings.Contains(r.err, "prod/b boots") || !strings.HasPrefix(r.out, "#!ipxe\n") {
		t.Errorf("status %d\n%s%s", r.status, r.out, r.err)
	}
}
