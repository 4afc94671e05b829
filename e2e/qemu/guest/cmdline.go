package main

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/siderolabs/talos/pkg/machinery/nethelpers"
)

// cmdline is the kernel command line, split at white space.
type cmdline []string

// values returns the values of every NAME=VALUE argument, in order.
func (c cmdline) values(name string) []string {
	var out []string
	for _, arg := range c {
		if value, ok := strings.CutPrefix(arg, name+"="); ok {
			out = append(out, value)
		}
	}
	return out
}

// first returns the first value of an argument, or the fallback.
func (c cmdline) first(name, fallback string) string {
	if all := c.values(name); len(all) > 0 {
		return all[0]
	}
	return fallback
}

// linkConfig is what one ip= argument asks of one link.
type linkConfig struct {
	// Link is the interface's name; empty means the first one.
	Link    string
	Address netip.Prefix
	Gateway netip.Addr
	DHCP    bool
}

// vlanConfig is what the vlan= argument asks for.
type vlanConfig struct {
	Name, Parent string
	ID           uint16
}

// networkConfig is the network part of the command line.
type networkConfig struct {
	Hostname string
	Links    []linkConfig
	VLAN     *vlanConfig
}

// parseNetwork reads ip=, vlan= and talos.hostname= by the rules of Talos
// (ParseCmdlineNetwork of its network controllers). One wrong field makes the
// whole network configuration void there, and so it does here: a name instead
// of an address for the NTP server is such a field.
func parseNetwork(c cmdline) (networkConfig, error) {
	config := networkConfig{Hostname: c.first("talos.hostname", "")}
	for _, value := range c.values("ip") {
		fields := splitIP(value)
		switch {
		case len(fields) == 1 && fields[0] == "dhcp":
			// The same as no argument at all: DHCP is the default.
		case len(fields) == 2 && fields[1] == "dhcp":
			config.Links = append(config.Links, linkConfig{Link: fields[0], DHCP: true})
		default:
			link, hostname, err := parseIP(fields)
			if err != nil {
				return networkConfig{}, fmt.Errorf("kernel argument ip=%s: %w", value, err)
			}
			config.Links = append(config.Links, link)
			if config.Hostname == "" {
				config.Hostname = hostname
			}
		}
	}
	if value := c.first("vlan", ""); value != "" {
		vlan, err := parseVLAN(value)
		if err != nil {
			return networkConfig{}, err
		}
		config.VLAN = &vlan
	}
	return config, nil
}

// splitIP splits at colons outside of the brackets of an IPv6 address.
func splitIP(value string) []string {
	var fields []string
	depth, start := 0, 0
	for i, char := range value {
		switch {
		case char == '[':
			depth++
		case char == ']':
			depth--
		case char == ':' && depth == 0:
			fields = append(fields, strings.Trim(value[start:i], "[]"))
			start = i + 1
		}
	}
	return append(fields, strings.Trim(value[start:], "[]"))
}

// The places of ip=client:server:gateway:mask:hostname:device:autoconf:dns0:dns1:ntp0.
const (
	fieldClient = iota
	fieldServer
	fieldGateway
	fieldMask
	fieldHostname
	fieldDevice
	fieldAutoconf
	fieldDNS0
	fieldDNS1
	fieldNTP
)

func parseIP(fields []string) (link linkConfig, hostname string, err error) {
	for i, field := range fields {
		if field == "" {
			continue
		}
		switch i {
		case fieldClient:
			var ip netip.Addr
			if ip, err = netip.ParseAddr(field); err == nil {
				link.Address = netip.PrefixFrom(ip, ip.BitLen())
			}
		case fieldGateway:
			link.Gateway, err = netip.ParseAddr(field)
		case fieldMask:
			link.Address, err = withMask(link.Address, field)
		case fieldHostname:
			hostname = field
		case fieldDevice:
			link.Link = field
		case fieldAutoconf:
			link.DHCP = field == "dhcp"
		case fieldDNS0, fieldDNS1, fieldNTP:
			_, err = netip.ParseAddr(field)
		}
		if err != nil {
			return linkConfig{}, "", fmt.Errorf("field %d: %w", i+1, err)
		}
	}
	return link, hostname, nil
}

// withMask takes a number of bits or an address as the mask.
func withMask(address netip.Prefix, mask string) (netip.Prefix, error) {
	bits, err := strconv.Atoi(mask)
	if err != nil {
		parsed, err := netip.ParseAddr(mask)
		if err != nil {
			return netip.Prefix{}, err
		}
		bits, _ = net.IPMask(parsed.AsSlice()).Size()
	}
	return netip.PrefixFrom(address.Addr(), bits), nil
}

// parseVLAN reads vlan=<name>:<parent>; only the number is taken from the name,
// the link is always called <parent>.<number>.
func parseVLAN(value string) (vlanConfig, error) {
	name, parent, ok := strings.Cut(value, ":")
	_, number, dotted := strings.Cut(name, ".")
	if !dotted {
		number, dotted = strings.CutPrefix(name, "vlan")
	}
	if !ok || !dotted {
		return vlanConfig{}, fmt.Errorf("kernel argument vlan=%s: want the form eth0.123:eth0", value)
	}
	id, err := strconv.Atoi(number)
	if err != nil || id < 1 || id > 4095 {
		return vlanConfig{}, fmt.Errorf("kernel argument vlan=%s: the VLAN number must be 1 to 4095", value)
	}
	if parent == "" {
		return vlanConfig{}, fmt.Errorf("kernel argument vlan=%s: no parent interface", value)
	}
	return vlanConfig{Name: vlanName(parent, uint16(id)), Parent: parent, ID: uint16(id)}, nil
}

// vlanName shortens as Talos does when the name would exceed the kernel's 15
// characters, and keeps short parents away from a function that slices them.
func vlanName(parent string, id uint16) string {
	if len(parent) < 4 {
		return fmt.Sprintf("%s.%d", parent, id)
	}
	return nethelpers.VLANLinkName(parent, id)
}
