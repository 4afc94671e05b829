package provisioner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/talos"
)

// bootstrap begins etcd of a new cluster on this node, when it is the one to do
// so and when it is proven that the cluster has no members anywhere (I6): a
// second bootstrap would make a second cluster out of half the nodes.
func (n *node) bootstrap(ctx context.Context) error {
	n.bootstrapWaits = ""
	if !n.config.ControlPlane() || n.bootstrapped || n.c.bootstrapper(n.Cluster) != n {
		return nil
	}
	if waits, err := n.claimBootstrap(ctx); err != nil || waits != "" {
		n.bootstrapWaits = waits
		return err
	}
	found, err := n.c.census(ctx, n.Cluster)
	switch {
	case err != nil:
		return err
	case found.member != "":
		n.bootstrapped = true // the cluster lives; this node joins it
		n.yieldBootstrap(ctx)
		return nil
	case found.unproven != "":
		n.bootstrapWaits = found.unproven
		return nil
	}
	if step(n.snapshot().Step) != stepBootstrapping {
		if err := n.enter(transition{state: Installed, step: stepBootstrapping, message: "bootstraps etcd: every control plane of the cluster waits for it"}); err != nil {
			return err
		}
	}
	if err := n.mayAct(ctx); err != nil {
		return err
	}
	err = n.admin.Bootstrap(ctx, n.host())
	switch {
	case err == nil, errors.Is(err, talos.ErrAlreadyBootstrapped):
		n.bootstrapped = true
		return nil // the right to it is kept until the node is Ready: others see no member before
	case ctx.Err() != nil:
		return ctx.Err()
	}
	// Asked again at the next look: Talos refuses a second bootstrap of one node by itself.
	n.bootstrapWaits = fmt.Sprintf("asking %s to bootstrap: %v", n.Name, err)
	return nil
}

// bootstrapRight is the claim of the one controller that may bootstrap a cluster,
// which several may work on. No node can have this name.
const bootstrapRight = "(etcd bootstrap)"

// claimBootstrap takes the right to bootstrap the cluster, from before its control
// planes are asked; it says who has it otherwise.
func (n *node) claimBootstrap(ctx context.Context) (waits string, err error) {
	if n.bootstrapClaim != nil {
		return "", nil
	}
	claim, err := n.c.opts.Store.Claim(ctx, []string{n.Cluster + "/" + bootstrapRight}, "bootstrap etcd on "+n.Name)
	switch {
	case errors.Is(err, store.ErrClaimed):
		return fmt.Sprintf("another controller may bootstrap the cluster: %v", err), nil
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		return "", &stateError{err}
	}
	n.bootstrapClaim = claim
	return "", nil
}

func (n *node) yieldBootstrap(ctx context.Context) {
	if n.bootstrapClaim == nil {
		return
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	if err := n.bootstrapClaim.Release(bounded); err != nil {
		n.c.opts.Log.Warn("the right to bootstrap a cluster could not be released, and ends by itself", "node", n.ID(), "error", err)
	}
	n.bootstrapClaim = nil
}

// bootstrapper is the one node of a run that may bootstrap the cluster: the one
// that began to, else the first control plane that was not given up.
func (c *Controller) bootstrapper(cluster string) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	var first *node
	for _, n := range c.nodes {
		record := n.snapshot()
		if n.Cluster != cluster || !n.config.ControlPlane() || State(record.State).GivenUp() {
			continue
		}
		if step(record.Step) == stepBootstrapping {
			return n
		}
		if first == nil || n.Name < first.Name {
			first = n
		}
	}
	return first
}

// census is what the control planes of a cluster say of etcd.
type census struct {
	// member is a node whose etcd runs: the cluster exists.
	member string
	// unproven is why it is not known yet that there is no member anywhere.
	unproven string
}

// census asks every control plane of the inventory, also those that are not
// part of the run: one that is silent may hold the cluster's data.
func (c *Controller) census(ctx context.Context, cluster string) (census, error) {
	var found census
	for _, n := range c.current().of(cluster) {
		config, has, err := c.configOf(n)
		if err != nil {
			found.unproven = fmt.Sprintf("it is not known whether %s is a control plane: %v", n.Name, err)
			continue
		}
		if !has || !config.ControlPlane() {
			continue
		}
		member, unproven := c.asksEtcd(ctx, n)
		if err := ctx.Err(); err != nil {
			return census{}, err
		}
		if member {
			return census{member: n.Name}, nil
		}
		if unproven != "" {
			found.unproven = unproven
		}
	}
	return found, nil
}

// asksEtcd tells whether etcd runs on a control plane, or why it is not proven that it does not.
func (c *Controller) asksEtcd(ctx context.Context, inventoried inventory.Node) (member bool, unproven string) {
	name, hosts, fresh := inventoried.Name, []string{inventoried.IP}, false
	if n := c.lookup(inventoried.ID()); n != nil {
		record := n.snapshot()
		state := State(record.State)
		switch {
		case state == Configured, state == Maintenance, state.waitsForPower(), state.InFlight():
			return false, fmt.Sprintf("control plane %s is still %s", name, state)
		case state.GivenUp() && step(record.Step) == stepBootstrapping:
			// It was told to bootstrap, and may have: only itself can say.
		case state.GivenUp() && record.SeenInMaintenance:
			return false, "" // it was in maintenance in this run: it is no member of anything
		case state.GivenUp():
			return false, fmt.Sprintf("control plane %s is %s, and may hold the data of an earlier cluster: mend it and run again, or take it out of the inventory", name, state)
		}
		hosts, fresh = n.hosts(), record.SeenInMaintenance
	}
	for _, host := range hosts {
		if host == "" {
			continue
		}
		running := c.adminOf(inventoried).Inspect(ctx, host)
		if !running.Reached {
			continue
		}
		if running.Etcd.Waiting {
			return false, c.waitsLong(inventoried, fresh)
		}
		c.waitsNoMore(inventoried)
		members, err := c.adminOf(inventoried).EtcdMembers(ctx, host)
		if err == nil && len(members) > 0 {
			return true, ""
		}
		return false, fmt.Sprintf("etcd of control plane %s is %q, neither waiting for a bootstrap nor a member", name, running.Etcd.State)
	}
	return false, fmt.Sprintf("control plane %s does not answer, and may hold the cluster's data: start it, or take it out of the inventory", name)
}

// etcdPatience is how long etcd of a control plane that this run did not find in
// maintenance must have waited for a bootstrap: that of a member which has just
// booted shows the same for some seconds, and has data.
const etcdPatience = 20 * time.Second

// waitsLong says why a waiting etcd is not yet known to have no data, or "".
func (c *Controller) waitsLong(n inventory.Node, fresh bool) string {
	if fresh {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	since, known := c.etcdWaits[n.ID()]
	if !known {
		since = time.Now()
		c.etcdWaits[n.ID()] = since
	}
	if time.Since(since) < etcdPatience {
		return fmt.Sprintf("etcd of control plane %s waits, and is watched for a while: a member that has just booted looks the same", n.Name)
	}
	return ""
}

func (c *Controller) waitsNoMore(n inventory.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.etcdWaits, n.ID())
}
