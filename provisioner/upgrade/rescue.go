package upgrade

import (
	"context"

	"github.com/talos-provision/provision/provisioner/talos"
)

// rescue asks the BMC about a node that did not come back. Where that is allowed,
// the machine is power cycled, once: firmware that hangs after a reboot is helped
// by it (siderolabs/talos#14146, siderolabs/talos#8751).
func (n *node) rescue(ctx context.Context, seen talos.Running) (transition, error) {
	if n.r.o.BMC == nil {
		return transition{}, failed(VerdictGone, "it did not come back, and no BMC is known: %w", seen.Err)
	}
	power, err := n.r.o.BMC.PowerState(ctx, n.record.Node)
	switch {
	case err != nil:
		return transition{}, failed(VerdictGone, "it did not come back, and its BMC does not answer: %w", err)
	case n.record.Rescued:
		return transition{}, failed(VerdictGone, "it did not come back after a power cycle either; its power is %s: %w", power, seen.Err)
	case !n.r.o.BMCRescue:
		return transition{}, failed(VerdictGone, "it did not come back; its power is %s: %w", power, seen.Err)
	}
	return transition{
		state: Rebooting, step: stepPowerCycling, message: "it did not come back; its power is " + power + ": power cycling it",
		change: func(r *Record) { r.Rescued = true },
	}, nil
}

// powerCycle is only done by the process that decided on it: another would do it a second time.
func (n *node) powerCycle(ctx context.Context) error {
	if n.resumed {
		return nil
	}
	if err := n.r.o.BMC.PowerCycle(ctx, n.record.Node); err != nil {
		return failed(VerdictGone, "it did not come back, and its BMC does not power cycle it: %w", err)
	}
	return nil
}
