package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/sys/unix"
)

// answerWait is how long one DHCP question waits before it is asked again.
const answerWait = 2 * time.Second

// lease asks for an address on every link in turn until one is given: a network
// without an answer is asked again for ever, as Talos does. The lease is not
// renewed: a test machine lives shorter than that.
func lease(ctx context.Context, links []string, log logf) ([]string, error) {
	for {
		for _, name := range links {
			address, err := leaseOn(ctx, name, log)
			if err == nil {
				return []string{address}, nil
			}
			log("no address by DHCP on %s yet: %v", name, err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("asking for an address by DHCP: %w", ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

// leaseOn asks on one link (RFC 2131 4.4.1) and configures it.
func leaseOn(ctx context.Context, name string, log logf) (string, error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return "", fmt.Errorf("looking up the interface %s: %w", name, err)
	}
	conn, err := listenDHCP(ctx, name)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()

	// The link has no address yet, so the answers must be broadcast.
	discover, err := dhcpv4.NewDiscovery(link.HardwareAddr, dhcpv4.WithBroadcast(true))
	if err != nil {
		return "", fmt.Errorf("making a DHCP discover: %w", err)
	}
	offer, err := ask(conn, discover, dhcpv4.MessageTypeOffer)
	if err != nil {
		return "", err
	}
	request, err := dhcpv4.NewRequestFromOffer(offer, dhcpv4.WithBroadcast(true))
	if err != nil {
		return "", fmt.Errorf("making a DHCP request: %w", err)
	}
	ack, err := ask(conn, request, dhcpv4.MessageTypeAck)
	if err != nil {
		return "", err
	}
	config, err := leased(name, ack)
	if err != nil {
		return "", err
	}
	if err := assign(name, config); err != nil {
		return "", err
	}
	log("%s has the address %s by DHCP from %s", name, config.Address, ack.ServerIdentifier())
	return config.Address.Addr().String(), nil
}

// leased is the configuration that an acknowledgement gives.
func leased(name string, ack *dhcpv4.DHCPv4) (linkConfig, error) {
	address, ok := netip.AddrFromSlice(ack.YourIPAddr.To4())
	if !ok || address.IsUnspecified() {
		return linkConfig{}, fmt.Errorf("the DHCP server %s acknowledged no address", ack.ServerIdentifier())
	}
	bits := address.BitLen()
	if mask := ack.SubnetMask(); mask != nil {
		bits, _ = mask.Size()
	}
	config := linkConfig{Link: name, Address: netip.PrefixFrom(address, bits)}
	if routers := ack.Router(); len(routers) > 0 {
		config.Gateway, _ = netip.AddrFromSlice(routers[0].To4())
	}
	return config, nil
}

// listenDHCP opens the client port on one link only: Linux then sends and
// receives limited broadcasts although the link has no address.
func listenDHCP(ctx context.Context, name string) (net.PacketConn, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var bind, broadcast error
		err := raw.Control(func(fd uintptr) {
			bind = unix.SetsockoptString(int(fd), unix.SOL_SOCKET, unix.SO_BINDTODEVICE, name)
			broadcast = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BROADCAST, 1)
		})
		return errors.Join(err, bind, broadcast)
	}}
	conn, err := config.ListenPacket(ctx, "udp4", fmt.Sprintf(":%d", dhcpv4.ClientPort))
	if err != nil {
		return nil, fmt.Errorf("opening the DHCP client port on %s: %w", name, err)
	}
	return conn, nil
}

// ask broadcasts one message and waits for its answer of the wanted type.
func ask(conn net.PacketConn, question *dhcpv4.DHCPv4, want dhcpv4.MessageType) (*dhcpv4.DHCPv4, error) {
	server := &net.UDPAddr{IP: net.IPv4bcast, Port: dhcpv4.ServerPort}
	if _, err := conn.WriteTo(question.ToBytes(), server); err != nil {
		return nil, fmt.Errorf("sending DHCP %s: %w", question.MessageType(), err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(answerWait)); err != nil {
		return nil, fmt.Errorf("setting the deadline of the DHCP socket: %w", err)
	}
	buffer := make([]byte, 4096)
	for {
		n, _, err := conn.ReadFrom(buffer)
		if err != nil {
			return nil, fmt.Errorf("no DHCP %s: %w", want, err)
		}
		answer, err := dhcpv4.FromBytes(buffer[:n])
		if err != nil || answer.TransactionID != question.TransactionID {
			continue // not for us
		}
		if answer.MessageType() == want {
			return answer, nil
		}
		if answer.MessageType() == dhcpv4.MessageTypeNak {
			return nil, fmt.Errorf("the DHCP server %s refused: %s", answer.ServerIdentifier(), answer.Message())
		}
	}
}
