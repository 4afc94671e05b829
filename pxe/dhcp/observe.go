package dhcp

import (
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// Ignored is the class of why a packet has no reply: a closed set, to count by.
// Empty says that it has one, or that none belongs to it.
type Ignored string

// The classes.
const (
	NotAdmitted    Ignored = "not admitted"    // Options.Admit keeps off the machine
	UnknownNetwork Ignored = "unknown network" // no subnet is configured where it came from
	UnknownClient  Ignored = "unknown client"  // it speaks of an address that it does not have from here
	OtherServer    Ignored = "other server"    // it is about another server's lease
	NoAddress      Ignored = "no address"      // the pool is exhausted, or the reserved address is in use
	NoBinary       Ignored = "no binary"       // there is no iPXE for its architecture
	BootsNothing   Ignored = "boots nothing"   // beside another server, a client that does not boot is not served
	InBootLoop     Ignored = "boot loop"       // the machine loads iPXE over and over
	Incomplete     Ignored = "incomplete"      // it does not name the address that it is about
	ForeignMessage Ignored = "foreign message" // a type that no client sends, or not to this port
	Malformed      Ignored = "malformed"       // it is no DHCP
	NoOwnAddress   Ignored = "no own address"  // this server does not know its own address there
	NotDurable     Ignored = "not durable"     // the lease file could not be written
)

// IgnoredReasons lists all classes.
func IgnoredReasons() []Ignored {
	return []Ignored{
		NotAdmitted, UnknownNetwork, UnknownClient, OtherServer, NoAddress, NoBinary, BootsNothing, InBootLoop, Incomplete,
		ForeignMessage, Malformed, NoOwnAddress, NotDurable,
	}
}

// Packet is what came of one packet, as Options.OnPacket is told. It does not name the machine.
type Packet struct {
	// Message is the packet's type; 0 when it is none of a client.
	Message dhcpv4.MessageType
	// Reply is the type of the answer; 0 for none.
	Reply dhcpv4.MessageType
	// Ignored says why there is no answer.
	Ignored Ignored
}

// typeOf is the packet's MessageType, without the memory that it costs there.
func typeOf(p *dhcpv4.DHCPv4) dhcpv4.MessageType {
	if value := p.Options.Get(dhcpv4.OptionDHCPMessageType); len(value) == 1 {
		return dhcpv4.MessageType(value[0])
	}
	return dhcpv4.MessageTypeNone
}

// tell counts a packet by what was decided for it.
func (s *Server) tell(d Decision) {
	if s.engine.options.OnPacket == nil {
		return
	}
	p := Packet{Message: d.asked, Ignored: d.Ignored}
	if d.Reply != nil {
		p.Reply, p.Ignored = typeOf(d.Reply.Packet), ""
	}
	s.engine.options.OnPacket(p)
}

// Pool is how full a subnet is.
type Pool struct {
	Subnet netip.Prefix
	// Size is how many addresses the range has for machines without a reservation.
	Size int
	// Used are those of them that somebody holds, was offered, or was found at.
	Used int
	// Leases are the confirmed leases that last, also those of reserved addresses.
	Leases int
}

// Pools tells how full each subnet is, in the order of the options.
func (s *Server) Pools() []Pool {
	now := s.engine.options.Now()
	s.work.Lock()
	defer s.work.Unlock()
	t := s.engine.table
	pools := make([]Pool, len(t.subnets))
	for i, subnet := range t.subnets {
		pools[i] = Pool{Subnet: subnet.CIDR, Size: t.pools[i].size()}
	}
	for ip := range t.owners {
		if i := subnetIndex(t.subnets, ip); t.pools[i].contains(ip) {
			pools[i].Size--
		}
	}
	for ip, b := range t.byIP {
		if !b.live(now) {
			continue
		}
		if b.acked {
			pools[b.key.subnet].Leases++
		}
		if t.dealt(ip) {
			pools[b.key.subnet].Used++
		}
	}
	for ip, until := range t.bad {
		if until.After(now) && t.byIP[ip] == nil && t.dealt(ip) {
			pools[subnetIndex(t.subnets, ip)].Used++
		}
	}
	return pools
}

// dealt says whether an address is one of a range that anybody may get.
func (t *table) dealt(ip netip.Addr) bool {
	_, reserved := t.owners[ip]
	i := subnetIndex(t.subnets, ip)
	return !reserved && i >= 0 && t.pools[i].contains(ip)
}

// size is how many addresses the pool may deal.
func (p *pool) size() int {
	if !p.first.IsValid() {
		return 0
	}
	size := number(p.last) - number(p.first) + 1
	seen := map[netip.Addr]bool{}
	for _, ip := range p.taken {
		if ip.Is4() && !seen[ip] && !ip.Less(p.first) && !p.last.Less(ip) {
			seen[ip] = true
			size--
		}
	}
	return size
}

// number is an IPv4 address as a number.
func number(ip netip.Addr) int {
	b := ip.As4()
	return int(b[0])<<24 | int(b[1])<<16 | int(b[2])<<8 | int(b[3])
}
