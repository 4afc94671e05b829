package provisioner

import (
	"net/netip"
	"slices"
	"time"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/pxe/dhcp"
	"github.com/talos-provision/provision/pxe/httpboot"
)

// something happens.
func (m *model) something() {
	n := m.nodes[m.rng.IntN(len(m.nodes))]
	of := m.w.of(n.ID())
	switch m.rng.IntN(9) {
	case 0, 1:
		m.hold(n)
	case 2:
		m.release(n)
	case 3:
		m.changeInventory(n)
	case 4:
		m.askAsStranger()
	case 5:
		if of.frozen != "configured" { // it is not known for what it is while it boots
			m.w.reboot(of, true)
		}
	case 6:
		m.squat(of)
	case 7:
		m.c.SetLimits(m.power, m.budgets)
	case 8:
		m.c.ObserveLease(dhcp.Lease{MAC: of.facts.MACs[0], IP: netip.MustParseAddr(of.address), Class: dhcp.ClassPlain})
	}
}

func (m *model) hold(n inventory.Node) {
	m.mu.Lock()
	state := m.state
	m.mu.Unlock()
	if state == nil || state.SetHold(store.Hold{Cluster: n.Cluster, Node: n.Name, Reason: "a look at its fans", By: "me", Since: time.Now()}) != nil {
		return
	}
	m.held[n.ID()] = true
	m.w.noteAbout(didHold, m.w.of(n.ID()))
}

func (m *model) release(n inventory.Node) {
	m.mu.Lock()
	state := m.state
	m.mu.Unlock()
	if state == nil || !m.held[n.ID()] {
		return
	}
	m.w.noteAbout(didRelease, m.w.of(n.ID()))
	if _, err := state.RemoveHold(n.Cluster, n.Name); err == nil {
		delete(m.held, n.ID())
	}
}

// changeInventory puts another generation in place: with a node changed, or gone.
func (m *model) changeInventory(n inventory.Node) {
	next := slices.Clone(m.nodes)
	i := slices.IndexFunc(next, func(o inventory.Node) bool { return o.ID() == n.ID() })
	switch m.rng.IntN(3) {
	case 0:
		next = slices.Delete(next, i, i+1)
	case 1:
		next[i].Labels = map[string]string{"rack": "r3"}
	case 2:
		next[i].KernelArgs += " console=ttyS0"
	}
	m.c.SetInventory(Inventory{Nodes: next})
	if sleep(m.context(), time.Duration(m.rng.IntN(60))*time.Second) == nil {
		m.c.SetInventory(Inventory{Nodes: m.nodes})
	}
}

// askAsStranger asks for a script as a machine that is nobody's, or that shares
// the serial of a chassis with some.
func (m *model) askAsStranger() {
	facts := identity.Facts{Serial: []string{"CHASSIS", "X"}[m.rng.IntN(2)], UUID: "11111111-2222-4333-8444-555555555555", MACs: []string{"02:00:00:00:00:09"}}
	answer := m.c.Direct(m.w.ctx, httpboot.Request{Facts: facts, Arch: "amd64", Platform: "efi", Source: netip.MustParseAddr("10.0.1.200")})
	if answer.Kind == httpboot.Install {
		m.w.mu.Lock()
		m.w.breach("I3: a stranger with %+v was served the install of %s", facts, answer.Node)
		m.w.mu.Unlock()
	}
}

// squat has a stranger in maintenance use a node's address for a while.
func (m *model) squat(of *machine) {
	if of.frozen == "configured" {
		return // a configured node that nobody can see is known by nobody
	}
	stranger := &machine{facts: identity.Facts{Serial: "X", UUID: "11111111-2222-4333-8444-555555555555"}, talos: inMaintenance, ready: true, on: true}
	m.w.mu.Lock()
	m.w.squatters[of.address] = stranger
	of.squatted = true
	m.w.mu.Unlock()
	stay := time.Duration(1+m.rng.IntN(15)) * time.Minute
	go func() {
		_ = sleep(m.w.ctx, stay)
		m.w.mu.Lock()
		defer m.w.mu.Unlock()
		if m.w.squatters[of.address] == stranger {
			delete(m.w.squatters, of.address)
		}
	}()
}
