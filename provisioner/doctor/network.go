package doctor

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// ethernetMTU is what PXE firmware counts on: it asks TFTP for blocks that fill
// such a frame, and does not reassemble fragments.
const ethernetMTU = 1500

// eachLink makes a check of one interface one of all that are configured; its
// name is empty when none is.
func eachLink(check func(ctx context.Context, h *host, name string) []Finding) func(context.Context, *host) []Finding {
	return func(ctx context.Context, h *host) []Finding {
		names := h.Interfaces
		if len(names) == 0 {
			names = []string{""}
		}
		found := make([]Finding, 0, len(names))
		for _, name := range names {
			found = append(found, check(ctx, h, name)...)
		}
		return found
	}
}

// link is the interface of that name, else the one that has the configured address.
func (h *host) link(name string) (*net.Interface, error) {
	if name != "" {
		return net.InterfaceByName(name)
	}
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for i := range all {
		if _, has := prefixOf(addressesOf(&all[i]), h.Address); has || (all[i].Flags&net.FlagLoopback != 0 && h.Address.IsLoopback()) {
			return &all[i], nil
		}
	}
	return nil, fmt.Errorf("no interface has the address %s", h.Address)
}

// addressesOf lists an interface's IPv4 addresses; PXE knows no other.
func addressesOf(link *net.Interface) []netip.Prefix {
	addresses, err := link.Addrs()
	if err != nil {
		return nil
	}
	var found []netip.Prefix
	for _, a := range addresses {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() {
			found = append(found, p)
		}
	}
	return found
}

func checkInterface(_ context.Context, h *host, name string) []Finding {
	if name == "" && !h.Address.IsValid() {
		return []Finding{fail("", "neither network.interface nor network.address is configured", "give one in provision.yaml, so that machines can be told where this host is in their network; `ip -br address` lists them")}
	}
	link, err := h.link(name)
	if err != nil {
		return []Finding{fail(name, err.Error(), "correct network.interface and network.address in provision.yaml; `ip -br address` lists what is here")}
	}
	if link.Flags&net.FlagUp == 0 {
		return []Finding{fail(link.Name, "it is down", fmt.Sprintf("`ip link set %s up`, and see to it that it comes up at boot", link.Name))}
	}
	// "unknown" is what drivers without a link state say, loopback and tunnels among them.
	if state := operState(link.Name); state != "up" && state != "unknown" && state != "" {
		return []Finding{fail(link.Name, "it has no link: "+state, "plug the cable in, or look at the switch port")}
	}
	found := []Finding{ok(link.Name, fmt.Sprintf("up, MTU %d", link.MTU))}
	if link.MTU < ethernetMTU {
		found = append(found, fail(link.Name, fmt.Sprintf("its MTU is %d; PXE firmware needs %d", link.MTU, ethernetMTU), fmt.Sprintf("`ip link set %s mtu %d`; a tunnel or an overlay cannot carry network boot", link.Name, ethernetMTU)))
	}
	if link.Flags&net.FlagLoopback != 0 {
		found = append(found, warn(link.Name, "it is the loopback interface: only emulated machines are there", "for servers, name the port in their network as network.interface"))
	}
	return found
}

func operState(name string) string {
	text, err := os.ReadFile(filepath.Join("/sys/class/net", name, "operstate"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func checkAddress(_ context.Context, h *host, name string) []Finding {
	link, err := h.link(name)
	if err != nil || link.Flags&net.FlagLoopback != 0 {
		return nil // told by the check of the interface; all of 127.0.0.0/8 is this host
	}
	addresses := addressesOf(link)
	own := h.Address
	if _, here := prefixOf(addresses, own); len(h.Interfaces) > 1 && len(addresses) > 0 && !here {
		own = addresses[0].Addr() // network.address is another interface's
	}
	switch {
	case len(addresses) == 0:
		return []Finding{fail(link.Name, "it has no IPv4 address", fmt.Sprintf("give it a fixed one: `ip address add ADDRESS/24 dev %s`; it must not come from the DHCP server that this program is", link.Name))}
	case !own.IsValid() && len(addresses) > 1:
		return []Finding{fail(link.Name, fmt.Sprintf("it has the addresses %s: which one machines shall use is not said", join(addresses)), "give network.address in provision.yaml")}
	case !own.IsValid():
		own = addresses[0].Addr()
	}
	network, has := prefixOf(addresses, own)
	if !has {
		return []Finding{fail(link.Name, fmt.Sprintf("network.address %s is not among its addresses %s", own, join(addresses)), "correct network.address, or give the interface that address")}
	}
	return append([]Finding{ok(link.Name, "this host is "+network.String())}, h.subnetsReached(network)...)
}

// subnetsReached warns when none of the DHCP subnets is the interface's own: all
// machines are then behind relays.
func (h *host) subnetsReached(own netip.Prefix) []Finding {
	if h.Mode != ModeServer || len(h.Subnets) == 0 {
		return nil
	}
	for _, s := range h.Subnets {
		if s.Contains(own.Addr()) {
			return nil
		}
	}
	return []Finding{warn(own.Addr().String(), fmt.Sprintf("it is in none of the DHCP subnets %s: only relayed requests will be answered", join(h.Subnets)), "correct dhcp.subnets, unless every machine is behind a DHCP relay that points here")}
}

func prefixOf(all []netip.Prefix, address netip.Addr) (netip.Prefix, bool) {
	for _, p := range all {
		if p.Addr() == address {
			return p, true
		}
	}
	return netip.Prefix{}, false
}

func join(all []netip.Prefix) string {
	words := make([]string, 0, len(all))
	for _, p := range all {
		words = append(words, p.String())
	}
	return strings.Join(words, ", ")
}
