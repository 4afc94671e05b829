package provisioner

import "github.com/talos-provision/provision/inventory/identity"

// Collision is a value that several nodes show, by their files or their BMCs.
type Collision struct {
	identity.Collision
	// Frozen are those of Names that nothing else tells from the others: no run touches them (I1).
	Frozen []string
}

// Collisions are the values that several nodes of the inventory show, the strongest
// key first. It knows what BMCs reported to this process.
func (c *Controller) Collisions() []Collision { return c.fleet.Collisions() }

// Conflict says why a node, as cluster/name, cannot be told from others; "" when it can.
func (c *Controller) Conflict(id string) string {
	verdict, known := c.fleet.own(id)
	if !known || verdict.Outcome != identity.Conflict {
		return ""
	}
	return verdict.Reason
}

// Collisions are the values that several nodes show.
func (f *Fleet) Collisions() []Collision {
	shared := f.indexed().Collisions()
	all := make([]Collision, 0, len(shared))
	conflicts := map[string]bool{} // of the nodes that were looked at
	for _, s := range shared {
		c := Collision{Collision: s}
		for _, id := range s.Names {
			frozen, looked := conflicts[id]
			if !looked {
				verdict, known := f.own(id)
				frozen = known && verdict.Outcome == identity.Conflict
				conflicts[id] = frozen
			}
			if frozen {
				c.Frozen = append(c.Frozen, id)
			}
		}
		all = append(all, c)
	}
	return all
}

// own is what a machine that shows all that is known of a node would be taken for. A
// node of which nothing is known is in no conflict.
func (f *Fleet) own(id string) (verdict identity.Verdict, known bool) {
	f.mu.Lock()
	i, known := f.position[id]
	var facts identity.Facts
	if known {
		facts = f.candidates[i].Facts[0]
		if reported, learned := f.learned[id]; learned {
			facts = reported
		}
	}
	f.mu.Unlock()
	if !known {
		return identity.Verdict{}, false
	}
	return f.indexed().Match(facts), true
}
