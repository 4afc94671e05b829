package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner/kubernetes"
	"github.com/talos-provision/provision/provisioner/machineconfig"
	"github.com/talos-provision/provision/provisioner/upgrade"
)

// reachKubernetes fills in the way to the cluster's Kubernetes API. That there is
// none is a finding of the plan, and no error here.
func (u *upgrader) reachKubernetes(ctx context.Context, o *upgrade.Options, lost context.CancelCauseFunc) error {
	kubeconfig, err := u.kubeconfig(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		o.Kubernetes = noKubernetes{err}
		return nil //nolint:nilerr // the plan tells it, as a finding with its cure
	}
	cluster, err := kubernetes.Connect(kubeconfig, u.config.Upgrade.CallTimeout)
	if err != nil {
		return usageError("%v", err)
	}
	upgrader := kubernetes.Upgrader{
		Cluster: cluster,
		Options: kubernetes.DrainOptions{Bare: u.f.evictBare, KeepEmptyDir: u.f.keepEmptyDir, Retry: u.config.Upgrade.Poll},
		Lease:   kubernetes.LockOptions{Duration: u.config.Upgrade.LeaseDuration, Renew: u.config.Upgrade.LeaseRenew, Lost: lost},
	}
	o.Kubernetes, o.Locks = upgrader, []upgrade.Locker{upgrader}
	o.APIHost = u.apiHost(ctx, cluster.Endpoint())
	return nil
}

// kubeconfig is that of --kubeconfig, or one that a control plane node gives. It
// is a secret, and kept nowhere (I9).
func (u *upgrader) kubeconfig(ctx context.Context) ([]byte, error) {
	if u.f.kubeconfig != "" {
		kubeconfig, err := os.ReadFile(u.f.kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("read --kubeconfig: %w", err)
		}
		return kubeconfig, nil
	}
	var failures []error
	for _, n := range u.likelyControlPlanes() {
		admin, err := upgradeTalos{u}.at(n.IP)
		if err != nil {
			return nil, err
		}
		kubeconfig, err := admin.Kubeconfig(ctx, n.IP)
		if err == nil {
			return kubeconfig, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		failures = append(failures, fmt.Errorf("%s: %w", n.Name, err))
	}
	return nil, fmt.Errorf("no control plane node gives a kubeconfig: %w", errors.Join(failures...))
}

// likelyControlPlanes are the nodes whose machine config says so, or all where
// none says anything.
func (u *upgrader) likelyControlPlanes() []inventory.Node {
	var sure, unknown []inventory.Node
	source := machineconfig.Source{Inventory: u.config.Inventory}
	for _, n := range u.members() {
		switch config, ok, err := source.Render(n); {
		case n.IP == "":
		case err != nil || !ok:
			unknown = append(unknown, n)
		case config.ControlPlane():
			sure = append(sure, n)
		}
	}
	return slices.Concat(sure, unknown)
}

// apiHost is the node's address that our way to the Kubernetes API leads to; ""
// when it is none's, or one that several share.
func (u *upgrader) apiHost(ctx context.Context, endpoint string) string {
	server, err := url.Parse(endpoint)
	if err != nil {
		return ""
	}
	addresses := []string{server.Hostname()}
	if net.ParseIP(server.Hostname()) == nil {
		ctx, cancel := context.WithTimeout(ctx, u.config.Upgrade.CallTimeout)
		defer cancel()
		if addresses, err = net.DefaultResolver.LookupHost(ctx, server.Hostname()); err != nil || len(addresses) != 1 {
			return ""
		}
	}
	n, known := u.nodeAt(func(n inventory.Node) bool { return sameAddress(n.IP, addresses[0]) })
	if !known {
		return ""
	}
	return n.IP
}

func sameAddress(a, b string) bool {
	x, errX := netip.ParseAddr(a)
	y, errY := netip.ParseAddr(b)
	return errX == nil && errY == nil && x.Unmap() == y.Unmap()
}

// noKubernetes is a Kubernetes API that there is no way to.
type noKubernetes struct{ err error }

// Version and the others say why there is no way.
func (k noKubernetes) Version(context.Context) (string, error) { return "", k.err }

// Nodes returns the reason.
func (k noKubernetes) Nodes(context.Context) ([]upgrade.KubernetesNode, error) { return nil, k.err }

// Budgets returns the reason.
func (k noKubernetes) Budgets(context.Context) (map[string][]string, error) { return nil, k.err }

// Cordon returns the reason.
func (k noKubernetes) Cordon(context.Context, string, string, string) (bool, error) {
	return false, k.err
}

// Drain returns the reason.
func (k noKubernetes) Drain(context.Context, string, time.Duration, func(string)) error { return k.err }

// Uncordon returns the reason.
func (k noKubernetes) Uncordon(context.Context, string) error { return k.err }
