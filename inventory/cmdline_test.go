package inventory_test

import (
	"strings"
	"testing"

	"github.com/talos-provision/provision/inventory"
)

func TestKernelCommandLine(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		node inventory.Node
		want string
	}{
		"with a vlan": {
			inventory.Node{
				Name: "node-02", IP: "10.0.0.2", Gateway: "10.0.0.254", Netmask: "255.255.255.0", Interface: "eth0", VLAN: "7",
				DNS0: "1.1.1.1", DNS1: "8.8.8.8", NTP: "pool.ntp.org", KernelArgs: "a=1 b",
			},
			"ip=10.0.0.2::10.0.0.254:255.255.255.0:node-02:eth0.7::1.1.1.1:8.8.8.8:pool.ntp.org vlan=eth0.7:eth0 a=1 b",
		},
		"without": {
			inventory.Node{Name: "node-02", IP: "10.0.0.2", Gateway: "10.0.0.254", Netmask: "24", Interface: "eth0", KernelArgs: "a=1"},
			"ip=10.0.0.2::10.0.0.254:24:node-02:eth0:::: a=1",
		},
		"without an ip Talos asks DHCP": {
			inventory.Node{Name: "node-02", Interface: "eth0", VLAN: "7", KernelArgs: "a=1"}, "a=1",
		},
		"IPv6": {
			inventory.Node{
				Name: "node-02", IP: "fd00::2", Gateway: "fe80::1", Netmask: "64", Interface: "eth0", DNS0: "2606:4700:4700::1111", NTP: "fd00::123",
			},
			"ip=[fd00::2]::[fe80::1]:64:node-02:eth0::[2606:4700:4700::1111]::[fd00::123]",
		},
		"lines of a block are joined": {inventory.Node{Name: "n", KernelArgs: "a=1\n  b=2\n"}, "a=1 b=2"},
		"nothing at all":              {inventory.Node{Name: "n"}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := test.node.KernelCommandLine()
			if err != nil || got != test.want {
				t.Errorf("got  %q %v\nwant %q", got, err, test.want)
			}
		})
	}
}

func TestKernelCommandLineRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]inventory.Node{
		"kernel command line of n: vlan 7 has no interface: set interface":                                              {Name: "n", IP: "10.0.0.1", VLAN: "7"},
		"kernel command line of n: ip: \"10.0.0\" is not an IP address: correct it":                                     {Name: "n", IP: "10.0.0"},
		"kernel command line of n: \"10.0.0.1::::n:eth0 init=/bin/sh::::\" contains white space: correct the field":     {Name: "n", IP: "10.0.0.1", Interface: "eth0 init=/bin/sh"},
		"kernel command line of n has 5000 bytes, the kernel takes 4096: shorten kernelArgs":                            {Name: "n", KernelArgs: strings.Repeat("x", 5000)},
		"kernel command line of n: \"10.0.0.1::::n:::::\\nkernel http://evil\" contains white space: correct the field": {Name: "n", IP: "10.0.0.1", NTP: "\nkernel http://evil"},
		"kernel command line of n: dns1: \"dns.example.com\" is not an IP address: correct it":                          {Name: "n", IP: "10.0.0.1", DNS1: "dns.example.com"},
	}
	for want, n := range tests {
		if line, err := n.KernelCommandLine(); err == nil || err.Error() != want {
			t.Errorf("got  %q, %v\nwant %s", line, err, want)
		}
	}
}
