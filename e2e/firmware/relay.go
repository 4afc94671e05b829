package firmware

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// Relay is a DHCP relay agent with one socket that many machines share: it
// takes the place of the broadcast domain, so that no root and no network
// namespace are needed.
type Relay struct {
	conn   *net.UDPConn
	giaddr netip.Addr
	server netip.AddrPort

	mu      sync.Mutex
	waiting map[transaction]chan<- *dhcpv4.DHCPv4
	done    sync.WaitGroup
}

// transaction tells whose reply it is.
type transaction struct {
	xid dhcpv4.TransactionID
	mac string
}

// NewRelay opens the relay at listen, whose address becomes giaddr, and passes
// requests on to server. Servers answer to the relay's port 67 (RFC 2131 4.1);
// ours can be told another one. Port 0 takes a free one, see Addr.
func NewRelay(listen, server netip.AddrPort) (*Relay, error) {
	if !listen.Addr().Is4() || listen.Addr().IsUnspecified() {
		return nil, fmt.Errorf("opening a DHCP relay at %s: the address becomes giaddr and must be one IPv4 address of this host", listen)
	}
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(listen))
	if err != nil {
		return nil, fmt.Errorf("opening a DHCP relay at %s (is another one running?): %w", listen, err)
	}
	// A rack that is powered on answers at once; the default buffer holds some 200 replies.
	_ = conn.SetReadBuffer(4 << 20)
	r := &Relay{conn: conn, giaddr: listen.Addr(), server: server, waiting: map[transaction]chan<- *dhcpv4.DHCPv4{}}
	r.done.Go(r.receive)
	return r, nil
}

// Addr is the relay's address: giaddr and the port that replies go to.
func (r *Relay) Addr() netip.AddrPort {
	return netip.AddrPortFrom(r.giaddr, uint16(r.conn.LocalAddr().(*net.UDPAddr).Port))
}

// Close closes the socket. Machines that still boot get no more replies.
func (r *Relay) Close() error {
	err := r.conn.Close()
	r.done.Wait()
	return err
}

// send passes a client's packet on, as RFC 1542 4.1 and RFC 3046 2.1 have it.
func (r *Relay) send(packet *dhcpv4.DHCPv4) error {
	packet.HopCount = 1
	packet.GatewayIPAddr = r.giaddr.AsSlice()
	packet.UpdateOption(dhcpv4.OptRelayAgentInfo(dhcpv4.OptGeneric(dhcpv4.AgentCircuitIDSubOption, []byte("eth1"))))
	_, err := r.conn.WriteToUDPAddrPort(packet.ToBytes(), r.server)
	return err
}

// subscribe directs the replies of one transaction to the returned channel.
func (r *Relay) subscribe(id transaction) (replies <-chan *dhcpv4.DHCPv4, cancel func()) {
	c := make(chan *dhcpv4.DHCPv4, 8)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting[id] = c
	return c, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.waiting, id)
	}
}

func (r *Relay) receive() {
	buffer := make([]byte, 64<<10)
	for {
		n, _, err := r.conn.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an ICMP error of an earlier packet
		}
		if reply, ok := parseReply(buffer[:n]); ok {
			r.deliver(reply)
		}
	}
}

func (r *Relay) deliver(reply *dhcpv4.DHCPv4) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case r.waiting[transaction{reply.TransactionID, reply.ClientHWAddr.String()}] <- reply:
	default: // nobody waits (a late or foreign reply), or the machine has enough of them
	}
}

// parseReply is false for what is not a reply of a DHCP server. Malformed
// packets have made DHCP parsers panic (insomniacslk/dhcp#382): that is false too.
func parseReply(data []byte) (reply *dhcpv4.DHCPv4, ok bool) {
	defer func() {
		if recover() != nil {
			reply, ok = nil, false
		}
	}()
	reply, err := dhcpv4.FromBytes(data)
	if err != nil || reply.OpCode != dhcpv4.OpcodeBootReply {
		return nil, false
	}
	return reply, true
}
