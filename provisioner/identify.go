package provisioner

import (
	"context"
	"fmt"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/talos"
)

// identify is the handler of Pending: the BMC must be this node's and nobody
// else's (I1), and no configured Talos may run there (I2). The plan found both
// so, but time has passed since.
func identify(ctx context.Context, n *node) (transition, error) {
	if err := n.mayPower(ctx); err != nil {
		return transition{}, err
	}
	if err := n.c.looks.take(ctx); err != nil {
		return transition{}, err
	}
	defer n.c.looks.free()
	id, err := n.connect(ctx)
	if err != nil {
		return transition{}, err
	}
	if n.IP != "" && !n.over && !n.reinstall {
		if o := n.c.opts.Prober.Probe(ctx, n.IP); o.State == talos.Configured {
			return transition{}, held(CauseConfigured, "a configured Talos answers at %s", n.IP)
		}
		if err := ctx.Err(); err != nil {
			return transition{}, err
		}
	}
	verdict := n.c.fleet.Match(id.Facts)
	return transition{state: Identified, message: fmt.Sprintf("%s %s, by %s %s", id.Vendor, id.Model, verdict.Key, verdict.Value)}, nil
}

// connect opens a session with the node's BMC, unless one is open, and makes
// sure that it is the right machine's (I1). It gives what the BMC reported.
func (n *node) connect(ctx context.Context) (bmc.Identity, error) {
	if n.client == nil {
		client, err := n.c.opts.Dial(ctx, n.Node)
		if err != nil {
			return bmc.Identity{}, err
		}
		n.client = client
	}
	id, err := n.client.Identify(ctx)
	if err != nil {
		return bmc.Identity{}, err
	}
	n.c.fleet.Learn(n.ID(), id.Facts)
	if _, refusal := n.c.fleet.Verify(n.Node, id.Facts); refusal != nil {
		return bmc.Identity{}, refusal
	}
	n.wasOn = id.PowerState == bmc.On
	n.remember(func(r *store.Node) { r.Facts, r.Vendor, r.Model = id.Facts, id.Vendor, id.Model })
	return id, nil
}

// remember changes what the next update will store.
func (n *node) remember(change func(*store.Node)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(&n.record)
}

// ready makes sure that a session is open, after a resume for instance.
func (n *node) ready(ctx context.Context) error {
	if n.client != nil {
		return nil
	}
	_, err := n.connect(ctx)
	return err
}

// hangUp ends the BMC session, also when ctx has ended: BMCs have few sessions
// and keep a forgotten one for half an hour (iDRAC RAC0218).
func (n *node) hangUp(ctx context.Context) {
	if n.client == nil {
		return
	}
	if err := n.client.Close(ctx); err != nil {
		n.c.opts.Log.Warn("could not end the BMC session", "node", n.ID(), "bmc", n.BMC.Address, "error", err)
	}
	n.client = nil
}
