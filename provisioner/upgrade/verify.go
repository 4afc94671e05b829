package upgrade

import (
	"context"
	"fmt"

	"github.com/talos-provision/provision/provisioner/talos"
)

// verify waits for the node to be what it should, and for long enough, and takes
// our cordon off. The node's own word decides, not how a call ended.
func verify(ctx context.Context, n *node) (transition, error) {
	verdict, seen, err := n.watch(ctx, n.r.o.Timeouts.Verify, nil)
	switch {
	case err != nil:
		return transition{}, err
	case verdict != VerdictUpgraded:
		return n.notBack(ctx, verdict, seen)
	case !n.record.Cordoned:
		return transition{state: Uncordoned, message: "it runs " + n.record.Target.String()}, nil
	}
	if err := n.mark(ctx, stepUncordoning, "uncordoning "+n.record.KubernetesName, nil); err != nil {
		return transition{}, err
	}
	err = n.insist(ctx, func(ctx context.Context) error { return n.r.o.Kubernetes.Uncordon(ctx, n.record.KubernetesName) })
	if err != nil {
		return transition{}, failed(VerdictUncordon, "uncordon %s: %w", n.record.KubernetesName, err)
	}
	return transition{
		state: Uncordoned, message: "it runs " + n.record.Target.String() + " and takes pods again",
		change: func(r *Record) { r.Cordoned = false },
	}, nil
}

// settle waits for the cluster to be fit with the node.
func settle(ctx context.Context, n *node) (transition, error) {
	if err := n.r.awaitFit(ctx, n.record.Node); err != nil {
		return transition{}, err
	}
	return transition{
		state: Upgraded, message: "upgraded from " + n.record.From.String() + " to " + n.record.Target.String(),
		change: func(r *Record) { r.Verdict = VerdictUpgraded },
	}, nil
}

// notBack is for a node that is not what it should be when the time is up.
func (n *node) notBack(ctx context.Context, verdict Verdict, seen talos.Running) (transition, error) {
	if verdict == VerdictGone {
		return n.rescue(ctx, seen)
	}
	return transition{}, n.withLines(failed(verdict, "%s", describe(n.record, verdict, seen)))
}

// describe says what was seen, in words for a person.
func describe(r Record, verdict Verdict, seen talos.Running) string {
	switch verdict {
	case VerdictRolledBack:
		return fmt.Sprintf("it has booted anew and runs %s as before, and not %s", seen.Version, r.Target)
	case VerdictNeverRebooted:
		return fmt.Sprintf("it still runs the boot %s, with %s", r.BootID, seen.Version)
	case VerdictMaintenance:
		return "it is in maintenance mode, without its config"
	case VerdictWrongVersion:
		return fmt.Sprintf("it runs %s, and not %s", seen.Version, r.Target)
	case VerdictWrongSchematic:
		return fmt.Sprintf("it runs the schematic %q, and not %s", seen.Schematic, r.Schematic)
	case VerdictOtherMachine:
		return fmt.Sprintf("the machine at %s has the UUID %s, and the node had %s", r.Host, seen.Facts.UUID, r.UUID)
	case VerdictNotReady:
		return fmt.Sprintf("it has booted %s; its stage is %q and ready: %t %q", seen.Version, seen.Stage, seen.Ready, seen.Unmet)
	default:
		return fmt.Sprintf("%s: %v", r.Host, seen.Err)
	}
}
