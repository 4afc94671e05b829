package provisioner

import (
	"context"
	"errors"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/machineconfig"
	"github.com/talos-provision/provision/provisioner/talos"
)

// aim says how far the run takes a node, and with which machine config. Whatever
// is missing for that is found here, before any machine is touched.
func (c *Controller) aim(n inventory.Node, goal Goal) (Goal, machineconfig.Config, *Failure) {
	if goal == UntilMaintenance {
		return goal, machineconfig.Config{}, nil
	}
	config, has, err := c.configOf(n)
	switch {
	case err != nil:
		return "", config, failed(CauseMachineConfig, "%w", err)
	case goal == "" && !has:
		return UntilMaintenance, config, nil
	case goal == "":
		goal = UntilReady
	case !has:
		return "", config, &Failure{
			Cause: CauseMachineConfig, Err: errors.New("--until " + string(goal) + " needs a machine config, and the node has none"),
			Hint: "give the node a machineConfig in the inventory, or run with --until maintenance",
		}
	}
	if !goal.needsAccess() {
		return goal, config, nil
	}
	admin, err := c.access(n)
	switch {
	case err != nil:
		return "", config, failed(CauseWrongPKI, "%w", err)
	case admin == nil:
		return "", config, &Failure{
			Cause: CauseWrongPKI, Err: errors.New("to see the node " + string(goal) + " takes the cluster's talosconfig, and the inventory names none"),
			Hint: "give the cluster a talosconfig in its _defaults.yaml, or run with --until configured",
		}
	}
	return goal, config, nil
}

// rendered is a machine config as it was made once.
type rendered struct {
	config machineconfig.Config
	has    bool
	err    error
}

// configOf gives a node's machine config: made once, so that a file which is
// edited during a run does not change under it.
func (c *Controller) configOf(n inventory.Node) (machineconfig.Config, bool, error) {
	c.mu.Lock()
	configs := c.inventory.Configs
	r, known := c.configs[n.ID()]
	c.mu.Unlock()
	if configs == nil {
		return machineconfig.Config{}, false, nil
	}
	if !known {
		r.config, r.has, r.err = configs.Render(n)
		c.mu.Lock()
		c.configs[n.ID()] = r
		c.mu.Unlock()
	}
	return r.config, r.has, r.err
}

// access gives what reaches the configured nodes of the node's cluster; nil
// when the inventory names no talosconfig.
func (c *Controller) access(n inventory.Node) (Admin, error) {
	access := c.current().Access
	if access == nil {
		return nil, nil //nolint:nilnil // no talosconfig is no error: most clusters that end in maintenance have none
	}
	return access(n, func(observed identity.Facts) error {
		if c.fleet.isNode(n, observed) {
			return nil
		}
		return failed(CauseWrongMachine, "the machine that answers is not %s: %s", n.Name, c.fleet.Match(observed).Reason)
	})
}

// adminOf is access for a node whose access was found good by the plan, or whose
// silence is a fair answer.
func (c *Controller) adminOf(n inventory.Node) Admin {
	admin, err := c.access(n)
	switch {
	case err != nil:
		return noAccess{err}
	case admin == nil:
		return noAccess{errors.New("the inventory names no talosconfig for this node")}
	}
	return admin
}

// noAccess is an Admin that reaches nobody.
type noAccess struct{ err error }

func (a noAccess) Inspect(context.Context, string) talos.Running { return talos.Running{Err: a.err} }
func (a noAccess) EtcdMembers(context.Context, string) ([]talos.Member, error) {
	return nil, a.err
}
func (a noAccess) Bootstrap(context.Context, string) error { return a.err }
