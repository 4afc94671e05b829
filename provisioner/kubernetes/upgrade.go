package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/talos-provision/provision/provisioner/upgrade"
)

// Upgrader is a Cluster as a rolling upgrade uses it: an upgrade.Kubernetes and
// an upgrade.Locker.
type Upgrader struct {
	Cluster *Cluster
	// Options is how nodes are drained; the upgrade sets Timeout and Progress.
	Options DrainOptions
	// Lease is how the cluster is held; the upgrade sets Holder.
	Lease LockOptions
}

var (
	_ upgrade.Kubernetes = Upgrader{}
	_ upgrade.Locker     = Upgrader{}
)

// Version is that of the API server, such as v1.36.3.
func (u Upgrader) Version(ctx context.Context) (string, error) { return u.Cluster.ServerVersion(ctx) }

// Nodes are all Node objects.
func (u Upgrader) Nodes(ctx context.Context) ([]upgrade.KubernetesNode, error) {
	nodes, err := u.Cluster.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	found := make([]upgrade.KubernetesNode, 0, len(nodes))
	for _, n := range nodes {
		found = append(found, upgrade.KubernetesNode{
			Name: n.Name, Addresses: n.Addresses, Kubelet: n.Kubelet, Ready: n.Ready, Unschedulable: n.Unschedulable, Ours: n.Ours,
		})
	}
	return found, nil
}

// Budgets says by node what keeps its pods from being evicted.
func (u Upgrader) Budgets(ctx context.Context) (map[string][]string, error) {
	blockers, err := u.Cluster.DrainChecks(ctx, u.Options)
	if err != nil {
		return nil, err
	}
	found := make(map[string][]string, len(blockers))
	for node, pods := range blockers {
		for _, pod := range pods {
			found[node] = append(found[node], pod.String())
		}
	}
	return found, nil
}

// Cordon makes the node unschedulable and marks it as ours, with the run and why.
func (u Upgrader) Cordon(ctx context.Context, node, run, why string) (bool, error) {
	return u.Cluster.Cordon(ctx, node, run, why)
}

// Drain evicts the pods of a node, as the budgets allow, within a time.
func (u Upgrader) Drain(ctx context.Context, node string, timeout time.Duration, progress func(string)) error {
	o := u.Options
	// No time at all is not the default time.
	o.Timeout, o.Progress = max(timeout, time.Nanosecond), progress
	return u.Cluster.Drain(ctx, node, o)
}

// Uncordon takes our own mark and the cordon off.
func (u Upgrader) Uncordon(ctx context.Context, node string) error {
	return u.Cluster.Uncordon(ctx, node)
}

// Lock holds the cluster against other controllers, wherever they keep their state.
func (u Upgrader) Lock(ctx context.Context, _, holder string) (func(context.Context) error, error) {
	o := u.Lease
	o.Holder = holder
	lock, err := u.Cluster.Lock(ctx, o)
	var locked *LockedError
	if errors.As(err, &locked) {
		return nil, fmt.Errorf("%w: %w", upgrade.ErrLocked, err)
	}
	if err != nil {
		return nil, err
	}
	return lock.Release, nil
}
