package upgrade_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/talos-provision/provision/provisioner/upgrade"
)

// kube is the model's Kubernetes.
type kube struct{ *world }

func (k kube) Version(ctx context.Context) (version string, err error) {
	err = k.do(ctx, "Version", "", func() error {
		version = "v1.34.1"
		return nil
	})
	return version, err
}

func (k kube) Nodes(ctx context.Context) (nodes []upgrade.KubernetesNode, err error) {
	err = k.do(ctx, "Nodes", "", func() error {
		for _, name := range slices.Sorted(maps.Keys(k.boxes)) {
			n := k.boxes[name].k
			n.Ready = n.Ready && k.boxes[name].up() && !k.boxes[name].maintenance
			nodes = append(nodes, n)
		}
		return nil
	})
	return nodes, err
}

func (k kube) Budgets(ctx context.Context) (budgets map[string][]string, err error) {
	err = k.do(ctx, "Budgets", "", func() error {
		budgets = map[string][]string{}
		for _, b := range k.boxes {
			budgets[b.k.Name] = b.budgets
		}
		return nil
	})
	return budgets, err
}

func (k kube) box(node string) *box { return k.boxes[strings.TrimPrefix(node, "k-")] }

func (k kube) Cordon(ctx context.Context, node, _, why string) (ours bool, err error) {
	err = k.do(ctx, "Cordon", node, func() error {
		b := k.box(node)
		if b.k.Unschedulable && !b.k.Ours {
			return nil
		}
		ours, b.k.Unschedulable, b.k.Ours, b.why = true, true, true, why
		k.checkCordons(b)
		return nil
	})
	return ours, err
}

// checkCordons: no more than allowed, no two of a chassis.
func (k kube) checkCordons(b *box) {
	workers := 0
	for _, o := range k.boxes {
		if !o.k.Ours || o.role != b.role {
			continue
		}
		workers++
		if o != b && b.role == upgrade.ControlPlane {
			k.blame("%s and %s are cordoned at the same time", o.Name, b.Name)
		}
		if o != b && b.Chassis != "" && o.Chassis == b.Chassis {
			k.blame("%s and %s share a chassis", o.Name, b.Name)
		}
	}
	if b.role == upgrade.Worker && workers > k.limit {
		k.blame("%d workers are cordoned, and %d may be", workers, k.limit)
	}
}

func (k kube) Drain(ctx context.Context, node string, _ time.Duration, progress func(string)) error {
	return k.do(ctx, "Drain", node, func() error {
		b := k.box(node)
		if b.installs > 0 && b.staged != "" {
			k.blame("%s is drained after its installation", b.Name)
		}
		if b.fault == drainStuck {
			progress("evicting default/web-0")
			return errors.New("timed out")
		}
		return nil
	})
}

func (k kube) Uncordon(ctx context.Context, node string) error {
	return k.do(ctx, "Uncordon", node, func() error {
		if b := k.box(node); b.k.Ours {
			b.k.Unschedulable, b.k.Ours, b.why = false, false, ""
		}
		return nil
	})
}
