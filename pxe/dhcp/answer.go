package dhcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"time"

	"golang.org/x/net/ipv4"
)

// answer decides about a batch of packets, makes its leases durable with one
// write and only then sends the replies: no client learns of a lease that a
// killed server would forget.
func (s *Server) answer(p *port, messages []ipv4.Message) {
	now := s.engine.options.Now()
	decisions, err := s.decide(p, messages, now)
	if err != nil {
		s.report(Problem{Kind: LeaseFileFailed, Message: fmt.Sprintf("no lease is confirmed: %v", err)}, now)
		decisions = withoutLeases(decisions)
	}
	s.send(p, decisions)
	for _, d := range decisions {
		s.tell(d)
		if d.Lease != nil && s.engine.options.OnLease != nil {
			s.engine.options.OnLease(*d.Lease)
		}
		if d.Problem != nil {
			s.report(*d.Problem, now)
		}
	}
}

// decide decides about a batch. The error says that its leases are not durable.
func (s *Server) decide(p *port, messages []ipv4.Message, now time.Time) ([]Decision, error) {
	s.work.Lock()
	defer s.work.Unlock()
	decisions := make([]Decision, 0, len(messages))
	for _, m := range messages {
		decisions = append(decisions, s.handle(p, m, now))
	}
	return decisions, s.commit()
}

// withoutLeases drops what depends on the lease file.
func withoutLeases(decisions []Decision) []Decision {
	for i, d := range decisions {
		if d.Lease != nil && d.Lease.Type == TypeACK {
			decisions[i] = Decision{Ignored: NotDurable, asked: d.asked}
		}
	}
	return decisions
}

// handle decides about one packet. A panic costs that packet only: DHCP
// parsers have had some (insomniacslk/dhcp#382, #454).
func (s *Server) handle(p *port, m ipv4.Message, now time.Time) (d Decision) {
	defer func() {
		if cause := recover(); cause != nil {
			s.log.Error("a DHCP packet caused a panic and is dropped; please report this", "from", m.Addr, "panic", cause, "stack", string(debug.Stack()))
			d = silent(Malformed, "panic")
		}
	}()
	r, err := ParseRequest(m.Buffers[0][:m.N])
	if err != nil {
		if errors.Is(err, ErrNotRequest) {
			return Decision{Ignored: ForeignMessage}
		}
		s.log.Debug("a packet is not understood", "from", m.Addr, "error", err)
		return Decision{Ignored: Malformed}
	}
	r.BootPort = p.boot
	if source, ok := m.Addr.(*net.UDPAddr); ok {
		from := source.AddrPort()
		r.Source = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
	}
	var control ipv4.ControlMessage
	if err := control.Parse(m.OOB[:m.NN]); err == nil {
		r.Destination = fromIP(control.Dst)
		r.Link = s.links.find(control.IfIndex, now)
	}
	d = s.engine.decide(r, now)
	d.asked = typeOf(r.Packet)
	s.trace(r, d)
	return d
}

func (s *Server) trace(r Request, d Decision) {
	if !s.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	attrs := []any{
		"mac", r.MAC().String(), "message", r.Packet.MessageType().String(), "class", r.ClientClass(), "arch", r.Arch().String(),
		"xid", r.xid(), "relay", r.relay(), "reason", d.Reason,
	}
	if d.Reply != nil {
		attrs = append(attrs, "reply", d.Reply.Packet.MessageType().String(), "to", d.Reply.To)
	}
	if d.Lease != nil {
		attrs = append(attrs, "ip", d.Lease.IP, "file", d.Lease.BootFile)
	}
	s.log.Debug("DHCP request", attrs...)
}

// commit writes the leases that changed.
func (s *Server) commit() error {
	changes := s.engine.table.changes
	s.engine.table.changes = s.engine.table.changes[:0]
	if len(changes) == 0 {
		return nil
	}
	if s.journal == nil {
		s.commits.add(changes)
		return nil
	}
	if err := s.journal.append(changes); err != nil {
		s.engine.table.unsave(changes)
		return err
	}
	s.commits.add(changes)
	if s.journal.wantsRewrite(len(s.engine.table.byIP)) {
		// The old file is complete, so a failed compaction loses nothing.
		if err := s.journal.rewrite(s.engine.table.records()); err != nil {
			s.log.Warn("the lease file grows on", "error", err)
		}
	}
	return nil
}

// mostHeld bounds the replies that are held back at one time.
const mostHeld = 1024

// send sends the replies of a batch, those that are held back later.
func (s *Server) send(p *port, decisions []Decision) {
	out := make([]*Reply, 0, len(decisions))
	for _, d := range decisions {
		switch {
		case d.Reply == nil:
		case d.Reply.Delay > 0 && s.held.Load() < mostHeld:
			s.held.Add(1)
			time.AfterFunc(d.Reply.Delay, func() {
				s.held.Add(-1)
				s.sendNow(p, []*Reply{d.Reply})
			})
		default:
			out = append(out, d.Reply)
		}
	}
	s.sendNow(p, out)
}

// sendNow sends replies. What cannot be sent is skipped: the client asks again.
func (s *Server) sendNow(p *port, replies []*Reply) {
	out := make([]ipv4.Message, 0, len(replies))
	for _, r := range replies {
		if r.Frame != nil {
			if s.sendFrame(r) == nil {
				continue
			}
			r.To = netip.AddrPortFrom(broadcastAddress, clientPort)
		}
		out = append(out, outMessage(r))
	}
	conn := p.socket()
	for len(out) > 0 && conn != nil {
		n, err := conn.WriteBatch(out, 0)
		if err != nil {
			n = max(n, 0)
			s.log.Warn("a DHCP reply could not be sent", "to", out[n].Addr, "error", err)
			n++
		}
		out = out[n:]
	}
}

func (s *Server) sendFrame(r *Reply) error {
	s.mu.Lock() // the descriptor must not be closed and used anew meanwhile
	defer s.mu.Unlock()
	if s.frames == nil {
		return net.ErrClosed
	}
	return s.frames.send(r)
}

func (s *Server) report(p Problem, now time.Time) {
	if !s.reports.due(p, now) {
		return
	}
	s.log.Warn(p.Message, "kind", p.Kind, "mac", p.MAC, "ip", p.IP)
	if s.engine.options.OnProblem != nil {
		s.engine.options.OnProblem(p)
	}
}
