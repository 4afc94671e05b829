package e2e_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/talos-provision/provision/e2e/qemu"
	"github.com/talos-provision/provision/e2e/qemu/image"
)

// bootserver is the program that runs the boot services alone.
var bootserver = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "provision-bootserver-")
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "bootserver")
	out, err := exec.CommandContext(context.Background(), "go", "build", "-race", "-o", program, "./bench/bootserver").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build bootserver: %w: %s", err, out)
	}
	return program, nil
})

// wire is a boot network with the boot services in it as a process, for
// clients that nobody here wrote.
type wire struct {
	t       *testing.T
	network *qemu.Network
	ipxeDir string
	dir     string
	log     *bytes.Buffer
	server  *qemu.Process
}

// newWire starts the boot services at 10.98.0.1, leasing in the subnet.
func newWire(t *testing.T, subnet string) *wire {
	t.Helper()
	if testing.Short() {
		t.Skip("starts programs in network namespaces: not in -short")
	}
	if err := qemu.Missing(); err != nil {
		lacking(t, err)
	}
	ipxe := image.FromEnvironment(os.Getenv).IPXEDir()
	if _, err := os.Stat(filepath.Join(ipxe, "snponly.efi")); err != nil {
		lacking(t, fmt.Errorf("%w: run e2e/deps.sh", err))
	}
	program, err := bootserver()
	if err != nil {
		t.Fatal(err)
	}
	network, err := qemu.NewNetwork(t.Context(), qemu.NetworkConfig{Addresses: []netip.Prefix{netip.MustParsePrefix(bootNetwork)}})
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t, network: network, ipxeDir: ipxe, dir: t.TempDir(), log: &bytes.Buffer{}}
	prefix := netip.MustParsePrefix(subnet)
	base := prefix.Addr().As4()
	first, last := base, base
	first[3], last[3] = 100, 250
	cmd := network.Command(t.Context(), program, "-address", "10.98.0.1", "-subnet", subnet,
		"-first", netip.AddrFrom4(first).String(), "-last", netip.AddrFrom4(last).String(),
		"-leases", filepath.Join(w.dir, "leases"), "-ipxe", ipxe, "-cache", filepath.Join(w.dir, "cache"), "-nodes", "10")
	cmd.Stderr = w.log
	if w.server, err = network.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
		if text := w.log.String(); strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic") {
			t.Errorf("the boot services:\n%s", text)
		}
	})
	w.awaitHTTP()
	return w
}

// awaitHTTP waits for the last service that is started.
func (w *wire) awaitHTTP() {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		conn, err := w.network.Dial(w.t.Context(), "tcp", "10.98.0.1:8080")
		if err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-w.server.Done():
			w.t.Fatalf("the boot services ended: %s", w.log)
		default:
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("the boot services do not answer: %v", err)
		}
	}
}

// addHost makes another host of a boot network: a namespace whose eth0 is in
// the bridge, with an address unless that is empty. It returns its name.
func addHost(t *testing.T, network *qemu.Network, name, address string) string {
	t.Helper()
	// Beside the network's own name, so that it is swept with it should this process be killed.
	ns := network.Name() + "-" + name
	mustIP(t, "netns", "add", ns)
	t.Cleanup(func() { _ = exec.CommandContext(context.Background(), "ip", "netns", "delete", ns).Run() })
	mustIP(t, "link", "add", name, "netns", network.Name(), "type", "veth", "peer", "name", "eth0", "netns", ns)
	mustIP(t, "-n", network.Name(), "link", "set", name, "master", qemu.Bridge)
	mustIP(t, "-n", network.Name(), "link", "set", name, "up")
	if address != "" {
		mustIP(t, "-n", ns, "address", "add", address, "dev", "eth0")
	}
	mustIP(t, "-n", ns, "link", "set", "lo", "up")
	mustIP(t, "-n", ns, "link", "set", "eth0", "up")
	return ns
}

func mustIP(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// need finds a program, also where Debian keeps those for the administrator.
func need(t *testing.T, program string) string {
	t.Helper()
	for _, path := range []string{program, "/usr/sbin/" + program, "/sbin/" + program} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	lacking(t, errors.New(program+" is missing: run e2e/deps.sh"))
	return ""
}

// in runs a program in a host and gives its output; a minute is plenty.
func in(t *testing.T, ns string, program string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", ns, program}, args...)...)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// udhcpc asks for a lease once, without a change to the host, and gives what it
// told its script.
func udhcpc(t *testing.T, ns string, options ...string) map[string]string {
	t.Helper()
	program, dir := need(t, "udhcpc"), t.TempDir()
	script, seen := filepath.Join(dir, "script"), filepath.Join(dir, "seen")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n[ \"$1\" = bound ] && env >"+seen+"\nexit 0\n"), 0o700); err != nil { //nolint:gosec // it must be executable
		t.Fatal(err)
	}
	out, err := in(t, ns, program, append([]string{"-i", "eth0", "-f", "-q", "-n", "-t", "8", "-T", "2", "-s", script}, options...)...)
	text, errSeen := os.ReadFile(seen)
	if err != nil || errSeen != nil {
		t.Fatalf("udhcpc got no lease: %v, %v\n%s", err, errSeen, out)
	}
	said := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		said[name] = value
	}
	return said
}

// What udhcpc as a PXE ROM is told is what curl then gets: by TFTP the binary of
// its architecture, by HTTP the script.
func TestWhatDHCPNamesIsServed(t *testing.T) {
	t.Parallel()
	w := newWire(t, "10.98.0.0/24")
	host, curl := addHost(t, w.network, "client", ""), need(t, "curl")
	mustIP(t, "-n", host, "address", "add", "10.98.0.9/24", "dev", "eth0") // for what follows the lease
	for class, want := range map[string]string{
		"PXEClient:Arch:00000:UNDI:002001": "undionly.kpxe",
		"PXEClient:Arch:00007:UNDI:003000": "snponly.efi",
		"PXEClient:Arch:00011:UNDI:003000": "ipxe-arm64.efi",
	} {
		arch := map[string]string{"00000": "0000", "00007": "0007", "00011": "000b"}[class[15:20]]
		said := udhcpc(t, host, "-V", class, "-x", "0x5d:"+arch, "-O", "bootfile", "-O", "tftp")
		if said["boot_file"] != want || said["siaddr"] != "10.98.0.1" {
			t.Errorf("%s is told boot_file %q at %q, want %q at 10.98.0.1", class, said["boot_file"], said["siaddr"], want)
			continue
		}
		for _, size := range []string{"512", "1468", "8192"} {
			target := filepath.Join(t.TempDir(), "got")
			if out, err := in(t, host, curl, "-sS", "--tftp-blksize", size, "-o", target, "tftp://"+said["siaddr"]+"/"+said["boot_file"]); err != nil {
				t.Errorf("curl, blocks of %s: %v: %s", size, err, out)
			} else if digest(t, target) != digest(t, filepath.Join(w.ipxeDir, want)) {
				t.Errorf("curl got another %s in blocks of %s", want, size)
			}
		}
	}
	script, err := in(t, host, curl, "-sS", "tftp://10.98.0.1/autoexec.ipxe")
	if err != nil || !strings.HasPrefix(script, "#!ipxe") || !strings.Contains(script, "http://10.98.0.1:8080/boot.ipxe") {
		t.Errorf("autoexec.ipxe by TFTP: %v:\n%s", err, script)
	}
	said := udhcpc(t, host, "-V", "HTTPClient:Arch:00016:UNDI:003000", "-x", "0x5d:0010", "-O", "bootfile", "-O", "vendor")
	if !strings.HasPrefix(said["boot_file"], "http://10.98.0.1:8080/") || !strings.HasSuffix(said["boot_file"], "snponly.efi") {
		t.Fatalf("a UEFI HTTP client is told %q", said["boot_file"])
	}
	target := filepath.Join(t.TempDir(), "got")
	if out, err := in(t, host, curl, "-sSf", "-o", target, said["boot_file"]); err != nil || digest(t, target) != digest(t, filepath.Join(w.ipxeDir, "snponly.efi")) {
		t.Errorf("curl did not get the binary by HTTP: %v: %s", err, out)
	}
	if got := udhcpc(t, host); got["boot_file"] != "" || got["siaddr"] != "" {
		t.Errorf("an ordinary client is told boot_file %q at %q", got["boot_file"], got["siaddr"])
	}
}

func digest(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// tftp-hpa's client reads in both modes, is told of a missing file at once, and
// may not write.
func TestTFTPHPA(t *testing.T) {
	t.Parallel()
	w := newWire(t, "10.98.0.0/24")
	program, host := need(t, "tftp"), addHost(t, w.network, "client", "10.98.0.9/24")
	for _, mode := range []string{"binary", "netascii"} {
		target := filepath.Join(t.TempDir(), "got")
		out, err := in(t, host, program, "-4", "-m", mode, "10.98.0.1", "-c", "get", "snponly.efi", target)
		if err != nil {
			t.Fatalf("%s: %v: %s", mode, err, out)
		}
		if mode == "binary" && digest(t, target) != digest(t, filepath.Join(w.ipxeDir, "snponly.efi")) {
			t.Error("the file arrived changed")
		}
	}
	began := time.Now()
	if out, _ := in(t, host, program, "-4", "-m", "binary", "10.98.0.1", "-c", "get", "pxelinux.cfg/default"); !strings.Contains(out, "Error code 1") {
		t.Errorf("a missing file: %s", out)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("a missing file took %s to be refused", took)
	}
	if out, _ := in(t, host, program, "-4", "-m", "binary", "10.98.0.1", "-c", "put", "/etc/hostname", "snponly.efi"); !strings.Contains(out, "Error code") {
		t.Errorf("a write: %s", out)
	}
}

// dhclient binds, and a second start of it takes the same lease up again.
func TestDhclientKeepsItsLease(t *testing.T) {
	t.Parallel()
	w := newWire(t, "10.98.0.0/24")
	program, host, dir := need(t, "dhclient"), addHost(t, w.network, "client", ""), t.TempDir()
	script := filepath.Join(dir, "script")
	seen := filepath.Join(dir, "seen")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n[ -n \"$new_ip_address\" ] && echo $reason $new_ip_address $new_dhcp_lease_time >>"+seen+"\nexit 0\n"), 0o700); err != nil { //nolint:gosec // it must be executable
		t.Fatal(err)
	}
	for range 2 {
		out, err := in(t, host, program, "-4", "-1", "-v", "-sf", script, "-cf", "/dev/null", "-lf", filepath.Join(dir, "leases"), "-pf", filepath.Join(dir, "pid"), "eth0")
		if err != nil {
			t.Fatalf("dhclient: %v: %s", err, out)
		}
		// It has gone into the background, which this ends without giving the lease up.
		if out, err := in(t, host, program, "-4", "-x", "-sf", script, "-cf", "/dev/null", "-lf", filepath.Join(dir, "leases"), "-pf", filepath.Join(dir, "pid"), "eth0"); err != nil {
			t.Fatalf("dhclient -x: %v: %s", err, out)
		}
	}
	text, err := os.ReadFile(seen)
	if want := "BOUND 10.98.0.100 3600\nREBOOT 10.98.0.100 3600\n"; err != nil || string(text) != want {
		t.Errorf("dhclient said %q (%v), want %q", text, err, want)
	}
}

// perfdhcp plays a relay with a hundred machines behind it. Nothing gets lost at
// a rate far above any fleet's.
func TestPerfdhcpLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWire(t, "10.98.0.0/24")
	program, host := need(t, "perfdhcp"), addHost(t, w.network, "client", "10.98.0.9/24")
	// Its status is not 0 when something was lost.
	out, err := in(t, host, program, "-4", "-l", "10.98.0.9", "-R", "100", "-r", "100", "-n", "400", "-d", "5", "-W", "5000000", "10.98.0.1")
	received := regexp.MustCompile(`(?m)^received packets: (\d+)`).FindAllStringSubmatch(out, -1)
	if err != nil || len(received) != 2 {
		t.Fatalf("perfdhcp: %v\n%s", err, out)
	}
	for _, drops := range regexp.MustCompile(`(?m)^drops: (\d+)`).FindAllStringSubmatch(out, -1) {
		if drops[1] != "0" {
			t.Errorf("perfdhcp lost %s answers:\n%s", drops[1], out)
		}
	}
}

// Real relay agents stand between a machine and the server: ISC's with option
// 82, and dnsmasq's without. The machine gets an address of its own network.
func TestRelays(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]func(*testing.T) []string{
		"dhcrelay with option 82": func(t *testing.T) []string {
			t.Helper()
			program := filepath.Join(image.FromEnvironment(os.Getenv).Cache, "dhcrelay/usr/sbin/dhcrelay")
			if _, err := os.Stat(program); err != nil {
				program = need(t, "dhcrelay")
			}
			return []string{program, "-4", "-d", "-a", "-id", "inner", "-iu", "eth0", "10.98.0.1"}
		},
		"dnsmasq": func(t *testing.T) []string {
			t.Helper()
			return []string{need(t, "dnsmasq"), "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--group=root", "--pid-file=",
				"--port=0", "--log-facility=-", "--dhcp-relay=10.97.0.1,10.98.0.1"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t, "10.97.0.0/24")
			relay := addHost(t, w.network, "relay", "10.98.0.7/24")
			client := w.network.Name() + "-behind"
			mustIP(t, "netns", "add", client)
			t.Cleanup(func() { _ = exec.CommandContext(context.Background(), "ip", "netns", "delete", client).Run() })
			mustIP(t, "link", "add", "inner", "netns", relay, "type", "veth", "peer", "name", "eth0", "netns", client)
			mustIP(t, "-n", relay, "address", "add", "10.97.0.1/24", "dev", "inner")
			mustIP(t, "-n", relay, "link", "set", "inner", "up")
			mustIP(t, "-n", client, "link", "set", "eth0", "up")
			// The server's way back to the relay's address in the other network.
			mustIP(t, "-n", w.network.Name(), "route", "add", "10.97.0.0/24", "via", "10.98.0.7")

			args := command(t)
			cmd := exec.CommandContext(t.Context(), "ip", append([]string{"netns", "exec", relay}, args...)...)
			var log bytes.Buffer
			cmd.Stdout, cmd.Stderr = &log, &log
			process, err := w.network.Start(cmd)
			if err != nil {
				t.Fatal(err)
			}
			said := udhcpc(t, client, "-V", "PXEClient:Arch:00007:UNDI:003000", "-x", "0x5d:0007", "-O", "bootfile")
			if err := process.Kill(); err != nil {
				t.Fatal(err)
			}
			if said["ip"] != "10.97.0.100" || said["boot_file"] != "snponly.efi" || said["siaddr"] != "10.98.0.1" {
				t.Errorf("behind the relay: ip %q, boot_file %q at %q\n%s", said["ip"], said["boot_file"], said["siaddr"], log.String())
			}
		})
	}
}
