package dhcp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

// Subnet is one network and what its clients are told.
type Subnet struct {
	// CIDR is the network; its mask becomes option 1.
	CIDR netip.Prefix
	// First and Last bound the pool, both inclusive. Without them only
	// Reservations are served.
	First, Last netip.Addr
	// Gateway becomes option 3 when set.
	Gateway netip.Addr
	// DNS becomes option 6 when not empty.
	DNS []netip.Addr
	// Lease is the lease time, 1 h when zero, at least a minute.
	Lease time.Duration
}

func checkSubnets(subnets []Subnet) ([]Subnet, error) {
	if len(subnets) == 0 {
		return nil, errors.New("no DHCP subnet is configured: give at least one CIDR with a range")
	}
	checked := slices.Clone(subnets)
	for i := range checked {
		if err := checked[i].check(); err != nil {
			return nil, err
		}
		for _, other := range checked[:i] {
			if other.CIDR.Overlaps(checked[i].CIDR) {
				return nil, fmt.Errorf("subnets %s and %s overlap: an address must belong to one of them only", other.CIDR, checked[i].CIDR)
			}
		}
	}
	return checked, nil
}

func (s *Subnet) check() error {
	if !s.CIDR.IsValid() || !s.CIDR.Addr().Is4() || s.CIDR.Bits() < 1 || s.CIDR.Bits() > 30 {
		return fmt.Errorf("subnet %s is not an IPv4 network between /1 and /30: correct its CIDR", s.CIDR)
	}
	s.CIDR = s.CIDR.Masked()
	orDefault(&s.Lease, defaultLease)
	if s.Lease < shortestLease || s.Lease.Seconds() > 1<<31 {
		return fmt.Errorf("subnet %s: lease time %s is out of range: use one minute or more, 1h fits most fleets", s.CIDR, s.Lease)
	}
	if s.First.IsValid() != s.Last.IsValid() {
		return fmt.Errorf("subnet %s: the range has one end only: give both First and Last", s.CIDR)
	}
	if s.First.IsValid() && (!s.CIDR.Contains(s.First) || !s.CIDR.Contains(s.Last) || s.Last.Less(s.First)) {
		return fmt.Errorf("subnet %s: range %s-%s is not inside it in rising order: correct the range", s.CIDR, s.First, s.Last)
	}
	if s.Gateway.IsValid() && !s.CIDR.Contains(s.Gateway) {
		return fmt.Errorf("subnet %s: gateway %s is outside it: clients could not reach it", s.CIDR, s.Gateway)
	}
	for _, dns := range s.DNS {
		if !dns.Is4() {
			return fmt.Errorf("subnet %s: DNS server %s is not IPv4: DHCPv4 carries IPv4 addresses only", s.CIDR, dns)
		}
	}
	return nil
}

// broadcast is the last address of the subnet.
func (s Subnet) broadcast() netip.Addr {
	if !s.CIDR.IsValid() {
		return netip.Addr{}
	}
	a := s.CIDR.Addr().As4()
	for i, m := range net.CIDRMask(s.CIDR.Bits(), 32) {
		a[i] |= ^m
	}
	return netip.AddrFrom4(a)
}

func subnetIndex(subnets []Subnet, ip netip.Addr) int {
	return slices.IndexFunc(subnets, func(s Subnet) bool { return s.CIDR.Contains(ip) })
}

// reservations resolves the configured MACs to (subnet, MAC) keys.
func (o Options) reservations() (map[key]netip.Addr, error) {
	fixed := make(map[key]netip.Addr, len(o.Reservations))
	owners := make(map[netip.Addr]string, len(o.Reservations))
	for text, ip := range o.Reservations {
		mac, err := net.ParseMAC(text)
		if err != nil {
			return nil, fmt.Errorf("reservation of %s: %q is not a MAC address: write it as 52:54:00:12:34:56", ip, text)
		}
		i := subnetIndex(o.Subnets, ip)
		if i < 0 {
			return nil, fmt.Errorf("reservation of %s for %s: the address is in none of the subnets: correct it or add its subnet", ip, mac)
		}
		if ip == o.Subnets[i].CIDR.Addr() || ip == o.Subnets[i].broadcast() || ip == o.ServerAddress {
			return nil, fmt.Errorf("reservation of %s for %s: the address is the network's, its broadcast's or this server's: choose another", ip, mac)
		}
		if other, taken := owners[ip]; taken {
			return nil, fmt.Errorf("reservation of %s: both %s and %s have it: give one of them another address", ip, other, mac)
		}
		owners[ip] = mac.String()
		k := key{i, string(mac)}
		if other, twice := fixed[k]; twice {
			return nil, fmt.Errorf("reservation for %s: %s and %s are in one subnet: keep one of them", mac, other, ip)
		}
		fixed[k] = ip
	}
	return fixed, nil
}
