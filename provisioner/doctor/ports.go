package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// ourName is this program's name, for finding a run of it that holds a port.
const ourName = "provision"

func checkPorts(ctx context.Context, h *host) []Finding {
	found := make([]Finding, 0, len(h.Ports))
	for _, p := range h.Ports {
		found = append(found, h.checkPort(ctx, p))
	}
	return found
}

func (h *host) checkPort(ctx context.Context, p Port) Finding {
	subject := fmt.Sprintf("%s %d/%s", p.Service, p.Listen.Port(), p.Network)
	for _, s := range sockets(h.proc, p.Network) {
		if s.local.Port() != p.Listen.Port() || !overlap(s.local.Addr(), p.Listen.Addr()) {
			continue
		}
		holder, known := holderOf(h.proc, s.inode)
		switch {
		case known && h.ours(holder):
			return ok(subject, fmt.Sprintf("held by this program: process %d is at work", holder.pid))
		case known:
			return fail(subject, fmt.Sprintf("held by %s, process %d, at %s", holder.name, holder.pid, s.local),
				fmt.Sprintf("stop it (`systemctl stop %s` where it is a service), or choose another port or address in provision.yaml", holder.name))
		}
		return fail(subject, fmt.Sprintf("held by another program at %s; who it is cannot be seen", s.local), "run provision doctor as root to see the process; one in another container is not visible from here")
	}
	return tryPort(ctx, subject, p)
}

// ours tells whether the holder is another process of this program.
func (h *host) ours(holder process) bool {
	self, err := os.Executable()
	return holder.name == ourName || (err == nil && holder.program != "" && holder.program == self)
}

// tryPort takes the port for a moment, which shows what no table does: whether
// this process may have it.
func tryPort(ctx context.Context, subject string, p Port) Finding {
	var config net.ListenConfig
	var err error
	if p.Network == "udp" {
		var conn net.PacketConn
		if conn, err = config.ListenPacket(ctx, "udp4", p.Listen.String()); err == nil {
			err = conn.Close()
		}
	} else {
		var listener net.Listener
		if listener, err = config.Listen(ctx, "tcp", p.Listen.String()); err == nil {
			err = listener.Close()
		}
	}
	switch {
	case err == nil:
		return ok(subject, "free")
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fail(subject, "free, but this user may not have it", "run as root, or with CAP_NET_BIND_SERVICE and CAP_NET_RAW")
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fail(subject, fmt.Sprintf("no interface has the address %s", p.Listen.Addr()), "correct the listen address in provision.yaml; `ip -br address` lists what is here")
	}
	return fail(subject, err.Error(), "correct the listen address in provision.yaml")
}

// overlap tells whether sockets at the two addresses would meet.
func overlap(a, b netip.Addr) bool {
	return a.IsUnspecified() || b.IsUnspecified() || a.Unmap() == b.Unmap()
}
