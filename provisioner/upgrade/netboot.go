package upgrade

import (
	"context"
	"fmt"

	"github.com/talos-provision/provision/provisioner/talos"
)

// NetBoot boots nodes once from the network over their installation: Talos finds
// its config on the disk, runs it with the version that was booted, and leaves
// the disk as it is. It is the way to a new version where the old one cannot
// write its boot assets any more.
type NetBoot interface {
	// May says why a node cannot be booted so without harm to its data; nil when it can.
	// It touches nothing.
	May(node string, target Version) error
	// Boot power cycles the node into the target, and returns when the node has loaded it.
	Boot(ctx context.Context, node string, target Version) error
}

// checkNetBoot: can it be booted from the network, and keep its data?
func checkNetBoot(p planner, m Machine, n *PlanNode) []Finding {
	if p.NetBoot == nil || len(n.Stops) == 0 {
		return nil
	}
	var found []Finding
	for _, stop := range n.Stops {
		if err := p.NetBoot.May(m.Name, stop); err != nil {
			found = append(found, find(CodeNetBoot, m.Name, "it cannot be booted from the network: %v", err))
			break
		}
	}
	if m.Running.SystemDisk == "" {
		found = append(found, find(CodeNetBoot, m.Name, "it does not tell the disk that Talos is installed on: a boot from the network could find no config there"))
	}
	return found
}

// netBoot has the node run the target from the network. What follows is the same
// as for any node: its boot assets are written, by the new version, and it
// reboots from its disk.
func netBoot(ctx context.Context, n *node) (transition, error) {
	if n.record.Step == string(stepNetBooting) {
		// It was, or may have been, power cycled: that gets its time to show before it is done again.
		_, seen, err := n.watch(ctx, n.r.o.Timeouts.Reboot, func(_ Record, seen talos.Running) bool { return n.runsTarget(seen) })
		if err != nil {
			return transition{}, err
		}
		if n.runsTarget(seen) {
			return n.netBooted(ctx)
		}
	}
	seen := n.r.look(ctx, n.record.Host)
	if err := n.readyToGoDown(ctx); err != nil {
		return transition{}, err
	}
	err := n.mark(ctx, stepNetBooting, "boots "+n.record.Target.String()+" from the network", func(r *Record) {
		if seen.Reached && seen.BootID != "" {
			r.BootID = seen.BootID
		}
	})
	if err != nil {
		return transition{}, err
	}
	if err := n.r.o.NetBoot.Boot(ctx, n.record.Node, n.record.Target); err != nil {
		return transition{}, failed(VerdictNetBoot, "boot %s from the network: %w", n.record.Node, err)
	}
	verdict, seen, err := n.watch(ctx, n.r.o.Timeouts.Reboot, func(_ Record, seen talos.Running) bool { return n.runsTarget(seen) })
	switch {
	case err != nil:
		return transition{}, err
	case !n.runsTarget(seen):
		return transition{}, failed(VerdictNetBoot, "it was booted from the network, and %s: %s", verdict, describe(n.record, verdict, seen))
	}
	return n.netBooted(ctx)
}

// runsTarget says whether a look shows another boot than the one before, of the target.
func (n *node) runsTarget(seen talos.Running) bool {
	return booted(n.record, seen) && sameVersion(seen.Version, n.record.Target)
}

// netBooted goes on with the installation, by the way of the version that runs now.
func (n *node) netBooted(ctx context.Context) (transition, error) {
	api := n.r.o.API
	if api == "" {
		details, err := n.r.o.Talos.Details(ctx, n.record.Host)
		if err != nil {
			return transition{}, failed(VerdictUnanswered, "ask %s how it was installed: %w", n.record.Host, err)
		}
		api, _ = ChooseAPI(n.record.Target, len(details.DroppedArgs()) > 0)
	}
	return transition{
		state: Drained, message: fmt.Sprintf("runs %s from the network; its disk is as before", n.record.Target),
		change: func(r *Record) { r.NetBooted, r.API = true, api },
	}, nil
}
