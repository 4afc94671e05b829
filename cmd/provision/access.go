package main

import (
	"sync"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/machineconfig"
	"github.com/talos-provision/provision/provisioner/talos"
)

// accesses are the talosconfigs of the inventory's clusters, each read once.
type accesses struct {
	source machineconfig.Source

	mu     sync.Mutex
	byPath map[string]*talos.Access
}

func newAccesses(source machineconfig.Source) *accesses {
	return &accesses{source: source, byPath: map[string]*talos.Access{}}
}

// of gives the talosconfig of a node's cluster; nil when the inventory names none.
func (a *accesses) of(n inventory.Node) (*talos.Access, error) {
	path, ok, err := a.source.Talosconfig(n)
	if err != nil || !ok {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if access, known := a.byPath[path]; known {
		return access, nil
	}
	access, err := talos.LoadAccess(path, "")
	if err != nil {
		return nil, err
	}
	a.byPath[path] = access
	return access, nil
}

// admin gives what reaches the configured nodes of a node's cluster; nil when
// the inventory names no talosconfig.
func (a *accesses) admin(n inventory.Node, confirm func(identity.Facts) error) (provisioner.Admin, error) {
	access, err := a.of(n)
	if access == nil {
		return nil, err // not a talos.Admin without access: in the interface it would not be nil
	}
	return talos.Admin{Access: access, Confirm: confirm}, nil
}
