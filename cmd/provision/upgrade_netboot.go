package main

import (
	"context"
	"fmt"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/upgrade"
	"github.com/talos-provision/provision/pxe/assets"
)

// The ways to a new version, of --method.
const (
	methodDisk = "disk"
	methodPXE  = "pxe"
)

// networkBoots boots the new version from the network, over the installation of
// a node (--method pxe).
type networkBoots struct {
	u          *upgrader
	controller *provisioner.Controller
	cache      *assets.Cache
}

var _ upgrade.NetBoot = (*networkBoots)(nil)

// node is the inventory's, in the version that it shall boot.
func (b *networkBoots) node(name string, target upgrade.Version) (inventory.Node, error) {
	n, known := b.u.nodeAt(func(n inventory.Node) bool { return n.Name == name })
	if !known {
		return n, fmt.Errorf("the inventory has no node %s any more", name)
	}
	n.TalosVersion = target.String()
	return n, nil
}

// May says why the boot would not keep the node's data, or could not be done.
func (b *networkBoots) May(name string, target upgrade.Version) error {
	n, err := b.node(name, target)
	if err != nil {
		return err
	}
	if !n.Install {
		return fmt.Errorf("it is not marked install: true in the inventory, and is never booted from the network")
	}
	return b.controller.MayBootOver(n)
}

// Boot power cycles the node into the target.
func (b *networkBoots) Boot(ctx context.Context, name string, target upgrade.Version) error {
	n, err := b.node(name, target)
	if err != nil {
		return err
	}
	return b.controller.BootOver(ctx, n)
}

// networkMethod makes what --method pxe needs; nil for an upgrade by the disk.
func (u *upgrader) networkMethod() (*networkBoots, error) {
	switch u.f.method {
	case methodDisk:
		return nil, nil //nolint:nilnil // the usual way needs nothing of it
	case methodPXE:
	default:
		return nil, usageError("--method %s: it can be %s or %s", u.f.method, methodDisk, methodPXE)
	}
	if u.serving != nil {
		return u.serving, nil
	}
	controller, err := u.controller(u.state)
	if err != nil {
		return nil, err
	}
	cache, err := u.assetCache(u.selected)
	return &networkBoots{u, controller, cache}, err
}

// serve runs the boot services while run runs. Every image is there before the
// first node is touched: one that cannot be had would leave a node at iPXE.
func (b *networkBoots) serve(ctx context.Context, plan upgrade.Plan, run func(context.Context) error) error {
	if b.u.serving != nil {
		if err := b.u.pullImages(ctx, b.cache, b.images(plan)); err != nil {
			return err
		}
		return run(ctx)
	}
	leaves, err := b.u.leadSite(ctx, b.u.state)
	if err != nil {
		return err
	}
	defer leaves()
	services, err := b.u.bootServices(b.controller, b.cache, b.u.tree.Nodes)
	if err != nil {
		return err
	}
	if err := services.Listen(ctx); err != nil {
		return &statusError{exitFailed, err.Error()}
	}
	defer services.Close()
	if err := b.u.pullImages(ctx, b.cache, b.images(plan)); err != nil {
		return err
	}
	return serveWhile(ctx, services, run)
}

// images are what the nodes of a plan boot at each stop, each once.
func (b *networkBoots) images(plan upgrade.Plan) []assets.Ref {
	var nodes []inventory.Node
	for _, p := range plan.Nodes {
		if p.Action == upgrade.ActionExclude || p.Action == upgrade.ActionHold {
			continue
		}
		for _, stop := range p.Stops {
			if n, err := b.node(p.Node, stop); err == nil {
				nodes = append(nodes, n)
			}
		}
	}
	return imagesOf(nodes)
}
