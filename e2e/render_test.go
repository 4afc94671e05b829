package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/qemu"
	"github.com/talos-provision/provision/e2e/qemu/disk"
)

// Where this program does not run, real dnsmasq and iPXE boot the nodes from
// rendered files: one board of a chassis with its own arguments, although its
// board serial has characters that mean something to iPXE, and another one,
// which is not marked install, from its disk.
func TestRenderedFilesBootNodesByDNSMasq(t *testing.T) {
	s := newSite(t)
	program, err := exec.LookPath("dnsmasq")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/dnsmasq"); err != nil {
			lacking(t, fmt.Errorf("%w: install Debian's package dnsmasq-base", err))
		}
	}
	first, second := board("node-01", 1, qemu.UEFI), board("node-02", 2, qemu.BIOS)
	first.BoardSerial = "ZM 100%/#A"
	s.add(first, "serial: S100000X0000001\nboardSerial: 'ZM 100%/#A'\nip: 10.98.0.21\ngateway: 10.98.0.1\ninstall: true\n")
	s.add(second, "serial: S100000X0000001\nboardSerial: ZM000S000002\nip: 10.98.0.22\ngateway: 10.98.0.1\n")

	log := s.startDNSMasq(program)
	for _, name := range []string{"node-01", "node-02"} {
		if err := s.servers[name].PowerOn(t.Context(), redfishtest.Boot{Target: "Pxe"}); err != nil {
			t.Fatal(err)
		}
	}
	waiting, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	// The kernel and the guest say it. iPXE puts the name of the kernel's file before its arguments.
	want := "ommand line: kernel-amd64 initrd=initramfs.xz ip=10.98.0.21::10.98.0.1:255.255.255.0:node-01:eth0::1.1.1.1:8.8.8.8:10.98.0.1 " +
		"talos.platform=metal console=ttyS0 slab_nomerge pti=on net.ifnames=0 panic=0 no_timer_check\n"
	if err := s.servers["node-01"].WaitForLog(waiting, want); err != nil {
		t.Errorf("node-01 was not booted: %v\ndnsmasq:\n%s", err, log())
	}
	bystander := s.servers["node-02"]
	if err := bystander.WaitForLog(waiting, disk.Marker); err != nil {
		t.Errorf("node-02 did not boot its own disk: %v\ndnsmasq:\n%s", err, log())
	}
	if !bystander.LogContains("node_metal_node-02 is not marked install: true") {
		t.Error("node-02 was not recognised by the script")
	}
}

// startDNSMasq serves the inventory of the site as `provision inventory render`
// writes it, and gives a function that reads dnsmasq's log.
func (s *site) startDNSMasq(program string) (log func() string) {
	s.t.Helper()
	root := filepath.Join(s.dir, "tftp")
	for _, name := range []string{"snponly.efi", "undionly.kpxe"} {
		content, err := os.ReadFile(filepath.Join(s.built.ipxeDir, name))
		if err != nil {
			s.t.Fatal(err)
		}
		s.publish("tftp/"+name, string(content))
	}
	s.publish("tftp/boot.ipxe", s.render("--format", "ipxe", "--cluster", "metal"))
	config := s.write("dnsmasq.conf", s.render("--format", "dnsmasq", "--tftp-root", root))
	logFile := filepath.Join(s.dir, "dnsmasq.log")
	read := func() string {
		text, _ := os.ReadFile(logFile)
		return tail(string(text), 60)
	}
	cmd := s.network.Command(s.t.Context(), program, "--keep-in-foreground", "--conf-file="+config,
		// The test's folder is for its user only.
		"--user=root", "--group=root", "--pid-file=", "--dhcp-leasefile="+filepath.Join(s.dir, "leases"), "--log-facility="+logFile)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	process, err := s.network.Start(cmd)
	if err != nil {
		s.t.Fatal(err)
	}
	deadline := time.After(20 * time.Second)
	for !strings.Contains(read(), "started") {
		select {
		case <-process.Done():
			s.t.Fatalf("dnsmasq ended: %v\n%s%s", process.Wait(), stderr.String(), read())
		case <-deadline:
			s.t.Fatalf("dnsmasq does not start:\n%s", read())
		case <-time.After(50 * time.Millisecond):
		}
	}
	return read
}

// publish writes a file that everybody may read: dnsmasq sends no other.
func (s *site) publish(name, text string) {
	s.t.Helper()
	if err := os.Chmod(s.write(name, text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// render runs `provision inventory render`.
func (s *site) render(args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), s.built.binary, append([]string{"inventory", "render", "--config", filepath.Join(s.dir, "provision.yaml")}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", cmd, err, stderr.String())
	}
	return string(out)
}
