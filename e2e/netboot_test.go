package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/talos-provision/provision/e2e/qemu"
	"github.com/talos-provision/provision/e2e/qemu/image"
)

// bootsInto runs the program and expects the only node in maintenance.
func (s *site) bootsInto(node string) *provision {
	s.t.Helper()
	run := s.start()
	last, status := run.finish()
	if e := last[node]; status != 0 || e.State != "Maintenance" {
		s.t.Fatalf("exit status %d, %s ended %s: %s %s", status, node, e.State, e.Message, e.Error)
	}
	return run
}

// A machine whose firmware does UEFI HTTP boot and no PXE gets iPXE over HTTP:
// its DHCP class is HTTPClient, and TFTP is never asked (P6, P13).
func TestUEFIHTTPBoot(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	machine := board("node-01", 1, qemu.UEFI)
	machine.HTTPBoot = true
	s.add(machine, "ip: 10.98.0.11\ngateway: 10.98.0.1\ninstall: true\n")
	log := s.bootsInto("node-01").log()
	if !strings.Contains(log, "class=http ") || strings.Contains(log, "class=pxe ") {
		t.Errorf("the firmware did not ask as a UEFI HTTP client only:\n%s", log)
	}
	if console := s.servers["node-01"].SerialHistory(); !strings.Contains(console, "UEFI HTTPv4") {
		t.Errorf("the firmware did not boot by HTTP:\n%s", tail(console, 40))
	}
}

// slowDHCP answers firmware later than another server does.
const slowDHCP = "dhcp:\n  subnets:\n  - {cidr: 10.98.0.0/24, range: 10.98.0.100-10.98.0.150, gateway: 10.98.0.1, lease: 1h}\n  replyDelay: {\"52:54:00\": 1s}"

// The counter-proof of assertive below: the same two servers, and firmware
// follows the quicker one to a file that is not there.
func TestWithoutAssertiveTheQuickerServerWins(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("provision.yaml", s.withDHCP(slowDHCP))
	s.rival("--dhcp-boot=bogus.efi")
	s.add(board("node-01", 1, qemu.UEFI), "ip: 10.98.0.11\ngateway: 10.98.0.1\ninstall: true\n")
	run := s.start()
	run.until("PowerCycled")
	waiting, cancel := context.WithTimeout(t.Context(), 100*time.Second)
	defer cancel()
	if err := s.servers["node-01"].WaitForLog(waiting, "NBP filename is bogus.efi"); err != nil {
		t.Error(err)
	}
	if err := run.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	run.finish()
	if !strings.Contains(run.log(), "reply=OFFER") {
		t.Errorf("this host offered nothing, so this proved nothing:\n%s", run.log())
	}
}

// Another DHCP server is in the boot network, for its own good reasons: machines
// boot all the same, in each of the three ways to live with it.
func TestBesideAnotherDHCPServer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		dhcp  string   // our configuration
		rival []string // what the other server says beside the lease
	}{
		"proxy beside a plain server": {"dhcp: {mode: proxy}", nil},
		"assertive against a server with a boot file": {
			slowDHCP + "\n  assertive: true",
			[]string{"--dhcp-boot=bogus.efi"},
		},
		"off beside a server that names our files": {
			"dhcp: {mode: off}",
			[]string{"--dhcp-match=set:efi64,option:client-arch,7", "--dhcp-boot=tag:efi64,snponly.efi,,10.98.0.1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.write("provision.yaml", s.withDHCP(tc.dhcp))
			rivalLog := s.rival(tc.rival...)
			s.add(board("node-01", 1, qemu.UEFI), "ip: 10.98.0.11\ngateway: 10.98.0.1\ninstall: true\n")
			s.bootsInto("node-01")
			if text, err := os.ReadFile(rivalLog); err != nil || !strings.Contains(string(text), "DHCPOFFER") {
				t.Errorf("the other DHCP server made no offer, so this proved nothing (%v):\n%s", err, text)
			}
		})
	}
}

// withDHCP is the usual configuration with another part dhcp.
func (s *site) withDHCP(dhcp string) string {
	s.t.Helper()
	before, rest, found := strings.Cut(s.provisionYAML(), "dhcp:\n")
	_, after, foundEnd := strings.Cut(rest, "ipxeDir:")
	if !found || !foundEnd {
		s.t.Fatal("the usual configuration has changed its form")
	}
	return before + dhcp + "\nipxeDir:" + after
}

// rival runs dnsmasq as another host of the boot network, with the address
// 10.98.0.3, and returns the path of its log.
func (s *site) rival(options ...string) string {
	s.t.Helper()
	program, name := need(s.t, "dnsmasq"), addHost(s.t, s.network, "rival", "10.98.0.3/24")
	log := filepath.Join(s.dir, "rival.log")
	cmd := exec.CommandContext(s.t.Context(), "ip", append([]string{
		"netns", "exec", name, program, "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--group=root", "--pid-file=", "--port=0",
		"--interface=eth0", "--bind-interfaces", "--no-ping", "--dhcp-range=10.98.0.60,10.98.0.80,1h",
		"--dhcp-leasefile=" + filepath.Join(s.dir, "rival.leases"), "--log-facility=" + log, "--log-dhcp",
	}, options...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	process, err := s.network.Start(cmd)
	if err != nil {
		s.t.Fatal(err)
	}
	select {
	case <-process.Done():
		s.t.Fatalf("dnsmasq ended at once: %s", stderr.String())
	case <-time.After(300 * time.Millisecond): // it refuses bad arguments at once
	}
	return log
}

// A 64-bit ARM machine gets the binary and the image of its architecture.
func TestARM64(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.needsGuest("they are of amd64")
	if err := qemu.MissingARM64(); err != nil {
		lacking(t, err)
	}
	options := image.FromEnvironment(os.Getenv)
	options.Arch, options.Kernel, options.Initramfs = image.ARM64, "", ""
	if err := options.Missing(); err != nil {
		lacking(t, err)
	}
	guest, err := image.Build(t.Context(), s.dir, options)
	if err != nil {
		t.Fatal(err)
	}
	s.serveImage(guest, "10.98.0.1:8091")
	config := strings.Replace(s.provisionYAML(), "10.98.0.1:8090", "10.98.0.1:8091", 1)
	s.write("provision.yaml", strings.Replace(config, "bootTimeout: 2m", "bootTimeout: 5m", 1))
	machine := board("arm64-01", 1, qemu.ARM64)
	machine.Memory = 1024
	s.add(machine, "ip: 10.98.0.11\ngateway: 10.98.0.1\narch: arm64\ninstall: true\nkernelArgs: talos.platform=metal console=ttyAMA0 slab_nomerge pti=on net.ifnames=0 panic=0\n")
	s.bootsInto("arm64-01")
	if console, want := s.servers["arm64-01"].SerialHistory(), "ip=10.98.0.11::10.98.0.1:255.255.255.0:arm64-01:eth0::1.1.1.1:8.8.8.8:10.98.0.1 talos.platform=metal console=ttyAMA0"; !strings.Contains(console, want) {
		t.Errorf("the kernel was not started with %q", want)
	}
}

// serveImage is an Image Factory that has one image.
func (s *site) serveImage(guest image.Image, address string) {
	s.t.Helper()
	listener, err := s.network.Listen(s.t.Context(), "tcp", address)
	if err != nil {
		s.t.Fatal(err)
	}
	mux := http.NewServeMux()
	for _, path := range []string{guest.Kernel, guest.Initramfs} {
		mux.HandleFunc(fmt.Sprintf("GET /image/%s/%s/%s", schematic, talosVersion, filepath.Base(path)), func(w http.ResponseWriter, r *http.Request) {
			http.ServeFile(w, r, path)
		})
	}
	factory := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = factory.Serve(listener) }()
	s.t.Cleanup(func() { _ = factory.Close() })
}
