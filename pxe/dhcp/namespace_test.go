package dhcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/talos-provision/provision/e2e/needs"
)

// lab is two network namespaces joined by a cable: a server with the address
// 10.98.0.1/24 and a client without one. Both are removed after the test.
type lab struct {
	t              *testing.T
	server, client string
	problems       chan Problem
}

const labInterface = "eth0" // in both namespaces

func newLab(t *testing.T) *lab {
	t.Helper()
	if os.Getuid() != 0 {
		needs.Lacking(t, "needs root to make network namespaces")
	}
	needs.Program(t, "ip")
	// The name is unique to this process and test; ip limits it to a file name.
	name := fmt.Sprintf("dhcp%d-%d", os.Getpid(), time.Now().UnixNano()%1_000_000_000)
	l := &lab{t: t, server: name + "s", client: name + "c", problems: make(chan Problem, 100)}
	for _, ns := range []string{l.server, l.client} {
		if out, err := exec.CommandContext(t.Context(), "ip", "netns", "add", ns).CombinedOutput(); err != nil {
			needs.Lacking(t, "cannot make network namespaces here: %s", out)
		}
		t.Cleanup(func() { _ = exec.CommandContext(context.Background(), "ip", "netns", "del", ns).Run() })
	}
	l.plug()
	return l
}

// plug joins the namespaces by a new cable.
func (l *lab) plug() {
	l.t.Helper()
	l.run("ip", "link", "add", labInterface, "netns", l.server, "type", "veth", "peer", "name", labInterface, "netns", l.client)
	l.run("ip", "-n", l.server, "addr", "add", "10.98.0.1/24", "dev", labInterface)
	for _, ns := range []string{l.server, l.client} {
		l.run("ip", "-n", ns, "link", "set", "lo", "up")
		l.run("ip", "-n", ns, "link", "set", labInterface, "up")
	}
}

func (l *lab) run(args ...string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	if err != nil {
		l.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// wireOptions are those Options that a server process is given.
type wireOptions struct {
	Mode       Mode
	Interfaces []string
	Assertive  bool
	Unicast    bool
}

// observed is one line of a server process: a lease or a problem.
type observed struct {
	Lease   *Lease   `json:",omitempty"`
	Problem *Problem `json:",omitempty"`
}

// serve runs this test binary as a server in the server's namespace. It
// returns the leases that the server reports; problems are in l.problems.
func (l *lab) serve(o wireOptions) <-chan Lease {
	l.t.Helper()
	options, err := json.Marshal(o)
	if err != nil {
		l.t.Fatal(err)
	}
	cmd := exec.CommandContext(l.t.Context(), "ip", "netns", "exec", l.server, os.Args[0], "-test.run=^TestNamespaceServer$")
	cmd.Env = append(os.Environ(), envNamespace+"="+string(options))
	cmd.Cancel = func() error { return cmd.Process.Kill() } // ip becomes the server by exec
	out, err := cmd.StdoutPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	leases := make(chan Lease, 100)
	ready := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if lines.Text() == "ready" {
				close(ready)
				continue
			}
			var o observed
			if json.Unmarshal(lines.Bytes(), &o) != nil {
				continue
			}
			if o.Lease != nil {
				offer(leases, *o.Lease)
			}
			if o.Problem != nil {
				offer(l.problems, *o.Problem)
			}
		}
	})
	l.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		done.Wait()
		_ = cmd.Wait()
	})
	select {
	case <-ready:
	case <-time.After(20 * time.Second):
		l.t.Fatal("the server did not start")
	}
	return leases
}

// offer sends to a test that may not listen.
func offer[T any](to chan<- T, v T) {
	select {
	case to <- v:
	default:
	}
}

const envNamespace = "DHCP_TEST_NAMESPACE"

// TestNamespaceServer is no test: it is the body of lab.serve.
func TestNamespaceServer(t *testing.T) {
	text, set := os.LookupEnv(envNamespace)
	if !set {
		t.Skip("runs only as a helper process of other tests")
	}
	var w wireOptions
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	tell := func(o observed) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(o)
	}
	o := Options{
		Mode: w.Mode, Interfaces: w.Interfaces, Assertive: w.Assertive, Unicast: w.Unicast, BootPort: 8080,
		OnLease: func(l Lease) { tell(observed{Lease: &l}) }, OnProblem: func(p Problem) { tell(observed{Problem: &p}) },
		Subnets: []Subnet{{
			CIDR: netip.MustParsePrefix("10.98.0.0/24"), First: netip.MustParseAddr("10.98.0.100"), Last: netip.MustParseAddr("10.98.0.120"),
			Gateway: netip.MustParseAddr("10.98.0.1"), DNS: []netip.Addr{netip.MustParseAddr("1.1.1.1")},
		}},
	}
	for _, net := range []string{"10.99.0", "10.20.0"} {
		o.Subnets = append(o.Subnets, Subnet{CIDR: netip.MustParsePrefix(net + ".0/24"), First: netip.MustParseAddr(net + ".100"), Last: netip.MustParseAddr(net + ".120")})
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	fmt.Println("ready")
	_ = s.Serve(t.Context())
}

// udhcpc finds a client that nobody here wrote.
func udhcpc(t *testing.T) []string {
	t.Helper()
	if path, err := exec.LookPath("udhcpc"); err == nil {
		return []string{path}
	}
	return []string{program(t, "busybox"), "udhcpc"}
}

// lease runs udhcpc once in the client's namespace and returns what it told its script.
func (l *lab) lease(args ...string) map[string]string {
	l.t.Helper()
	return l.leaseOn(labInterface, args...)
}

func (l *lab) leaseOn(device string, args ...string) map[string]string {
	l.t.Helper()
	folder := l.t.TempDir()
	script, seen := filepath.Join(folder, "script"), filepath.Join(folder, "seen")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n[ \"$1\" = bound ] && env > "+seen+"\nexit 0\n"), 0o755); err != nil {
		l.t.Fatal(err)
	}
	command := append([]string{"ip", "netns", "exec", l.client}, udhcpc(l.t)...)
	command = append(command, "-i", device, "-f", "-q", "-n", "-t", "10", "-T", "1", "-s", script)
	l.run(append(command, args...)...)
	content, err := os.ReadFile(seen)
	if err != nil {
		l.t.Fatalf("udhcpc got no lease: %v", err)
	}
	environment := map[string]string{}
	for line := range strings.Lines(string(content)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		environment[name] = value
	}
	return environment
}

func want(t *testing.T, got map[string]string, wanted map[string]string) {
	t.Helper()
	for name, value := range wanted {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
}

func TestUdhcpcOnAWire(t *testing.T) {
	t.Parallel()
	udhcpc(t)
	for name, o := range map[string]wireOptions{"wildcard": {}, "bound to the interface": {Interfaces: []string{labInterface}}, "frames to clients without an address": {Unicast: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			leases := l.serve(o)
			want(t, l.lease(), map[string]string{
				"ip": "10.98.0.100", "subnet": "255.255.255.0", "router": "10.98.0.1", "dns": "1.1.1.1", "lease": "3600",
				"serverid": "10.98.0.1", "boot_file": "", "siaddr": "",
			})
			// The same machine as a PXE ROM and as iPXE keeps its address.
			want(t, l.lease("-V", "PXEClient:Arch:00007:UNDI:003000", "-x", "0x5d:0007", "-O", "bootfile"), map[string]string{
				"ip": "10.98.0.100", "boot_file": "snponly.efi", "siaddr": "10.98.0.1",
			})
			want(t, l.lease("-V", "PXEClient:Arch:00000:UNDI:002001", "-x", "0x5d:0000", "-x", "0x4d:69505845"), map[string]string{
				"ip": "10.98.0.100", "boot_file": "http://10.98.0.1:8080/autoexec.ipxe", "siaddr": "10.98.0.1",
			})
			classes := make([]Class, 6)
			for i := range classes {
				classes[i] = (<-leases).Class
			}
			if got := fmt.Sprint(classes); got != "[plain plain pxe pxe ipxe ipxe]" {
				t.Errorf("classes %s", got)
			}
		})
	}
}

func TestInterfaceThatIsReplacedIsServedAgain(t *testing.T) {
	t.Parallel()
	udhcpc(t)
	l := newLab(t)
	l.serve(wireOptions{Interfaces: []string{labInterface}})
	l.lease()
	l.run("ip", "-n", l.server, "link", "set", labInterface, "down")
	l.run("ip", "-n", l.server, "link", "set", labInterface, "up")
	want(t, l.lease(), map[string]string{"ip": "10.98.0.100"})
	l.run("ip", "-n", l.server, "link", "del", labInterface)
	l.plug()
	if got := l.lease(); !strings.HasPrefix(got["ip"], "10.98.0.1") {
		t.Errorf("after the replacement of the interface: %v", got["ip"])
	}
}

// dhclient speaks RFC 2131 in its own way: raw socket, client id, REBOOT from
// its lease file.
func TestDhclientOnAWire(t *testing.T) {
	t.Parallel()
	path := program(t, "dhclient")
	l := newLab(t)
	l.serve(wireOptions{})
	folder := t.TempDir()
	script, seen := filepath.Join(folder, "script"), filepath.Join(folder, "seen")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n[ -n \"$new_ip_address\" ] && echo $reason $new_ip_address > "+seen+".new && mv "+seen+".new "+seen+"\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, reason := range []string{"BOUND", "REBOOT"} {
		_ = os.Remove(seen)
		cmd := exec.CommandContext(t.Context(), "ip", "netns", "exec", l.client, path, "-4", "-d", "-sf", script, "-cf", "/dev/null",
			"-lf", filepath.Join(folder, "leases"), "-pf", filepath.Join(folder, "pid"), labInterface)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		got := waitForFile(t, seen, "")
		waitForFile(t, filepath.Join(folder, "leases"), "10.98.0.100") // written after the script ran
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if got != reason+" 10.98.0.100" {
			t.Errorf("dhclient says %q, want %s of 10.98.0.100", got, reason)
		}
	}
}

// waitForFile waits until the file is there and holds the text.
func waitForFile(t *testing.T, path, text string) string {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if content, err := os.ReadFile(path); err == nil && strings.Contains(string(content), text) {
			return strings.TrimSpace(string(content))
		}
	}
	t.Fatalf("%s with %q did not appear", path, text)
	return ""
}
