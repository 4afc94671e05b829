package render_test

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory/render"
)

func reference() render.DNSMasq {
	return render.DNSMasq{
		Interfaces: []string{"eth1"}, TFTPRoot: "/srv/tftp", Script: "boot.ipxe", Source: "provision.yaml",
		Subnets: []render.Subnet{{
			CIDR: netip.MustParsePrefix("192.168.42.0/24"), First: netip.MustParseAddr("192.168.42.100"), Last: netip.MustParseAddr("192.168.42.200"),
			Gateway: netip.MustParseAddr("192.168.42.1"), DNS: []netip.Addr{netip.MustParseAddr("1.1.1.1"), netip.MustParseAddr("8.8.8.8")},
		}},
	}
}

// A full DHCP server with 101 addresses and leases of 12 hours, as the
// reference design has it.
func TestTheReferenceDNSMasq(t *testing.T) {
	t.Parallel()
	got, err := reference().Render()
	if err != nil {
		t.Fatal(err)
	}
	var settings []string
	for _, line := range strings.Split(got, "\n") {
		if line != "" && line[0] != '#' {
			settings = append(settings, line)
		}
	}
	want := []string{
		"port=0", "interface=eth1", "bind-interfaces", "dhcp-ignore-clid", "dhcp-sequential-ip", "no-ping", "log-dhcp",
		"dhcp-range=set:net0,192.168.42.100,192.168.42.200,255.255.255.0,43200",
		"dhcp-option=tag:net0,option:router,192.168.42.1",
		"dhcp-option=tag:net0,option:dns-server,1.1.1.1,8.8.8.8",
		"dhcp-match=set:ipxe,175", "dhcp-userclass=set:ipxe,iPXE",
		"dhcp-match=set:bios,option:client-arch,0",
		"dhcp-match=set:efi64,option:client-arch,7", "dhcp-match=set:efi64,option:client-arch,9",
		"dhcp-match=set:arm64,option:client-arch,11", "dhcp-match=set:arm64,option:client-arch,22",
		"dhcp-boot=tag:!ipxe,tag:bios,undionly.kpxe",
		"dhcp-boot=tag:!ipxe,tag:efi64,snponly.efi",
		"dhcp-boot=tag:!ipxe,tag:arm64,ipxe-arm64.efi",
		"dhcp-boot=tag:ipxe,boot.ipxe",
		"dhcp-option-force=tag:ipxe,encap:175,176,1b",
		"enable-tftp", "tftp-root=/srv/tftp", "tftp-max=500",
	}
	if diff := cmp.Diff(want, settings); diff != "" {
		t.Error(diff)
	}
}

// What is written is what the real dnsmasq reads.
func TestDNSMasqAcceptsItsConfiguration(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("dnsmasq")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/dnsmasq")
	}
	if err != nil {
		if os.Getenv("E2E") == "required" {
			t.Fatal("dnsmasq is not here: install Debian's package dnsmasq-base")
		}
		t.Skip("dnsmasq is not here: install Debian's package dnsmasq-base")
	}
	for name, change := range map[string]func(*render.DNSMasq){
		"reference":        func(*render.DNSMasq) {},
		"by address":       func(d *render.DNSMasq) { d.Interfaces, d.Address = nil, netip.MustParseAddr("192.168.42.10") },
		"script over HTTP": func(d *render.DNSMasq) { d.Script = "http://192.168.42.10:8080/boot.ipxe?a=b&c=d" },
		"without options":  func(d *render.DNSMasq) { d.Subnets[0].Gateway, d.Subnets[0].DNS = netip.Addr{}, nil },
		"several and large": func(d *render.DNSMasq) {
			d.Subnets = append(d.Subnets, render.Subnet{
				CIDR: netip.MustParsePrefix("10.0.0.0/16"), First: netip.MustParseAddr("10.0.1.0"), Last: netip.MustParseAddr("10.0.99.255"), Lease: time.Hour,
			}, render.Subnet{CIDR: netip.MustParsePrefix("10.1.0.0/16")})
		},
		"two ports":      func(d *render.DNSMasq) { d.Interfaces = []string{"eth1", "eth2.7"}; d.Authoritative = true },
		"strange source": func(d *render.DNSMasq) { d.Source = "a\ninterface=lo\x00é" },
	} {
		d := reference()
		change(&d)
		text, err := d.Render()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		file := filepath.Join(t.TempDir(), "dnsmasq.conf")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), program, "--test", "--conf-file="+file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s\n%s", name, err, out, text)
		}
	}
}

func TestWhatADNSMasqConfigurationCannotHoldIsRefused(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*render.DNSMasq){
		"set network.interface":       func(d *render.DNSMasq) { d.Interfaces = nil },
		"correct network.interface":   func(d *render.DNSMasq) { d.Interfaces = []string{"eth0", "eth1\nport=53"} },
		"TFTP root":                   func(d *render.DNSMasq) { d.TFTPRoot = "tftp" },
		"script":                      func(d *render.DNSMasq) { d.Script = "a,b" },
		"without a user":              func(d *render.DNSMasq) { d.Script = "http://u:p@h/x" },
		"no subnet has addresses":     func(d *render.DNSMasq) { d.Subnets = nil },
		"not an IPv4 network":         func(d *render.DNSMasq) { d.Subnets[0].CIDR = netip.MustParsePrefix("fd00::/64") },
		"not inside it":               func(d *render.DNSMasq) { d.Subnets[0].Last = netip.MustParseAddr("192.168.43.1") },
		"in rising order":             func(d *render.DNSMasq) { d.Subnets[0].Last = netip.MustParseAddr("192.168.42.9") },
		"less than 2 minutes":         func(d *render.DNSMasq) { d.Subnets[0].Lease = time.Minute },
		"interface nor IPv4 address:": func(d *render.DNSMasq) { d.Interfaces, d.Address = nil, netip.MustParseAddr("fd00::1") },
	} {
		d := reference()
		change(&d)
		if _, err := d.Render(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
