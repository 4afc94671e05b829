package doctor

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/e2e/qemu"
)

// boot is a network namespace with the bridge br0, 10.98.0.1/24, of its own.
func boot(t *testing.T, addresses ...string) *qemu.Network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	config := qemu.NetworkConfig{}
	for _, a := range addresses {
		config.Addresses = append(config.Addresses, netip.MustParsePrefix(a))
	}
	network, err := qemu.NewNetwork(t.Context(), config)
	if err != nil {
		t.Skipf("cannot make a network namespace here: %v", err)
	}
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	return network
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func TestTheInterfaceAndItsAddresses(t *testing.T) {
	t.Parallel()
	network := boot(t, "10.98.0.1/24", "10.97.0.1/24")
	ns := network.Name()
	// An empty bridge has no carrier; these do.
	for _, link := range []string{"two", "none", "small"} {
		ip(t, "-n", ns, "link", "add", link, "type", "veth", "peer", "name", link+"p")
		ip(t, "-n", ns, "link", "set", link, "up")
		ip(t, "-n", ns, "link", "set", link+"p", "up")
	}
	ip(t, "-n", ns, "address", "add", "10.96.0.1/24", "dev", "two")
	ip(t, "-n", ns, "address", "add", "10.96.0.2/24", "dev", "two")
	ip(t, "-n", ns, "link", "set", "small", "mtu", "1400")
	ip(t, "-n", ns, "address", "add", "10.95.0.1/24", "dev", "small")
	ip(t, "-n", ns, "link", "add", "off", "type", "bridge")

	other := []netip.Prefix{netip.MustParsePrefix("172.16.0.0/12")}
	for name, tc := range map[string]struct {
		options Options
		want    []Result
		says    string
	}{
		"nothing is said":          {Options{}, []Result{Fail}, "neither network.interface nor"},
		"no such interface":        {Options{Interfaces: []string{"eth99"}}, []Result{Fail}, "no such network interface"},
		"down":                     {Options{Interfaces: []string{"off"}}, []Result{Fail, Fail}, "down"},
		"found by its address":     {Options{Address: netip.MustParseAddr("10.96.0.2")}, []Result{OK, OK}, "10.96.0.2/24"},
		"two addresses":            {Options{Interfaces: []string{"two"}}, []Result{OK, Fail}, "which one machines shall use"},
		"one of two":               {Options{Interfaces: []string{"two"}, Address: netip.MustParseAddr("10.96.0.1")}, []Result{OK, OK}, "10.96.0.1/24"},
		"not its address":          {Options{Interfaces: []string{"two"}, Address: netip.MustParseAddr("10.96.0.9")}, []Result{OK, Fail}, "not among"},
		"no address":               {Options{Interfaces: []string{"none"}}, []Result{OK, Fail}, "no IPv4 address"},
		"small frames":             {Options{Interfaces: []string{"small"}}, []Result{OK, Fail, OK}, "its MTU is 1400"},
		"in none of the subnets":   {Options{Interfaces: []string{"small"}, Mode: ModeServer, Subnets: other}, []Result{OK, Fail, OK, Warn}, "only relayed requests"},
		"several interfaces":       {Options{Interfaces: []string{"two", "none"}, Address: netip.MustParseAddr("10.96.0.1")}, []Result{OK, OK, OK, Fail}, "no IPv4 address"},
		"loopback":                 {Options{Interfaces: []string{"lo"}}, []Result{OK, Warn}, "loopback"},
		"nobody has that address":  {Options{Address: netip.MustParseAddr("192.0.2.1")}, []Result{Fail}, "no interface has"},
		"an emulated fleet's host": {Options{Address: netip.MustParseAddr("127.9.0.1")}, []Result{OK, Warn}, "emulated"},
	} {
		t.Run(name, func(t *testing.T) {
			var found []Finding
			err := network.Do(func() error {
				h := newHost(tc.options)
				found = append(eachLink(checkInterface)(t.Context(), h), eachLink(checkAddress)(t.Context(), h)...)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			sound(t, found)
			said := ""
			for _, f := range found {
				said += f.Message + "\n"
			}
			if !slices.Equal(results(found), tc.want) || !strings.Contains(said, tc.says) {
				t.Errorf("found %+v, want %v: %s", found, tc.want, tc.says)
			}
		})
	}
}

// Real dnsmasq as the other server: found with its address and its boot file.
// Our own host's answers are none of a rival.
func TestAnotherDHCPServerIsFound(t *testing.T) {
	t.Parallel()
	program := ""
	for _, path := range []string{"dnsmasq", "/usr/sbin/dnsmasq"} {
		if found, err := exec.LookPath(path); err == nil {
			program = found
		}
	}
	if program == "" {
		if os.Getenv("E2E") == "required" {
			t.Fatal("dnsmasq is missing: run e2e/deps.sh")
		}
		t.Skip("dnsmasq is missing: run e2e/deps.sh")
	}
	network := boot(t, "10.98.0.1/24")
	rival := network.Name() + "-rival"
	ip(t, "netns", "add", rival)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", rival).Run() }) //nolint:noctx // the test's context has ended
	ip(t, "link", "add", "rival", "netns", network.Name(), "type", "veth", "peer", "name", "eth0", "netns", rival)
	ip(t, "-n", network.Name(), "link", "set", "rival", "master", qemu.Bridge)
	ip(t, "-n", network.Name(), "link", "set", "rival", "up")
	ip(t, "-n", rival, "address", "add", "10.98.0.3/24", "dev", "eth0")
	ip(t, "-n", rival, "link", "set", "eth0", "up")

	look := func(o Options) []Finding {
		var found []Finding
		o.Interfaces = []string{qemu.Bridge}
		if err := network.Do(func() error { found = eachLink(checkDHCP)(t.Context(), newHost(o)); return nil }); err != nil {
			t.Fatal(err)
		}
		return found
	}
	if found := look(Options{Mode: ModeServer, ProbeTime: 200 * time.Millisecond}); len(found) != 1 || found[0].Result != OK {
		t.Errorf("in an empty network: %+v", found)
	}

	cmd := exec.CommandContext(t.Context(), "ip", "netns", "exec", rival, program, "--keep-in-foreground", "--conf-file=/dev/null",
		"--user=root", "--group=root", "--pid-file=", "--port=0", "--interface=eth0", "--bind-interfaces", "--no-ping",
		"--dhcp-range=10.98.0.60,10.98.0.80,1h", "--dhcp-boot=bogus.efi", "--dhcp-leasefile="+filepath.Join(t.TempDir(), "leases"), "--log-facility=-")
	if _, err := network.Start(cmd); err != nil {
		t.Fatal(err)
	}
	var found []Finding
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		if found = look(Options{Mode: ModeServer, ProbeTime: 500 * time.Millisecond}); found[0].Result == Fail {
			break // until dnsmasq has started
		}
	}
	if !strings.Contains(found[0].Message, "10.98.0.3") {
		t.Errorf("found %+v", found)
	}
	if found := look(Options{Mode: ModeProxy, ProbeTime: time.Second}); found[0].Result != Warn || !strings.Contains(found[0].Message, "10.98.0.3 (bogus.efi)") {
		t.Errorf("its boot file was not seen: %+v", found)
	}
	if found := look(Options{Mode: ModeServer, Address: netip.MustParseAddr("10.98.0.3"), ProbeTime: 500 * time.Millisecond}); found[0].Result != OK {
		t.Errorf("an answer of this host itself counts as a rival's: %+v", found)
	}
}

// FuzzToClient faces the network: packets that cannot be must not harm.
func FuzzToClient(f *testing.F) {
	good := append([]byte{0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 255, 255, 255, 255, 0, 67, 0, 68, 0, 12, 0, 0}, "DHCP"...)
	f.Add(good)
	f.Add(good[:20])
	f.Add([]byte{})
	f.Add(append([]byte{0x4f}, good[1:]...))
	f.Fuzz(func(t *testing.T, packet []byte) {
		payload, is := toClient(packet)
		if is && len(payload) > len(packet)-ipHeader-udpHeader {
			t.Errorf("%d bytes of payload in a packet of %d", len(payload), len(packet))
		}
	})
	if payload, is := toClient(good); !is || string(payload) != "DHCP" {
		f.Errorf("payload %q", payload)
	}
}

// RFC 1071's own example, and a header that sums to zero with its checksum in.
func TestChecksum(t *testing.T) {
	t.Parallel()
	if got := checksum([]byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}); got != ^uint16(0xddf2) {
		t.Errorf("checksum %04x", got)
	}
}

// Without the right to see packets the doctor says so.
func TestWithoutAnInterfaceNobodyIsAsked(t *testing.T) {
	t.Parallel()
	loopback, err := net.InterfaceByName("lo")
	if err != nil {
		t.Skip("no loopback interface")
	}
	if found := eachLink(checkDHCP)(t.Context(), newHost(Options{Interfaces: []string{loopback.Name}})); len(found) != 0 {
		t.Errorf("found %+v", found)
	}
}
