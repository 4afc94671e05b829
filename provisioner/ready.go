package provisioner

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/talos-provision/provision/provisioner/talos"
)

// awaitReady is the handler of Installed: the node joins its cluster, which one
// of them bootstraps when it is new, until Talos is running and Kubernetes says Ready.
func awaitReady(ctx context.Context, n *node) (transition, error) {
	return n.watch(ctx, remaining(n.snapshot().Since, n.c.budgets().ReadyTimeout), n.lookReady, n.readyFailed)
}

func (n *node) lookReady(ctx context.Context) (transition, error) {
	if err := n.bootstrap(ctx); err != nil {
		return transition{}, err
	}
	for _, host := range n.hosts() {
		running := n.admin.Inspect(ctx, host)
		if !running.Reached {
			continue
		}
		if n.lastMiss = notReady(running); n.lastMiss != "" {
			return transition{}, nil
		}
		n.rememberAddress(host, running.Version)
		return transition{state: Ready, message: fmt.Sprintf("is Ready in Kubernetes as %s", running.Kubernetes.Name)}, nil
	}
	n.lastMiss = "its Talos API does not answer"
	return transition{}, nil
}

// notReady says what keeps a running node from being Ready, or "".
func notReady(r talos.Running) string {
	switch {
	case r.Stage != "running" || !r.Ready:
		reason := fmt.Sprintf("Talos is in stage %q", r.Stage)
		if len(r.Unmet) > 0 {
			reason += ", unmet: " + strings.Join(r.Unmet, ", ")
		}
		return reason
	case !r.Kubernetes.Registered:
		return "Talos is running, and Kubernetes does not know the node yet"
	case !r.Kubernetes.Ready:
		return "Talos is running, and Kubernetes says that the node " + r.Kubernetes.Name + " is not Ready"
	}
	return ""
}

func (n *node) readyFailed() (transition, error) {
	timeout := n.c.budgets().ReadyTimeout
	if n.c.clusterGrows(n.Cluster, timeout) {
		return transition{}, nil
	}
	if waits := n.bootstrapWaits; waits != "" {
		return transition{}, failed(CauseBootstrap, "etcd of the cluster was not bootstrapped in %s: %s", timeout, waits)
	}
	return transition{}, failed(CauseNotReady, "after %s %s", timeout, n.lastMiss)
}

// clusterGrows says whether a control plane of the run is still on its way to be
// installed, or was installed less than timeout ago: without all of them etcd is
// not bootstrapped, and then nobody of the cluster can be ready.
func (c *Controller) clusterGrows(cluster string, timeout time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		if n.Cluster != cluster || !n.config.ControlPlane() {
			continue
		}
		record := n.snapshot()
		state := State(record.State)
		underway := !state.GivenUp() && !n.goal.reached(state) && state.rank() < Installed.rank()
		fresh := state == Installed && time.Since(record.Since) < timeout
		if underway || fresh {
			return true
		}
	}
	return false
}
