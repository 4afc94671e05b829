package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/sys/unix"
)

// offer is what one DHCP server said.
type offer struct {
	server  netip.Addr
	address netip.Addr // what it would lease; not valid for a ProxyDHCP server
	file    string     // the boot file it names to PXE firmware
}

// checkDHCP asks the network who else answers DHCP. The question is a DISCOVER
// of a machine that does not exist; nobody's lease is touched by it.
func checkDHCP(ctx context.Context, h *host, name string) []Finding {
	link, err := h.link(name)
	if err != nil || link.Flags&net.FlagUp == 0 || link.Flags&net.FlagLoopback != 0 {
		return nil // told by the check of the interface; nobody broadcasts on loopback
	}
	offers, err := h.discover(ctx, link)
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return []Finding{warn(link.Name, "could not look for another DHCP server: that needs root", "run provision doctor as root, or with CAP_NET_RAW")}
	case err != nil:
		return []Finding{warn(link.Name, fmt.Sprintf("could not look for another DHCP server: %v", err), "try again; see `ip -s link show "+link.Name+"`")}
	}
	offers = slices.DeleteFunc(offers, func(o offer) bool { return h.own(link, o.server) })
	return h.judge(link.Name, offers)
}

// own tells whether a server is this host: a run that is at work answers too.
func (h *host) own(link *net.Interface, server netip.Addr) bool {
	if server == h.Address {
		return true
	}
	_, is := prefixOf(addressesOf(link), server)
	return is
}

// judge says what other servers mean in the configured mode.
func (h *host) judge(link string, offers []offer) []Finding {
	var leasing, booting []string
	for _, o := range offers {
		if o.address.IsValid() {
			leasing = append(leasing, o.server.String())
		}
		if o.file != "" {
			booting = append(booting, fmt.Sprintf("%s (%s)", o.server, o.file))
		}
	}
	leasers, booters := strings.Join(tidy(leasing), ", "), strings.Join(tidy(booting), ", ")
	switch h.Mode {
	case ModeProxy:
		return judgeProxy(link, leasers, booters)
	case ModeOff:
		return judgeOff(link, leasers, booters)
	case ModeServer:
	}
	switch {
	case leasers == "" && booters == "":
		return []Finding{ok(link, "no other DHCP server answers")}
	case leasers == "":
		return []Finding{fail(link, "another boot server answers: "+booters, "stop it: machines would boot from whichever is quicker")}
	case h.Assertive:
		return []Finding{warn(link, "another DHCP server leases addresses: "+leasers+"; dhcp.assertive makes our offers win with UEFI firmware", "addresses of both servers' ranges must not overlap; better stop it, or use dhcp.mode: proxy")}
	}
	return []Finding{fail(link, "another DHCP server leases addresses: "+leasers, "stop it in this network; or keep it and set dhcp.mode: proxy; or set dhcp.assertive: true so that our offers win")}
}

func judgeProxy(link, leasers, booters string) []Finding {
	switch {
	case leasers == "":
		return []Finding{fail(link, "dhcp.mode is proxy, and no DHCP server leases addresses here", "start that server, or set dhcp.mode: server so that this program leases them")}
	case booters != "":
		return []Finding{warn(link, "the other server also names a boot file: "+booters, "take the boot file, next-server and options 43, 60, 66 and 67 out of that server: some firmware would follow it")}
	}
	return []Finding{ok(link, "addresses come from "+leasers)}
}

func judgeOff(link, leasers, booters string) []Finding {
	switch {
	case leasers == "":
		return []Finding{warn(link, "dhcp.mode is off, and no DHCP server answers in this network", "where machines are behind a router, look in their network; else start the server or set dhcp.mode: server")}
	case booters == "":
		return []Finding{warn(link, "dhcp.mode is off, and "+leasers+" names no boot file", "let that server point PXE machines here (see docs/network.md), or set dhcp.mode: proxy")}
	}
	return []Finding{ok(link, "addresses come from "+leasers+", boot files from "+booters)}
}

func tidy(words []string) []string {
	slices.Sort(words)
	return slices.Compact(words)
}

// discover broadcasts two questions, as a plain machine and as PXE firmware,
// and collects the offers.
func (h *host) discover(ctx context.Context, link *net.Interface) ([]offer, error) {
	conn, err := openRaw(link)
	if err != nil {
		return nil, err
	}
	defer conn.close()
	mac := make(net.HardwareAddr, 6)
	_, _ = rand.Read(mac)       // never fails (crypto/rand)
	mac[0] = mac[0]&0xfc | 0x02 // locally administered, of one station
	questions := map[dhcpv4.TransactionID]bool{}
	for _, modifiers := range [][]dhcpv4.Modifier{nil, firmware()} {
		question, err := dhcpv4.NewDiscovery(mac, append(modifiers, dhcpv4.WithBroadcast(true))...)
		if err != nil {
			return nil, err
		}
		questions[question.TransactionID] = true
		if err := conn.broadcast(question.ToBytes()); err != nil {
			return nil, err
		}
	}
	var offers []offer
	for deadline := time.Now().Add(h.ProbeTime); ctx.Err() == nil; {
		payload, err := conn.receive(deadline)
		if err != nil || payload == nil {
			return offers, err
		}
		if answer, err := dhcpv4.FromBytes(payload); err == nil && questions[answer.TransactionID] && answer.OpCode == dhcpv4.OpcodeBootReply {
			offers = append(offers, read(answer))
		}
	}
	return offers, ctx.Err()
}

// firmware makes a question that of 64-bit UEFI firmware (RFC 4578).
func firmware() []dhcpv4.Modifier {
	return []dhcpv4.Modifier{
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier("PXEClient:Arch:00007:UNDI:003000")),
		dhcpv4.WithGeneric(dhcpv4.OptionClientSystemArchitectureType, []byte{0, 7}),
		dhcpv4.WithGeneric(dhcpv4.OptionClientNetworkInterfaceIdentifier, []byte{1, 3, 0}),
		dhcpv4.WithRequestedOptions(dhcpv4.OptionTFTPServerName, dhcpv4.OptionBootfileName, dhcpv4.OptionVendorSpecificInformation),
	}
}

func read(answer *dhcpv4.DHCPv4) offer {
	o := offer{file: answer.BootFileNameOption()}
	if o.file == "" {
		o.file = answer.BootFileName
	}
	o.file = strings.TrimRight(o.file, "\x00")
	server := answer.ServerIdentifier()
	if server == nil {
		server = answer.ServerIPAddr
	}
	if a, valid := netip.AddrFromSlice(server.To4()); valid {
		o.server = a
	}
	if a, valid := netip.AddrFromSlice(answer.YourIPAddr.To4()); valid && !a.IsUnspecified() {
		o.address = a
	}
	return o
}
