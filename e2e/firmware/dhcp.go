package firmware

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// lease is what the DHCP exchange gave.
type lease struct {
	address  netip.Addr
	netmask  string
	gateway  netip.Addr
	dns      netip.Addr
	server   netip.Addr // option 54
	next     netip.Addr // where the boot file is
	file     string     // option 67, else the file field
	noProxy  bool       // iPXE need not wait for ProxyDHCP
	hostname string
}

// client is one of the programs in a machine that speak DHCP.
type client struct {
	name      string
	broadcast bool
	options   []dhcpv4.Option
	// offerWait is how long offers are collected; tries are the waits for an answer before the
	// packet is sent again.
	offerWait                   time.Duration
	discoverTries, requestTries []time.Duration
	// accept says why an offer or its ACK cannot be booted from; nil if it can.
	accept func(*dhcpv4.DHCPv4) error
}

func seconds(values ...float64) []time.Duration {
	tries := make([]time.Duration, len(values))
	for i, s := range values {
		tries[i] = time.Duration(s * float64(time.Second))
	}
	return tries
}

// rom is the firmware's own PXE client, with the options that OVMF sends.
func (b *boot) rom() client {
	return client{
		name: "PXE ROM", broadcast: true,
		options: append(b.pxeOptions(b.profile.romUNDI),
			dhcpv4.OptGeneric(dhcpv4.OptionParameterRequestList, []byte{
				1, 2, 3, 4, 5, 6, 12, 13, 15, 17, 18, 22, 23, 28, 40, 41, 42, 43, 50, 51, 54, 58, 59, 60, 66, 67, 97,
			})),
		offerWait:     b.profile.offerWait,
		discoverTries: seconds(4, 8, 16, 32), requestTries: seconds(1, 2, 3, 4),
		accept: b.acceptAsROM,
	}
}

// ipxe is iPXE's client: its user class is the raw string, not as RFC 3004 has
// it, and it sends no broadcast flag.
func (b *boot) ipxe() client {
	features := []byte{0xb1, 5, 1, 0x80, 0x86, 0x10, 0x0e, 0xeb, 3, 1, 21, 1, 0x13, 1, 1, 0x14, 1, 1, 0x15, 1, 1, 0x17, 1, 1, 0x18, 1, 1}
	if b.machine.Platform == EFI {
		features = append(features, 0x24, 1, 1)
	} else {
		features = append(features, 0x21, 1, 1)
	}
	return client{
		name: "iPXE",
		options: append(b.pxeOptions(b.profile.ipxeUNDI),
			dhcpv4.OptGeneric(dhcpv4.OptionParameterRequestList, []byte{
				1, 3, 6, 7, 12, 15, 17, 26, 43, 60, 66, 67, 119, 128, 129, 130, 131, 132, 133, 134, 135, 175, 203,
			}),
			dhcpv4.OptGeneric(dhcpv4.OptionUserClassInformation, []byte("iPXE")),
			dhcpv4.OptGeneric(dhcpv4.OptionClientIdentifier, append([]byte{1}, b.mac...)),
			dhcpv4.OptGeneric(dhcpv4.GenericOptionCode(175), features)),
		discoverTries: seconds(1, 2, 4, 8), requestTries: seconds(0.25, 0.5, 1, 2, 4),
		accept: func(*dhcpv4.DHCPv4) error { return nil },
	}
}

// pxeOptions are those that both clients send: RFC 4578 2 and the packet size.
func (b *boot) pxeOptions(undi string) []dhcpv4.Option {
	options := []dhcpv4.Option{
		dhcpv4.OptGeneric(dhcpv4.OptionMaximumDHCPMessageSize, []byte{0x05, 0xc0}),
		dhcpv4.OptGeneric(dhcpv4.OptionClientSystemArchitectureType, []byte{0, b.profile.arch}),
		dhcpv4.OptGeneric(dhcpv4.OptionClientNetworkInterfaceIdentifier, b.profile.interfaceID),
		dhcpv4.OptGeneric(dhcpv4.OptionClassIdentifier, fmt.Appendf(nil, "PXEClient:Arch:%05d:UNDI:%s", b.profile.arch, undi)),
	}
	if raw, ok := rawUUID(b.machine.UUID); ok {
		options = append(options, dhcpv4.OptGeneric(dhcpv4.OptionClientMachineIdentifier, append([]byte{0}, raw...)))
	}
	return options
}

// acceptAsROM is what a PXE ROM demands of a DHCP offer. A reply marked as
// PXEClient is asked again on port 4011 unless it says (option 43, sub-option 6,
// bit 3) that its own boot file will do; behind a relay nobody answers there.
func (b *boot) acceptAsROM(reply *dhcpv4.DHCPv4) error {
	if strings.HasPrefix(string(reply.Options.Get(dhcpv4.OptionClassIdentifier)), "PXEClient") && !bootsOwnFile(reply) {
		return errors.New("the offer is marked PXEClient without a discovery control of 8, so the boot server is asked on port 4011 and nobody answers (PXE-E16, PXE-E55)")
	}
	if bootFile(reply) == "" {
		return errors.New("the offer has no boot file (PXE-E53)")
	}
	return nil
}

// bootsOwnFile looks for bit 3 of PXE_DISCOVERY_CONTROL in option 43.
func bootsOwnFile(reply *dhcpv4.DHCPv4) bool {
	var vendor dhcpv4.Options = map[uint8][]byte{}
	if err := vendor.FromBytes(reply.Options.Get(dhcpv4.OptionVendorSpecificInformation)); err != nil {
		return false
	}
	control := vendor.Get(dhcpv4.GenericOptionCode(6))
	return len(control) == 1 && control[0]&8 != 0
}

// exchange runs DISCOVER, OFFER, REQUEST, ACK for one client.
func (b *boot) exchange(ctx context.Context, c client) (lease, error) {
	discover, err := b.packet(c, dhcpv4.MessageTypeDiscover)
	if err != nil {
		return lease{}, err
	}
	replies, cancel := b.relay.subscribe(transaction{discover.TransactionID, b.mac.String()})
	defer cancel()
	offer, err := b.collectOffers(ctx, c, discover, replies)
	if err != nil {
		return lease{}, err
	}
	b.step("%s: DHCP OFFER of %s, boot file %q", c.name, offer.YourIPAddr, bootFile(offer))
	request, err := b.packet(c, dhcpv4.MessageTypeRequest,
		dhcpv4.WithTransactionID(discover.TransactionID),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(offer.ServerIdentifier())),
		dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(offer.YourIPAddr)))
	if err != nil {
		return lease{}, err
	}
	ack, err := b.ask(ctx, c, request, replies, c.requestTries, func(reply *dhcpv4.DHCPv4) bool {
		return reply.MessageType() == dhcpv4.MessageTypeAck || reply.MessageType() == dhcpv4.MessageTypeNak
	})
	if err != nil {
		return lease{}, err
	}
	if err := complaint(c, offer, ack); err != nil {
		return lease{}, err
	}
	l := leaseOf(ack)
	b.step("%s: DHCP ACK of %s, boot file %q", c.name, l.address, l.file)
	return l, nil
}

// collectOffers takes the first offer that can be booted from. EDK2 looks at
// offers only when its first wait is over, however fast the server was.
func (b *boot) collectOffers(ctx context.Context, c client, discover *dhcpv4.DHCPv4, replies <-chan *dhcpv4.DHCPv4) (*dhcpv4.DHCPv4, error) {
	var refused error
	wait := time.After(b.machine.scaled(c.offerWait))
	offer, err := b.ask(ctx, c, discover, replies, c.discoverTries, func(reply *dhcpv4.DHCPv4) bool {
		if reply.MessageType() != dhcpv4.MessageTypeOffer || reply.YourIPAddr.IsUnspecified() {
			return false
		}
		reason := c.accept(reply)
		refused = errors.Join(refused, reason)
		return reason == nil
	})
	if err != nil {
		return nil, errors.Join(err, refused)
	}
	if c.offerWait > 0 {
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return offer, nil
}

// ask sends a packet until a reply is wanted or the tries are over.
func (b *boot) ask(ctx context.Context, c client, packet *dhcpv4.DHCPv4, replies <-chan *dhcpv4.DHCPv4, tries []time.Duration, wanted func(*dhcpv4.DHCPv4) bool) (*dhcpv4.DHCPv4, error) {
	for n, try := range tries {
		if !b.lost() {
			if err := b.relay.send(packet); err != nil {
				return nil, fmt.Errorf("%s: sending a DHCP %s: %w", c.name, packet.MessageType(), err)
			}
		}
		timeout := time.After(b.machine.patience(try, n))
		for waiting := true; waiting; {
			select {
			case reply := <-replies:
				if !b.lost() && wanted(reply) {
					return reply, nil
				}
			case <-timeout:
				waiting = false
			case <-ctx.Done():
				return nil, fmt.Errorf("%s: waiting for an answer to DHCP %s: %w", c.name, packet.MessageType(), ctx.Err())
			}
		}
	}
	return nil, fmt.Errorf("%s: no answer to DHCP %s from %s that can be used, %d tries", c.name, packet.MessageType(), b.relay.server, len(tries))
}

// complaint is why an ACK is not taken. EDK2 declines one without lease time
// or netmask (PXE-E21).
func complaint(c client, offer, ack *dhcpv4.DHCPv4) error {
	switch {
	case ack.MessageType() == dhcpv4.MessageTypeNak:
		return fmt.Errorf("%s: the server refused (NAK) the address %s that it had offered", c.name, offer.YourIPAddr)
	case !ack.YourIPAddr.Equal(offer.YourIPAddr):
		return fmt.Errorf("%s: the server offered %s but acknowledged %s", c.name, offer.YourIPAddr, ack.YourIPAddr)
	case ack.Options.Get(dhcpv4.OptionIPAddressLeaseTime) == nil || ack.Options.Get(dhcpv4.OptionSubnetMask) == nil:
		return fmt.Errorf("%s: the ACK has no lease time (51) or no netmask (1), firmware declines it (PXE-E21)", c.name)
	}
	return c.accept(ack)
}

// packet is a message as this client sends it.
func (b *boot) packet(c client, kind dhcpv4.MessageType, more ...dhcpv4.Modifier) (*dhcpv4.DHCPv4, error) {
	packet, err := dhcpv4.New(append(more,
		dhcpv4.WithHwAddr(b.mac), dhcpv4.WithBroadcast(c.broadcast), dhcpv4.WithMessageType(kind))...)
	if err != nil {
		return nil, fmt.Errorf("%s: making a DHCP %s: %w", c.name, kind, err)
	}
	for _, option := range c.options {
		packet.UpdateOption(option)
	}
	return packet, nil
}

func leaseOf(ack *dhcpv4.DHCPv4) lease {
	l := lease{
		address:  addr(ack.YourIPAddr),
		netmask:  net.IP(ack.SubnetMask()).String(),
		server:   addr(ack.ServerIdentifier()),
		next:     addr(ack.ServerIPAddr),
		file:     bootFile(ack),
		hostname: ack.HostName(),
	}
	if !l.next.IsValid() || l.next.IsUnspecified() {
		l.next = l.server
	}
	if routers := ack.Router(); len(routers) > 0 {
		l.gateway = addr(routers[0])
	}
	if servers := ack.DNS(); len(servers) > 0 {
		l.dns = addr(servers[0])
	}
	var vendor dhcpv4.Options = map[uint8][]byte{}
	if err := vendor.FromBytes(ack.Options.Get(dhcpv4.GenericOptionCode(175))); err == nil {
		l.noProxy = slices.Equal(vendor.Get(dhcpv4.GenericOptionCode(176)), []byte{1})
	}
	return l
}

// bootFile is option 67, which the server ends with a NUL, else the file field.
func bootFile(reply *dhcpv4.DHCPv4) string {
	if name := strings.TrimRight(string(reply.Options.Get(dhcpv4.OptionBootfileName)), "\x00"); name != "" {
		return name
	}
	return reply.BootFileName
}

func addr(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}
