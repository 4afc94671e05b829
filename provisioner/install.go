package provisioner

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/talos-provision/provision/provisioner/talos"
)

// maintenanceGrace is how long the maintenance API of a node may still answer
// after it took its config; Talos closes it at once.
const maintenanceGrace = time.Minute

// unsureGrace is how long a node that may have taken its config is given to close
// its maintenance API, before it is sent the config once more.
const unsureGrace = 10 * time.Second

// stageInstalled are the stages of a Talos that has booted its installation. A
// node that still writes to its disk has others, and its port is mostly closed.
var stageInstalled = map[string]bool{"booting": true, "running": true}

// watch polls look until it moves the node on, or until patience ends, when
// late decides, again and again while it gives the zero transition. The handlers of everything after the power-on that has no
// requests of the node to wait for use it.
func (n *node) watch(ctx context.Context, patience time.Duration, look func(context.Context) (transition, error), late func() (transition, error)) (transition, error) {
	end := time.NewTimer(patience)
	defer end.Stop()
	poll := time.NewTicker(n.c.opts.PollInterval)
	defer poll.Stop()
	for {
		next, err := look(ctx)
		if ctx.Err() != nil {
			return transition{}, ctx.Err()
		}
		if err != nil || next.state != "" {
			return next, err
		}
		select {
		case <-ctx.Done():
			return transition{}, ctx.Err()
		case <-end.C:
			if next, err := late(); err != nil || next.state != "" {
				return next, err
			}
			end.Reset(n.c.opts.PollInterval)
		case <-n.notify:
		case <-poll.C:
		}
	}
}

// awaitInstall is the handler of Configured: the node installs itself in
// silence, reboots from its disk, and answers to the cluster's certificate.
func awaitInstall(ctx context.Context, n *node) (transition, error) {
	return n.watch(ctx, remaining(n.snapshot().Since, n.c.budgets().InstallTimeout), n.lookInstalled, n.installFailed)
}

// lookInstalled looks at the node once. The zero transition means: not yet.
func (n *node) lookInstalled(ctx context.Context) (transition, error) {
	if n.landedAgain() {
		if err := n.enter(transition{state: Configured, step: step(n.snapshot().Step), message: "boots from the network again: its own disk was offered to it"}); err != nil {
			return transition{}, err
		}
	}
	for _, host := range n.hosts() {
		running := n.admin.Inspect(ctx, host)
		switch {
		case running.Reached:
			return n.judgeInstalled(ctx, host, running)
		case running.WrongPKI:
			if next, err := n.judgeStranger(ctx, host); err != nil || next.state != "" {
				return next, err
			}
		}
	}
	return transition{}, nil
}

// judgeInstalled decides by what a node says of itself to an administrator.
func (n *node) judgeInstalled(ctx context.Context, host string, running talos.Running) (transition, error) {
	if !n.c.fleet.isNode(n.Node, running.Facts) {
		n.lastMiss = fmt.Sprintf("at %s a different machine of the cluster answers: %s", host, n.c.fleet.Match(running.Facts).Reason)
		return transition{}, nil
	}
	if !stageInstalled[running.Stage] {
		n.lastMiss = fmt.Sprintf("it is in stage %q", running.Stage)
		return transition{}, nil
	}
	if differs := n.differs(running); differs != "" {
		return transition{}, failed(CauseInstalledDiffers, "it is installed, but not as the inventory says: %s", differs)
	}
	if err := n.leaveNetworkBoot(ctx); err != nil {
		return transition{}, err
	}
	n.lastMiss = ""
	n.rememberAddress(host, running.Version)
	return transition{state: Installed, message: fmt.Sprintf("Talos %s runs from %s at %s", running.Version, orUnknown(running.SystemDisk), host)}, nil
}

// differs says in what an installed node is not what was asked for, or "".
func (n *node) differs(running talos.Running) string {
	record := n.snapshot()
	var list []string
	for _, c := range []struct{ what, want, got string }{
		{"Talos version", n.TalosVersion, running.Version},
		{"schematic", n.SchematicID, running.Schematic},
		{"hostname", n.hostname(), running.Hostname},
		{"system disk", record.InstallDisk, running.SystemDisk},
	} {
		// What an older Talos cannot tell is no difference.
		if c.want != "" && c.got != "" && c.want != c.got {
			list = append(list, fmt.Sprintf("%s is %s, not %s", c.what, c.got, c.want))
		}
	}
	return strings.Join(list, "; ")
}

// hostname is the name that the node's config gives it; without one Talos makes its own.
func (n *node) hostname() string { return n.config.Hostname() }

// judgeStranger looks without a certificate at a host that does not know ours:
// a node that is in maintenance again, or another cluster's.
func (n *node) judgeStranger(ctx context.Context, host string) (transition, error) {
	o := n.c.opts.Prober.Probe(ctx, host)
	switch o.State {
	case talos.Maintenance:
		if n.c.confirm(n.Node, o) != "" {
			return transition{}, nil // somebody else's; this node may still come
		}
		record := n.snapshot()
		since, unsure := time.Since(record.Since), step(record.Step) == stepUnsure
		if unsure && since < unsureGrace {
			return transition{}, nil
		}
		if unsure {
			return transition{state: Maintenance, step: stepApplying, message: "is in maintenance and did not take its config yet; it is sent again"}, nil
		}
		if since < maintenanceGrace {
			return transition{}, nil
		}
		return transition{}, failed(CauseMaintenanceAgain, "it took its machine config and is in maintenance again at %s", host)
	case talos.Configured:
		n.lastMiss = fmt.Sprintf("at %s a Talos answers that does not know the certificate of the talosconfig", host)
	case talos.Unreachable:
	}
	return transition{}, nil
}

// installFailed says how far the install came when its time is up.
func (n *node) installFailed() (transition, error) {
	timeout := n.c.budgets().InstallTimeout
	switch {
	case n.lastMiss != "" && strings.Contains(n.lastMiss, "certificate"):
		return transition{}, failed(CauseWrongPKI, "%s after %s", n.lastMiss, timeout)
	case n.sighted().again:
		return transition{}, failed(CauseNetworkAgain, "it booted from the network again after its install, and never answered from its disk in %s", timeout)
	case n.lastMiss != "":
		return transition{}, failed(CauseNotInstalled, "%s after %s", n.lastMiss, timeout)
	}
	return transition{}, failed(CauseNotInstalled, "it took its machine config and was silent for %s", timeout)
}

func orUnknown(disk string) string {
	if disk == "" {
		return "its disk"
	}
	return disk
}
