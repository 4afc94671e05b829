package dhcp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// Request is one client packet and where it was received. It is a value: its
// methods read the packet and touch nothing else.
type Request struct {
	// Packet is the parsed packet: a BOOTREQUEST with a message type and a hardware address.
	Packet *dhcpv4.DHCPv4
	// Source is the sender's address and port.
	Source netip.AddrPort
	// Destination is the address that the packet was sent to; invalid when unknown.
	Destination netip.Addr
	// Link is the interface that the packet arrived on.
	Link Link
	// BootPort is set when the packet arrived at the ProxyDHCP port (4011), where
	// clients ask for a boot file only.
	BootPort bool
}

// Link is a network interface of this host.
type Link struct {
	// Index is the kernel's number of it, 0 when unknown.
	Index int
	// Addresses are its IPv4 addresses with their masks.
	Addresses []netip.Prefix
}

// contains reports whether ip is a neighbour on the link.
func (l Link) contains(ip netip.Addr) bool {
	for _, p := range l.Addresses {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// Marks by which clients are recognised.
const (
	userClassIPXE = "iPXE"
	userClassGPXE = "gPXE"                        // iPXE's ancestor, in the firmware of old network cards
	optionIPXE    = dhcpv4.GenericOptionCode(175) // iPXE's encapsulated options (ipxe.org/howto/dhcpd)
	optionSubnet  = dhcpv4.GenericOptionCode(118) // subnet selection, RFC 3011
	guidLength    = 17                            // RFC 4578 2.3: type 0 and 16 bytes

	// archTextLead comes before five digits in "PXEClient:Arch:00007:UNDI:003000".
	archTextLead   = ":Arch:"
	archTextLength = 5
)

// Message sizes of option 57, in bytes.
const (
	smallestMessage = 576
	largestMessage  = 1472 // one Ethernet frame, no fragments
	headersLength   = 28   // IPv4 and UDP headers, which the option counts in
)

// ErrNotRequest is returned for a packet that is no DHCP client's request.
var ErrNotRequest = errors.New("not a DHCP client request")

// ParseRequest parses the payload of a UDP packet. It accepts a missing End
// option, which some firmware leaves out, and a hardware address of up to 16
// bytes, which EDK2 sends when it identifies itself by GUID.
func ParseRequest(payload []byte) (Request, error) {
	packet, err := dhcpv4.FromBytes(payload)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		packet, err = dhcpv4.FromBytes(append(bytes.Clone(payload), dhcpv4.OptionEnd.Code()))
	}
	if err != nil {
		return Request{}, fmt.Errorf("parse DHCP packet of %d bytes: %w", len(payload), err)
	}
	switch {
	case packet.OpCode != dhcpv4.OpcodeBootRequest:
		return Request{}, fmt.Errorf("%w: operation %d", ErrNotRequest, packet.OpCode)
	case len(packet.ClientHWAddr) == 0:
		return Request{}, fmt.Errorf("%w: no hardware address", ErrNotRequest)
	case packet.MessageType() == dhcpv4.MessageTypeNone:
		return Request{}, fmt.Errorf("%w: no message type, plain BOOTP is not served", ErrNotRequest)
	}
	return Request{Packet: packet}, nil
}

// ClientClass says which kind of client asks.
func (r Request) ClientClass() Class {
	vendor := r.vendorClass()
	switch {
	case strings.HasPrefix(vendor, vendorHTTP):
		return ClassHTTP
	case r.IsIPXE():
		return ClassIPXE
	case strings.HasPrefix(vendor, vendorPXE):
		return ClassPXE
	}
	return ClassPlain
}

// IsIPXE reports whether iPXE sent the request: by its user class, or by its own
// option 175, all that FlexBoot has (warewulf3#104).
func (r Request) IsIPXE() bool {
	return r.Packet.Options.Has(optionIPXE) || r.hasUserClass(userClassIPXE)
}

// Arch is the first architecture of option 93 that this package knows, else
// the first one, else the one named in the vendor class. A PXE client that
// names none is an old BIOS ROM.
func (r Request) Arch() Arch {
	list := r.Packet.Options.Get(dhcpv4.OptionClientSystemArchitectureType)
	first := ArchNone
	for ; len(list) >= 2; list = list[2:] {
		arch := Arch(binary.BigEndian.Uint16(list))
		if _, known := archNames[arch]; known {
			return arch
		}
		if first == ArchNone {
			first = arch
		}
	}
	if first != ArchNone {
		return first
	}
	vendor := r.vendorClass()
	if _, text, ok := strings.Cut(vendor, archTextLead); ok && len(text) >= archTextLength {
		if n, err := strconv.ParseUint(text[:archTextLength], 10, 16); err == nil {
			return Arch(n)
		}
	}
	if strings.HasPrefix(vendor, vendorPXE) {
		return ArchBIOS
	}
	return ArchNone
}

// isRaspberryPi reports a Raspberry Pi that calls itself an x86 BIOS.
func (r Request) isRaspberryPi() bool {
	mac := r.Packet.ClientHWAddr
	return len(mac) == 6 && raspberryOUIs[[3]byte(mac[:3])]
}

// GUID is the client machine identifier (option 97) with its type byte, nil
// when it is missing or malformed. Such clients are served all the same
// (pixiecore#21, smee#195).
func (r Request) GUID() []byte {
	guid := r.Packet.Options.Get(dhcpv4.OptionClientMachineIdentifier)
	if len(guid) != guidLength || guid[0] != 0 {
		return nil
	}
	return guid
}

// MAC is the client's hardware address.
func (r Request) MAC() net.HardwareAddr { return r.Packet.ClientHWAddr }

func (r Request) xid() uint32 { return binary.BigEndian.Uint32(r.Packet.TransactionID[:]) }

func (r Request) vendorClass() string {
	return string(r.Packet.Options.Get(dhcpv4.OptionClassIdentifier))
}

// relay is the relay agent's address (giaddr), invalid for a client on the link.
func (r Request) relay() netip.Addr { return fromIP(r.Packet.GatewayIPAddr) }

// current is the address that the client says it uses (ciaddr).
func (r Request) current() netip.Addr { return fromIP(r.Packet.ClientIPAddr) }

// wanted is the address that the client asks for (option 50).
func (r Request) wanted() netip.Addr { return r.address(dhcpv4.OptionRequestedIPAddress) }

// selected is the server that the client chose (option 54).
func (r Request) selected() netip.Addr { return r.address(dhcpv4.OptionServerIdentifier) }

func (r Request) address(code dhcpv4.OptionCode) netip.Addr {
	return fromIP(r.Packet.Options.Get(code))
}

// agent is a sub-option of the relay agent information (option 82).
func (r Request) agent(code dhcpv4.OptionCode) netip.Addr {
	var info dhcpv4.RelayOptions
	if err := info.FromBytes(r.Packet.Options.Get(dhcpv4.OptionRelayAgentInformation)); err != nil {
		return netip.Addr{}
	}
	return fromIP(info.Get(code))
}

// network is an address in the network whose pool serves a relayed client:
// the one that the relay names (RFC 3527, RFC 3011), else the relay's own.
func (r Request) network() netip.Addr {
	for _, choice := range []netip.Addr{r.agent(dhcpv4.LinkSelectionSubOption), r.address(optionSubnet)} {
		if choice.IsValid() {
			return choice
		}
	}
	return r.relay()
}

// limit is the largest DHCP message that the client takes, in bytes.
func (r Request) limit() int {
	size := smallestMessage
	if v := r.Packet.Options.Get(dhcpv4.OptionMaximumDHCPMessageSize); len(v) == 2 {
		size = min(max(int(binary.BigEndian.Uint16(v)), smallestMessage), largestMessage)
	}
	return size - headersLength
}

// fromIP is the IPv4 address in the bytes, invalid when they hold none or 0.0.0.0.
func fromIP(ip []byte) netip.Addr {
	addr, ok := netip.AddrFromSlice(ip)
	if !ok {
		return netip.Addr{}
	}
	addr = addr.Unmap()
	if !addr.Is4() || addr.IsUnspecified() {
		return netip.Addr{}
	}
	return addr
}
