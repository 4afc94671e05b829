package inventory

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
)

// judge reports what is wrong between the values of one node. What is wrong with
// a value alone was found when it was read.
func judge(n Node) Findings {
	var findings Findings
	for _, rule := range rules {
		findings = append(findings, rule(n)...)
	}
	if !n.values.damaged {
		for _, rule := range completeness {
			findings = append(findings, rule(n)...)
		}
	}
	return findings
}

// once drops repetitions: what is wrong in a _defaults.yaml is wrong for every node below it.
func once(findings Findings) Findings {
	seen := make(map[Finding]bool, len(findings))
	return slices.DeleteFunc(findings, func(f Finding) bool {
		repeated := seen[f]
		seen[f] = true
		return repeated
	})
}

// rules judge the values that a node has.
var rules = []func(Node) Findings{
	hostnameIsLabel, addressFits, timeServerIsAddress, vlanFits, passwordOnce, commandLineFits, argsSuffice,
	schematicOnce, secureBootFits,
}

// completeness rules miss something. They are not applied to a node of whose
// files a part could not be read: it may be in there.
var completeness = []func(Node) Findings{
	inCluster, identifiable, bootable, argsGiven, addressComplete, bmcComplete,
}

// report makes a finding at a field's place, or at the file when the value came
// from elsewhere than the node's own file and is not to blame.
func (n Node) report(rule Rule, field, hint, format string, args ...any) Findings {
	o := n.Origin(field)
	if o.File == "" {
		o = Origin{File: n.File, Line: 1, Column: 1}
	}
	return Findings{{
		Severity: rule.severity(), Rule: rule, File: o.File, Line: o.Line, Column: o.Column, Field: field,
		Message: fmt.Sprintf(format, args...), Hint: hint,
	}}
}

// reportNode makes an error about the node as a whole, in its own file.
func (n Node) reportNode(rule Rule, field, hint, format string, args ...any) Findings {
	f := n.report(rule, field, hint, format, args...)
	if f[0].File != n.File {
		f[0].File, f[0].Line, f[0].Column = n.File, 1, 1
	}
	return f
}

var labelPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// hostnameIsLabel: RFC 1123 2.1, in lower case as Kubernetes wants it.
func hostnameIsLabel(n Node) Findings {
	if labelPattern.MatchString(n.Name) {
		return nil
	}
	return Findings{{
		Rule: RuleHostname, File: n.File, Field: "name", Message: fmt.Sprintf("%q is not a hostname", clip(n.Name)),
		Hint: "name the file with lower-case letters, digits and hyphens, at most 63, like node-01.yaml",
	}}
}

func inCluster(n Node) Findings {
	if n.Cluster != "" {
		return nil
	}
	return n.reportNode(RuleNoCluster, "cluster", "move the file into a folder named after its cluster, or set cluster", "%s is in no cluster", n.Name)
}

// addressFits holds ip, netmask and gateway against each other.
func addressFits(n Node) Findings {
	ip, err := netip.ParseAddr(n.IP)
	if err != nil {
		return nil
	}
	gateway, err := netip.ParseAddr(n.Gateway)
	hasGateway := err == nil
	if hasGateway && ip == gateway {
		return n.report(RuleIsGateway, "ip", "give the node its own address, if another machine is the gateway",
			"%s has the address of its gateway, %s", n.Name, n.IP)
	}
	bits, ok := MaskBits(n.Netmask)
	if !ok {
		return nil
	}
	network, err := ip.Prefix(bits)
	if err != nil {
		return n.report(RuleAddressFamily, "netmask", "write a netmask of the same kind as ip", "%s has netmask %s, which does not fit ip %s", n.Name, n.Netmask, n.IP)
	}
	hostBits := ip.BitLen() - bits
	switch {
	case hostBits > 1 && ip.Is4() && ip == network.Masked().Addr():
		return n.report(RuleIsNetwork, "ip", "give the node another address", "ip %s of %s is the address of the network %s itself", n.IP, n.Name, network.Masked())
	case hostBits > 1 && ip.Is4() && ip == broadcast(network):
		return n.report(RuleIsBroadcast, "ip", "give the node another address", "ip %s of %s is the broadcast address of %s", n.IP, n.Name, network.Masked())
	case hasGateway && gateway.Is4() != ip.Is4():
		return n.report(RuleAddressFamily, "gateway", "write a gateway of the same kind as ip", "%s has gateway %s, which does not fit ip %s", n.Name, n.Gateway, n.IP)
	case hasGateway && hostBits > 1 && !gateway.IsLinkLocalUnicast() && !network.Contains(gateway):
		return n.report(RuleGatewayOutside, "ip", fmt.Sprintf("correct ip, netmask (%s) or gateway (%s)", n.Origin("netmask"), n.Origin("gateway")),
			"ip %s of %s and gateway %s are not in one network of netmask %s", n.IP, n.Name, n.Gateway, n.Netmask)
	}
	return nil
}

// timeServerIsAddress: Talos takes an IP address in the ip= argument's field for
// the time server; with a name there it drops the whole argument, and vlan= with
// it, and falls back to DHCP (ParseCmdlineNetwork in Talos, "error parsing NTP IP").
// It is a warning because inventories that rely on that fallback exist.
func timeServerIsAddress(n Node) Findings {
	if n.NTP == "" || n.IP == "" {
		return nil
	}
	if _, err := netip.ParseAddr(n.NTP); err == nil {
		return nil
	}
	return n.report(RuleTimeServerName, "ntp", "write the address of a time server, or unset ntp with \"ntp: null\"",
		"ntp %s is a name: Talos would ignore the ip= and vlan= arguments altogether and ask DHCP for an address", n.NTP)
}

// broadcast is the last address of an IPv4 network.
func broadcast(network netip.Prefix) netip.Addr {
	octets := network.Masked().Addr().As4()
	for bit := network.Bits(); bit < 32; bit++ {
		octets[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom4(octets)
}

func addressComplete(n Node) Findings {
	if n.IP == "" || n.Netmask != "" {
		return nil
	}
	return n.report(RuleNoNetmask, "ip", "set netmask, here or in a _defaults.yaml", "%s has an ip but no netmask", n.Name)
}

func vlanFits(n Node) Findings {
	const longest = 15 // IFNAMSIZ without its NUL
	device := n.Interface + "." + n.VLAN
	switch {
	case n.VLAN == "" || n.SecureBoot: // see secureBootFits
		return nil
	case n.IP == "" && !n.values.damaged:
		return n.report(RuleVLANUnused, "vlan", "set ip, or unset vlan with \"vlan: null\"", "%s has a vlan but no ip: it boots with DHCP and without the vlan", n.Name)
	case n.IP == "":
		return nil
	case n.Interface == "" && !n.values.damaged:
		return n.report(RuleVLANNowhere, "vlan", "set interface, here or in a _defaults.yaml", "%s has a vlan but no interface", n.Name)
	case len(device) > longest:
		return n.report(RuleVLANName, "vlan", "use a shorter name of the interface, like enx0cc47a000001 without a vlan, or net.ifnames=0 and eth0",
			"the vlan interface %s of %s is longer than the %d characters that Linux takes", device, n.Name, longest)
	}
	return nil
}

// identifiable: a node that nothing identifies could be any machine (I1).
func identifiable(n Node) Findings {
	if !n.Install || n.BMC.Address != "" || n.Serial != "" || n.BoardSerial != "" || n.UUID != "" || len(n.MACs) > 0 {
		return nil
	}
	return n.reportNode(RuleUnidentified, "install", "give it a bmc.address, serial, boardSerial, uuid or mac", "%s is marked install, but nothing identifies its machine", n.Name)
}

func bootable(n Node) Findings {
	var findings Findings
	for _, needed := range []struct{ field, value string }{{"schematicID or schematic", n.SchematicID}, {"talosVersion", n.TalosVersion}} {
		if n.Install && needed.value == "" {
			findings = append(findings, n.reportNode(RuleUnbootableNode, "install", "set it, here or in a _defaults.yaml", "%s is marked install, but has no %s", n.Name, needed.field)...)
		}
	}
	return findings
}
