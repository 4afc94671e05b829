package tftp

import (
	"container/list"
	"net/netip"
	"sync"
	"time"
)

// admission bounds the transfers at one time, overall and for one client. A
// client that has not answered for a while is half-open: it keeps its place only
// until another one needs it, so that a flood of requests from invented
// addresses does not keep real machines out.
type admission struct {
	most, mostPerClient int

	mu       sync.Mutex
	running  int
	clients  map[netip.Addr]int
	halfOpen list.List // of *transfer, oldest first
}

// How long a client may take for its first answer before it can lose its place.
// Real ones need some milliseconds. A client that fills its own places is more
// likely many machines behind one address than an attack.
const (
	slowAnswer    = 50 * time.Millisecond
	slowestAnswer = time.Second
)

// enter takes a place for the transfer; false when there is none. The transfer
// that it may have to give way is returned, has lost its place already and
// must be ended by the caller.
func (a *admission) enter(t *transfer) (evicted *transfer, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	client := t.report.Client.Addr()
	switch {
	case !client.IsLoopback() && a.clients[client] >= a.mostPerClient:
		evicted = a.oldest(client, t.report.Started.Add(-slowestAnswer))
	case a.running >= a.most:
		evicted = a.oldest(netip.Addr{}, t.report.Started.Add(-slowAnswer))
	default:
		a.add(t, client)
		return nil, true
	}
	if evicted == nil {
		return nil, false
	}
	a.remove(evicted)
	a.add(t, client)
	return evicted, true
}

// oldest is the half-open transfer that began first, and before the given time:
// of the client, or of any when it is not valid.
func (a *admission) oldest(client netip.Addr, before time.Time) *transfer {
	for e := a.halfOpen.Front(); e != nil; e = e.Next() {
		t := e.Value.(*transfer)
		if !t.report.Started.Before(before) {
			return nil // the rest is younger still
		}
		if !client.IsValid() || t.report.Client.Addr() == client {
			return t
		}
	}
	return nil
}

func (a *admission) add(t *transfer, client netip.Addr) {
	if a.clients == nil {
		a.clients = map[netip.Addr]int{}
	}
	a.running++
	a.clients[client]++
	t.place = a.halfOpen.PushBack(t)
}

func (a *admission) remove(t *transfer) {
	if t.gone {
		return
	}
	t.gone = true
	a.settle(t)
	a.running--
	client := t.report.Client.Addr()
	if a.clients[client]--; a.clients[client] == 0 {
		delete(a.clients, client)
	}
}

func (a *admission) settle(t *transfer) {
	if t.place != nil {
		a.halfOpen.Remove(t.place)
		t.place = nil
	}
}

// prove makes the place of a transfer safe: its client answered.
func (a *admission) prove(t *transfer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settle(t)
}

// leave gives the place back; a second time does nothing.
func (a *admission) leave(t *transfer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.remove(t)
}
