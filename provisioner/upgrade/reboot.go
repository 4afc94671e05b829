package upgrade

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/talos-provision/provision/provisioner/talos"
)

// readyToGoDown waits until etcd can lose this node, and moves the leadership
// away from it. It is asked right before each order that takes the node down: the
// drain before may have taken long.
func (n *node) readyToGoDown(ctx context.Context) error {
	if n.record.Role != ControlPlane {
		return nil
	}
	deadline := time.Now().Add(n.r.o.Timeouts.Gate)
	for {
		leader, found, err := n.r.etcdNow(ctx)
		if err == nil && len(found) > 0 {
			err = fmt.Errorf("%s %s", found[0].Node, found[0].Text)
		}
		switch {
		case err != nil:
		case leader == "":
			err = errors.New("no control plane is the leader of etcd")
		case leader != n.record.Node || n.r.controlPlanes() == 1:
			return nil
		default:
			err = n.forfeit(ctx)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(deadline) {
			return failed(VerdictUnfit, "etcd cannot lose this node now: %w", err)
		}
		if err := sleep(ctx, n.r.o.Timeouts.Poll); err != nil {
			return err
		}
	}
}

// forfeit moves the etcd leadership to another member; that it moved is looked
// for, and not taken from the answer.
func (n *node) forfeit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, n.r.o.Timeouts.Call)
	defer cancel()
	if _, err := n.r.o.Talos.ForfeitLeadership(ctx, n.record.Host); err != nil {
		return fmt.Errorf("move the etcd leadership away from %s: %w", n.record.Node, err)
	}
	return errors.New("its etcd member leads still")
}

// orderReboot is for a node whose new boot assets are written.
func orderReboot(ctx context.Context, n *node) (transition, error) {
	if seen := n.r.look(ctx, n.record.Host); booted(n.record, seen) {
		// Its power may have failed, or somebody was quicker. What it runs now decides.
		return transition{state: Verifying, message: "it has rebooted already"}, nil
	}
	if err := n.readyToGoDown(ctx); err != nil {
		return transition{}, err
	}
	// The order follows in the next handler: it is written before its effect.
	return transition{state: Rebooting, step: stepOrdering, message: "rebooting"}, nil
}

// awaitReboot orders the reboot, or the power cycle, if that is what comes next,
// and else waits.
func awaitReboot(ctx context.Context, n *node) (transition, error) {
	switch step(n.record.Step) {
	case stepOrdering:
		return n.reboot(ctx)
	case stepPowerCycling:
		return transition{state: Rebooting, step: stepOrdered, message: "waits for it after the power cycle"}, n.powerCycle(ctx)
	default:
		return n.awaitBoot(ctx)
	}
}

// awaitBoot waits for another boot than the one before.
func (n *node) awaitBoot(ctx context.Context) (transition, error) {
	timeout := n.r.o.Timeouts.Reboot
	if n.record.API == Legacy {
		timeout += n.r.o.Timeouts.Install // the node installs before it reboots
	}
	verdict, seen, err := n.watch(ctx, timeout, booted)
	switch {
	case err != nil:
		return transition{}, err
	case booted(n.record, seen):
		return transition{state: Verifying, message: "it has booted anew"}, nil
	}
	return n.notBack(ctx, verdict, seen)
}

// reboot gives the order. When it may have been given before, that one gets its
// time to show: a second one could hit the new boot.
func (n *node) reboot(ctx context.Context) (transition, error) {
	ordered := transition{state: Rebooting, step: stepOrdered, message: "waits for its reboot"}
	if n.resumed {
		gone := func(r Record, seen talos.Running) bool { return !seen.Reached || booted(r, seen) }
		if _, seen, err := n.watch(ctx, n.r.o.Timeouts.Grace, gone); err != nil || gone(n.record, seen) {
			return ordered, err
		}
		if err := n.readyToGoDown(ctx); err != nil {
			return transition{}, err
		}
	}
	mode := talos.RebootDefault
	if n.r.o.PowerCycle {
		mode = talos.RebootPowercycle
	}
	for attempt := 1; ; attempt++ {
		err := n.rebootOnce(ctx, mode)
		if err == nil || errors.Is(err, talos.ErrOutcomeUnknown) {
			return ordered, nil
		}
		if seen := n.r.look(ctx, n.record.Host); !seen.Reached || booted(n.record, seen) {
			return ordered, ctx.Err()
		}
		if attempt == attempts {
			return transition{}, failed(VerdictNeverRebooted, "reboot %s: %w", n.record.Host, err)
		}
		if err := sleep(ctx, n.r.o.Timeouts.Poll); err != nil {
			return transition{}, err
		}
		if err := n.readyToGoDown(ctx); err != nil {
			return transition{}, err
		}
	}
}

func (n *node) rebootOnce(ctx context.Context, mode talos.RebootMode) error {
	ctx, cancel := context.WithTimeout(ctx, n.r.o.Timeouts.Call)
	defer cancel()
	return n.r.o.Talos.Reboot(ctx, n.record.Host, mode)
}
