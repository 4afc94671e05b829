package render

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// DNSMasq says what a dnsmasq.conf is made of.
type DNSMasq struct {
	// Interfaces are the ports in provisioning networks; Address, used when there
	// are none, is this host's address there. One is required.
	Interfaces []string
	Address    netip.Addr
	// Subnets have the addresses to lease; at least one is required.
	Subnets []Subnet
	// TFTPRoot is the folder that dnsmasq serves: iPXE binaries and the script.
	TFTPRoot string
	// Script is the iPXE script: a file name below TFTPRoot or an http:// URL.
	Script string
	// Authoritative refuses clients that ask for addresses nobody here knows.
	Authoritative bool
	// Source is named in the first comment.
	Source string
}

// Subnet is one network with addresses to lease. A subnet without a range
// is left out: it has nothing to lease.
type Subnet struct {
	CIDR        netip.Prefix
	First, Last netip.Addr
	Gateway     netip.Addr
	DNS         []netip.Addr
	Lease       time.Duration // 12 h when zero, at least 2 minutes, dnsmasq's own bound
}

const (
	defaultLease  = 12 * time.Hour
	shortestLease = 2 * time.Minute
)

// bootFiles is what a PXE ROM loads, by architecture (DHCP option 93, IANA). 9
// is x86-64 in the numbering before the erratum of RFC 4578, which firmware
// still sends; 22 is U-Boot.
var bootFiles = []struct {
	tag, file string
	codes     []int
}{
	{"bios", "undionly.kpxe", []int{0}},
	{"efi64", "snponly.efi", []int{7, 9}},
	{"arm64", "ipxe-arm64.efi", []int{11, 22}},
}

// word is what stands for itself in a dnsmasq.conf.
var word = regexp.MustCompile(`^[A-Za-z0-9_./:@%~+?=&\[\]-]+$`)

// Render writes the configuration of a full DHCP and TFTP server: leases from
// the ranges, iPXE by architecture to PXE ROMs, and the script to iPXE.
func (d DNSMasq) Render() (string, error) {
	if err := d.check(); err != nil {
		return "", err
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Written by `provision inventory render --format dnsmasq` from %s: do not edit.", comment(d.Source))
	line("")
	line("# DHCP and TFTP only; names are somebody else's job.")
	line("port=0")
	for _, name := range d.Interfaces {
		line("interface=%s", name)
	}
	if len(d.Interfaces) == 0 {
		line("listen-address=%s", d.Address)
	}
	line("bind-interfaces")
	line("")
	line("# One lease a machine: firmware, iPXE and Talos give three client identifiers.")
	line("dhcp-ignore-clid")
	line("# Two machines that ask at once never get one address (rhbz#1301659).")
	line("dhcp-sequential-ip")
	line("# The check by ping holds all other machines up for 3 s each time.")
	line("no-ping")
	line("log-dhcp")
	if d.Authoritative {
		line("dhcp-authoritative")
	}
	d.subnets(line)
	line("")
	line("# iPXE says so by option 175, some builds by user class only.")
	line("dhcp-match=set:ipxe,175")
	line("dhcp-userclass=set:ipxe,iPXE")
	for _, f := range bootFiles {
		for _, code := range f.codes {
			line("dhcp-match=set:%s,option:client-arch,%d", f.tag, code)
		}
	}
	line("")
	line("# PXE ROMs load iPXE, and iPXE loads the script. It need not wait 2 s for a ProxyDHCP server (175.176).")
	for _, f := range bootFiles {
		line("dhcp-boot=tag:!ipxe,tag:%s,%s", f.tag, f.file)
	}
	line("dhcp-boot=tag:ipxe,%s", d.Script)
	line("dhcp-option-force=tag:ipxe,encap:175,176,1b")
	line("")
	line("enable-tftp")
	line("tftp-root=%s", d.TFTPRoot)
	line("tftp-max=500")
	return b.String(), nil
}

// subnets writes ranges and their options.
func (d DNSMasq) subnets(line func(string, ...any)) {
	leases := 0
	for i, s := range d.Subnets {
		if !s.First.IsValid() {
			continue
		}
		leases += size(s.First, s.Last)
		lease := s.Lease
		if lease == 0 {
			lease = defaultLease
		}
		line("")
		line("# %s", s.CIDR.Masked())
		line("dhcp-range=set:net%d,%s,%s,%s,%d", i, s.First, s.Last, mask(s.CIDR), int(lease.Seconds()))
		router := ""
		if s.Gateway.IsValid() {
			router = "," + s.Gateway.String()
		}
		// An option without a value keeps dnsmasq from naming itself.
		line("dhcp-option=tag:net%d,option:router%s", i, router)
		servers := ""
		for _, server := range s.DNS {
			servers += "," + server.String()
		}
		line("dhcp-option=tag:net%d,option:dns-server%s", i, servers)
	}
	const standard = 1000 // dnsmasq's own bound
	if leases > standard {
		line("")
		line("dhcp-lease-max=%d", leases)
	}
}

// size is the number of addresses from first to last, both IPv4.
func size(first, last netip.Addr) int {
	number := func(a netip.Addr) int {
		b := a.As4()
		return int(b[0])<<24 | int(b[1])<<16 | int(b[2])<<8 | int(b[3])
	}
	return number(last) - number(first) + 1
}

func mask(cidr netip.Prefix) string { return net.IP(net.CIDRMask(cidr.Bits(), 32)).String() }

func (d DNSMasq) check() error {
	switch {
	case len(d.Interfaces) == 0 && !d.Address.Is4():
		return errors.New("neither interface nor IPv4 address: set network.interface or network.address in provision.yaml")
	case slices.ContainsFunc(d.Interfaces, func(name string) bool { return !word.MatchString(name) }):
		return fmt.Errorf("interfaces %q cannot be written into a dnsmasq.conf: correct network.interface", d.Interfaces)
	case !word.MatchString(d.TFTPRoot) || !strings.HasPrefix(d.TFTPRoot, "/"):
		return fmt.Errorf("TFTP root %q is not an absolute path of plain characters: correct it", d.TFTPRoot)
	case !word.MatchString(d.Script):
		return fmt.Errorf("script %q has characters that a dnsmasq.conf cannot carry: give a file name or an http:// URL", d.Script)
	}
	if u, err := url.Parse(d.Script); err != nil || u.User != nil {
		return errors.New("the script is not a file name or URL without a user: correct it")
	}
	leasing := 0
	for _, s := range d.Subnets {
		if err := s.check(); err != nil {
			return err
		}
		if s.First.IsValid() {
			leasing++
		}
	}
	if leasing == 0 {
		return errors.New("no subnet has addresses to lease: give dhcp.subnets with cidr and range in provision.yaml")
	}
	return nil
}

func (s Subnet) check() error {
	if !s.CIDR.IsValid() || !s.CIDR.Addr().Is4() {
		return fmt.Errorf("subnet %s is not an IPv4 network: correct its cidr", s.CIDR)
	}
	if s.First.IsValid() != s.Last.IsValid() || s.First.IsValid() && (!s.CIDR.Contains(s.First) || !s.CIDR.Contains(s.Last) || s.Last.Less(s.First)) {
		return fmt.Errorf("subnet %s: range %s-%s is not inside it in rising order: correct the range", s.CIDR, s.First, s.Last)
	}
	if s.Lease != 0 && s.Lease < shortestLease {
		return fmt.Errorf("subnet %s: dnsmasq leases no address for less than 2 minutes: lengthen lease %s", s.CIDR, s.Lease)
	}
	return nil
}
