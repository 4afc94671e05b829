package main

import (
	"context"
	"fmt"
	"time"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner/upgrade"
)

// upgradeBMC asks the BMC of a node that did not come back. Each call opens a
// session of its own, and begins with whose machine it is (I1).
type upgradeBMC struct{ u *upgrader }

var _ upgrade.BMC = upgradeBMC{}

func (b upgradeBMC) node(name string) (inventory.Node, error) {
	n, known := b.u.nodeAt(func(n inventory.Node) bool { return n.Name == name })
	if !known || n.BMC.Address == "" {
		return n, fmt.Errorf("the inventory has no bmc.address of %s", name)
	}
	return n, nil
}

// PowerState is such as "On" or "Off".
func (b upgradeBMC) PowerState(ctx context.Context, name string) (string, error) {
	n, err := b.node(name)
	if err != nil {
		return "", err
	}
	return b.u.askBMC(ctx, n)
}

// PowerCycle switches the machine off and on again, so that it boots its own disk.
func (b upgradeBMC) PowerCycle(ctx context.Context, name string) error {
	n, err := b.node(name)
	if err != nil {
		return err
	}
	if err := b.spaced(n); err != nil {
		return err
	}
	giveBack, err := b.u.turns.take(ctx, n.BMC.Address)
	if err != nil {
		return err
	}
	defer giveBack()
	client, err := b.u.client(ctx, n)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close(context.WithoutCancel(ctx)) }()
	seen, err := client.Identify(ctx)
	if err != nil {
		return err
	}
	if err := b.u.verifyBMC(n, seen.Facts); err != nil {
		return err
	}
	// A network boot that was armed for another day would not bring the node back.
	if err := client.Disarm(ctx); err != nil {
		return fmt.Errorf("make the next boot an ordinary one: %w", err)
	}
	if err := b.u.state.PoweredOn(n.Cluster, n.Name, time.Now()); err != nil {
		return err
	}
	return client.PowerCycle(ctx)
}

// spaced keeps two power cycles of a machine apart (I7).
func (b upgradeBMC) spaced(n inventory.Node) error {
	record, found, err := b.u.state.Node(n.Cluster, n.Name)
	if err != nil || !found || record.LastPowerOn.IsZero() {
		return err
	}
	if wait := time.Until(record.LastPowerOn.Add(b.u.config.Budgets.MinRebootInterval)); wait > 0 {
		return fmt.Errorf("it was power cycled at %s, and may be again in %v (budgets.minRebootInterval)", record.LastPowerOn.Format(time.DateTime), wait.Round(time.Second))
	}
	return nil
}
