package dhcp

import (
	"net"
	"net/netip"
	"time"
)

// links remembers the addresses of interfaces for a short while: asking the
// kernel for every packet would cost more than the rest of the work.
type links struct {
	known map[int]rememberedLink
}

type rememberedLink struct {
	Link
	until time.Time
}

// rememberLink is short, because addresses change when an operator sets a host up.
const rememberLink = 5 * time.Second

// find returns the link of an interface index; without addresses when the
// interface cannot be read.
func (l *links) find(index int, now time.Time) Link {
	if index == 0 {
		return Link{}
	}
	// A clock that steps back must not keep an entry for ever.
	if k, ok := l.known[index]; ok && now.Before(k.until) && k.until.Sub(now) <= rememberLink {
		return k.Link
	}
	link := Link{Index: index, Addresses: readAddresses(index)}
	if l.known == nil {
		l.known = map[int]rememberedLink{}
	}
	l.known[index] = rememberedLink{link, now.Add(rememberLink)}
	return link
}

func readAddresses(index int) []netip.Prefix {
	device, err := net.InterfaceByIndex(index)
	if err != nil {
		return nil
	}
	list, err := device.Addrs()
	if err != nil {
		return nil
	}
	var found []netip.Prefix
	for _, a := range list {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().Is4() {
			found = append(found, p)
		}
	}
	return found
}
