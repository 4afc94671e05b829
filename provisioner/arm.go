package provisioner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
)

// powerTimeout bounds the part of a power cycle that is finished even when the
// run is interrupted. BMCs take up to five minutes to reach a power state.
const powerTimeout = 12 * time.Minute

// ejectTimeout bounds the clean-up after a boot from virtual media.
const ejectTimeout = 3 * time.Minute

// arm is the handler of Identified: the one-time network boot is set and read
// back. A BMC that does not keep it ends here, before any power is touched (I4).
func arm(ctx context.Context, n *node) (transition, error) {
	if err := n.ready(ctx); err != nil {
		return transition{}, err
	}
	override, err := n.armBoot(ctx)
	if err != nil {
		return transition{}, err
	}
	return transition{state: Armed, message: fmt.Sprintf("one-time boot set and read back: %s %s %s", override.Target, override.Enabled, override.Mode)}, nil
}

// powerCycle is the handler of Armed. The cycle is off, arm again, on: a BMC
// may drop the override when power goes (jetlag#18, metal-operator#938). From
// the power-off on, an interrupt no longer stops it: a machine left off helps nobody.
func powerCycle(ctx context.Context, n *node) (transition, error) {
	at := step(n.snapshot().Step)
	if err := ctx.Err(); err != nil && at == stepPoweringOff {
		return transition{}, err // nothing was asked of the BMC yet
	}
	if at != stepNone {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), powerTimeout)
		defer cancel()
		ctx = bounded
	}
	if err := n.ready(ctx); err != nil {
		return transition{}, err
	}
	switch at {
	case stepPoweringOff:
		return powerOff(ctx, n)
	case stepOff:
		return rearm(ctx, n)
	case stepPoweringOn:
		return powerOn(ctx, n)
	default:
		return awaitTurn(ctx, n)
	}
}

// awaitTurn waits for the node's own reboot interval (I7) and for its place in
// the fleet's power window (I10).
func awaitTurn(ctx context.Context, n *node) (transition, error) {
	record, budgets := n.snapshot(), n.c.opts.Budgets
	if record.Attempts >= budgets.Attempts {
		return transition{}, failed(CauseBudget, "it was power cycled %d times in this run, which is its budget", record.Attempts)
	}
	last := record.LastPowerOn
	if wait := time.Until(last.Add(budgets.MinRebootInterval)); !last.IsZero() && wait > 0 {
		err := n.enter(transition{state: Armed, message: fmt.Sprintf("waits %s: it was powered on %s ago", wait.Round(time.Second), time.Since(last).Round(time.Second))})
		if err != nil {
			return transition{}, err
		}
		if err := sleep(ctx, wait); err != nil {
			return transition{}, err
		}
	}
	if err := n.c.window.Wait(ctx); err != nil {
		return transition{}, err
	}
	return transition{state: Armed, step: stepPoweringOff, message: "powering off"}, nil
}

func powerOff(ctx context.Context, n *node) (transition, error) {
	if err := n.client.PowerOff(ctx); err != nil {
		return transition{}, err
	}
	return transition{state: Armed, step: stepOff, message: "is off"}, nil
}

// rearm sets the override again while the power is off. If that fails, a
// machine that was on is put back on: it then boots as it always did.
func rearm(ctx context.Context, n *node) (transition, error) {
	if _, err := n.armBoot(ctx); err != nil {
		if n.wasOn {
			err = errors.Join(err, n.client.PowerOn(ctx))
		}
		return transition{}, err
	}
	n.forget()
	n.renewToken()
	n.remember(func(r *store.Node) {
		r.Attempts++
		r.ConfiguredBy = ""
		r.LastPowerOn = time.Now()
	})
	return transition{state: Armed, step: stepPoweringOn, message: "powering on"}, nil
}

func powerOn(ctx context.Context, n *node) (transition, error) {
	if err := n.client.PowerOn(ctx); err != nil {
		return transition{}, err
	}
	// The machine boots for minutes; the session is not needed meanwhile.
	n.hangUp(ctx)
	attempt := n.snapshot().Attempts
	return transition{state: PowerCycled, message: fmt.Sprintf("powered on, attempt %d of %d", attempt, n.c.opts.Budgets.Attempts)}, nil
}
