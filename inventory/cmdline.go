package inventory

import (
	"fmt"
	"net/netip"
	"strings"
)

// maxCommandLine is what the kernel keeps of its command line, in bytes
// (COMMAND_LINE_SIZE is 2048 to 4096 by architecture; Talos documents 4096).
const maxCommandLine = 4096

// KernelCommandLine is what the node's kernel is started with, without the
// initrd= that iPXE adds:
//
//	ip=IP::GATEWAY:NETMASK:HOSTNAME:INTERFACE.VLAN::DNS0:DNS1:NTP vlan=INTERFACE.VLAN:INTERFACE KERNELARGS
//
// Without a vlan the interface stands alone and there is no vlan=. Without an
// ip there is neither, and Talos asks DHCP. IPv6 addresses are put in brackets,
// since colons separate the parts (kernel: Documentation/admin-guide/nfs;
// Talos reads the same form).
//
// It is empty for a node with secureBoot: the signed image has its own, and
// ignores what it is given.
func (n Node) KernelCommandLine() (string, error) {
	if n.SecureBoot {
		return "", nil
	}
	var parts []string
	if n.IP != "" {
		network, err := n.networkArgs()
		if err != nil {
			return "", err
		}
		parts = append(parts, network...)
	}
	if args := oneLine(n.KernelArgs); args != "" {
		parts = append(parts, args)
	}
	line := strings.Join(parts, " ")
	if len(line) > maxCommandLine {
		return "", fmt.Errorf("kernel command line of %s has %d bytes, the kernel takes %d: shorten kernelArgs", n.Name, len(line), maxCommandLine)
	}
	return line, nil
}

func (n Node) networkArgs() ([]string, error) {
	device := n.Interface
	if n.VLAN != "" {
		if n.Interface == "" {
			return nil, fmt.Errorf("kernel command line of %s: vlan %s has no interface: set interface", n.Name, n.VLAN)
		}
		device += "." + n.VLAN
	}
	addresses := make(map[string]string)
	for name, value := range map[string]string{"ip": n.IP, "gateway": n.Gateway, "dns0": n.DNS0, "dns1": n.DNS1} {
		bracketed, err := bracket(value)
		if err != nil {
			return nil, fmt.Errorf("kernel command line of %s: %s: %w: correct it", n.Name, name, err)
		}
		addresses[name] = bracketed
	}
	ntp, err := bracket(n.NTP)
	if err != nil {
		ntp = n.NTP // a hostname
	}
	ip := strings.Join([]string{
		addresses["ip"], "", addresses["gateway"], n.Netmask, n.Name, device, "", addresses["dns0"], addresses["dns1"], ntp,
	}, ":")
	// Everything that reaches ip= must be one word, or it would add
	// arguments of its own.
	if strings.ContainsAny(ip, " \t\r\n") {
		return nil, fmt.Errorf("kernel command line of %s: %q contains white space: correct the field", n.Name, ip)
	}
	args := []string{"ip=" + ip}
	if n.VLAN != "" {
		args = append(args, "vlan="+device+":"+n.Interface)
	}
	return args, nil
}

// bracket checks an address and puts an IPv6 one in brackets. An empty one
// stays empty.
func bracket(address string) (string, error) {
	if address == "" {
		return "", nil
	}
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return "", fmt.Errorf("%q is not an IP address", address)
	}
	if addr.Is6() {
		return "[" + address + "]", nil
	}
	return address, nil
}

// oneLine joins the lines of a block scalar; within a line the spaces stay.
func oneLine(args string) string {
	if strings.ContainsAny(args, "\r\n\t") {
		return strings.Join(strings.Fields(args), " ")
	}
	return strings.TrimSpace(args)
}
