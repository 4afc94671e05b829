package provisioner

import (
	"fmt"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/talos"
)

// confirm says why a Talos in maintenance is not proven to be this node in the
// version it shall run, or "" when it is (I5). Over the whole fleet the facts
// must point to this node alone: a serial that boards of one chassis share
// proves nothing.
func (c *Controller) confirm(n inventory.Node, o talos.Observation) string {
	if !o.Up() {
		return fmt.Sprintf("Talos is not ready in maintenance (stage %q)", o.Stage)
	}
	verdict := c.fleet.Match(o.Facts)
	switch {
	case verdict.Outcome == identity.Match && verdict.Name != n.ID():
		return fmt.Sprintf("a different machine answers: it is %s (%s)", verdict.Name, verdict.Reason)
	case verdict.Outcome == identity.Conflict:
		return "the machine that answers cannot be told apart: " + verdict.Reason
	case verdict.Outcome == identity.Nobody:
		return fmt.Sprintf("a different machine answers: serial %q, UUID %q, MACs %v are no node's of this inventory", o.Facts.Serial, o.Facts.UUID, o.Facts.MACs)
	}
	// Talos 1.9 cannot tell its version in maintenance.
	if o.Version != "" && n.TalosVersion != "" && o.Version != n.TalosVersion {
		return fmt.Sprintf("it runs Talos %s, not %s", o.Version, n.TalosVersion)
	}
	return ""
}
