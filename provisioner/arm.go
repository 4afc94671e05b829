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
	if err := n.awaitInterval(ctx); err != nil {
		return transition{}, err
	}
	if err := n.prepare(ctx); err != nil {
		return transition{}, err
	}
	if err := n.mayPower(ctx); err != nil {
		return transition{}, err
	}
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
	if at == stepNone {
		return awaitTurn(ctx, n)
	}
	if err := n.ready(ctx); err != nil {
		return transition{}, err
	}
	if next, differs := n.recheck(); differs {
		return next, nil
	}
	switch at {
	case stepPoweringOff:
		return powerOff(ctx, n)
	case stepOff:
		return rearm(ctx, n)
	default:
		return powerOn(ctx, n)
	}
}

// recheck compares the step in which an earlier controller left the node with the
// power as it is: what that one wrote down last may not have been done, or may have
// been undone. The zero transition means that they agree.
func (n *node) recheck() (next transition, differs bool) {
	left := n.left
	n.left = stepNone
	switch {
	case left == stepOff && n.wasOn:
		return transition{state: Armed, step: stepPoweringOff, message: "was switched on since it was powered off; powering off"}, true
	case left == stepPoweringOn && !n.wasOn:
		n.remember(func(r *store.Node) { r.Attempts-- })
		return transition{state: Armed, step: stepOff, message: "was to be powered on, and is still off"}, true
	}
	return transition{}, false
}

// awaitInterval waits for the node's own reboot interval (I7), with no session
// open: BMCs end those that are idle for minutes.
func (n *node) awaitInterval(ctx context.Context) error {
	record, budgets := n.snapshot(), n.c.budgets()
	if record.Attempts >= budgets.Attempts {
		return failed(CauseBudget, "it was power cycled %d times in this run, which is its budget", record.Attempts)
	}
	wait := remaining(record.LastPowerOn, budgets.MinRebootInterval)
	if wait <= 0 {
		return nil
	}
	n.hangUp(ctx)
	err := n.enter(transition{state: State(record.State), step: step(record.Step), message: fmt.Sprintf("waits %s: it was powered on at %s", wait.Round(time.Second), record.LastPowerOn.Local().Format(time.TimeOnly))})
	if err != nil {
		return &stateError{err}
	}
	return sleep(ctx, wait)
}

// prepare takes the node's place among those that are armed and power cycled: the
// others have no session open and no override set while they wait.
func (n *node) prepare(ctx context.Context) error {
	if n.prepared || n.c.preparations.tryTake() {
		n.prepared = true
		return nil
	}
	n.hangUp(ctx)
	if err := n.c.preparations.take(ctx); err != nil {
		return err
	}
	n.prepared = true
	return nil
}

// unprepare gives the node's place to another.
func (n *node) unprepare() {
	if n.prepared {
		n.prepared = false
		n.c.preparations.free()
	}
}

// awaitTurn waits for the node's place in the fleet's power window (I10).
func awaitTurn(ctx context.Context, n *node) (transition, error) {
	if err := n.awaitInterval(ctx); err != nil {
		return transition{}, err
	}
	if err := n.prepare(ctx); err != nil {
		return transition{}, err
	}
	groups := n.powerGroups()
	if !n.c.window.Free(groups...) {
		n.hangUp(ctx)
	}
	if err := n.c.window.Wait(ctx, groups...); err != nil {
		return transition{}, err
	}
	if err := n.mayPower(ctx); err != nil {
		return transition{}, err
	}
	return transition{state: Armed, step: stepPoweringOff, message: "powering off"}, nil
}

func powerOff(ctx context.Context, n *node) (transition, error) {
	if err := n.mayPower(ctx); err != nil {
		return transition{}, err
	}
	if err := n.client.PowerOff(ctx); err != nil {
		return transition{}, n.putBack(ctx, err) // the BMC may have done it, and failed afterwards
	}
	return transition{state: Armed, step: stepOff, message: "is off"}, nil
}

// putBack switches a machine that was on before on again, after an error that ends
// its power cycle: it then boots as it always did (I6). One that is resumed was
// switched off by an earlier controller.
func (n *node) putBack(ctx context.Context, err error) error {
	if !n.wasOn && !n.resumed {
		return err
	}
	if late := n.c.powerOns.Wait(ctx, n.powerGroups()...); late != nil {
		return errors.Join(err, late)
	}
	n.remember(func(r *store.Node) { r.LastPowerOn = time.Now() })
	return errors.Join(err, n.client.PowerOn(ctx))
}

// rearm sets the override again while the power is off. If that fails, a machine
// that was on is put back on.
func rearm(ctx context.Context, n *node) (transition, error) {
	if err := n.mayAct(ctx); err != nil {
		return transition{}, err
	}
	_, err := n.armBoot(ctx)
	if err == nil {
		// The power-offs before took different times: the power-ons are counted by themselves (I10).
		err = n.c.powerOns.Wait(ctx, n.powerGroups()...)
	}
	if err != nil {
		return transition{}, n.putBack(ctx, err)
	}
	n.forget()
	n.renewToken()
	n.remember(func(r *store.Node) {
		r.Attempts++
		r.ConfiguredBy = ""
		if n.IP == "" {
			r.Address = "" // where DHCP puts it this time is not known yet
		}
		r.LastPowerOn = time.Now()
	})
	return transition{state: Armed, step: stepPoweringOn, message: "powering on"}, nil
}

func powerOn(ctx context.Context, n *node) (transition, error) {
	if err := n.mayAct(ctx); err != nil {
		return transition{}, err
	}
	if err := n.client.PowerOn(ctx); err != nil {
		return transition{}, err
	}
	// The machine boots for minutes; the session is not needed meanwhile.
	n.hangUp(ctx)
	n.unprepare()
	attempt := n.snapshot().Attempts
	return transition{state: PowerCycled, message: fmt.Sprintf("powered on, attempt %d of %d", attempt, n.c.budgets().Attempts)}, nil
}
