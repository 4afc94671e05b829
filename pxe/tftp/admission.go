package tftp

import (
	"net/netip"
	"sync"
)

// admission bounds the transfers at one time, overall and for one client.
type admission struct {
	most, mostPerClient int

	mu      sync.Mutex
	running int
	clients map[netip.Addr]int
}

// enter takes a place; false when there is none. A place must be left.
func (a *admission) enter(client netip.Addr) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running >= a.most || !client.IsLoopback() && a.clients[client] >= a.mostPerClient {
		return false
	}
	if a.clients == nil {
		a.clients = map[netip.Addr]int{}
	}
	a.running++
	a.clients[client]++
	return true
}

func (a *admission) leave(client netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running--
	if a.clients[client]--; a.clients[client] == 0 {
		delete(a.clients, client)
	}
}
