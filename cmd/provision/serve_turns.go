package main

import (
	"context"
	"sync"
	"time"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner"
)

// turns have one BMC asked one thing at a time (I10), whoever in the daemon asks: a run
// that works on its node, and plans that are made meanwhile.
type turns struct {
	mu sync.Mutex
	of map[string]chan struct{} // by the BMC's address; each has room for whoever has the turn
}

// take waits for the turn at a BMC. Whoever has it gives it back.
func (t *turns) take(ctx context.Context, address string) (giveBack func(), err error) {
	t.mu.Lock()
	if t.of == nil {
		t.of = map[string]chan struct{}{}
	}
	turn := t.of[address]
	if turn == nil {
		turn = make(chan struct{}, 1)
		t.of[address] = turn
	}
	t.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// dialer logs in to BMCs that are asked in turns from then on.
func (t *turns) dialer(dial provisioner.Dialer) provisioner.Dialer {
	return func(ctx context.Context, n inventory.Node) (provisioner.BMC, error) {
		giveBack, err := t.take(ctx, n.BMC.Address)
		if err != nil {
			return nil, err
		}
		defer giveBack()
		client, err := dial(ctx, n)
		if err != nil {
			return nil, err
		}
		return &bmcInTurn{client, t, n.BMC.Address}, nil
	}
}

// bmcInTurn waits for its turn before everything that it does.
type bmcInTurn struct {
	bmc     provisioner.BMC
	turns   *turns
	address string
}

var _ provisioner.BMC = (*bmcInTurn)(nil)

func inTurn[T any](ctx context.Context, b *bmcInTurn, do func(context.Context) (T, error)) (T, error) {
	giveBack, err := b.turns.take(ctx, b.address)
	if err != nil {
		var none T
		return none, err
	}
	defer giveBack()
	return do(ctx)
}

func (b *bmcInTurn) inTurn(ctx context.Context, do func(context.Context) error) error {
	_, err := inTurn(ctx, b, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) })
	return err
}

// Identify implements provisioner.BMC.
func (b *bmcInTurn) Identify(ctx context.Context) (bmc.Identity, error) {
	return inTurn(ctx, b, b.bmc.Identify)
}

// Arm implements provisioner.BMC.
func (b *bmcInTurn) Arm(ctx context.Context, r bmc.BootRequest) (bmc.BootOverride, error) {
	return inTurn(ctx, b, func(ctx context.Context) (bmc.BootOverride, error) { return b.bmc.Arm(ctx, r) })
}

// Disarm implements provisioner.BMC.
func (b *bmcInTurn) Disarm(ctx context.Context) error { return b.inTurn(ctx, b.bmc.Disarm) }

// BootOverride implements provisioner.BMC.
func (b *bmcInTurn) BootOverride(ctx context.Context) (bmc.BootOverride, error) {
	return inTurn(ctx, b, b.bmc.BootOverride)
}

// PowerOff implements provisioner.BMC.
func (b *bmcInTurn) PowerOff(ctx context.Context) error { return b.inTurn(ctx, b.bmc.PowerOff) }

// PowerOn implements provisioner.BMC.
func (b *bmcInTurn) PowerOn(ctx context.Context) error { return b.inTurn(ctx, b.bmc.PowerOn) }

// closePatience bounds how long the end of a session waits for its turn.
const closePatience = 10 * time.Second

// Close implements provisioner.BMC. It does not stay away when ctx has ended or the turn
// does not come: BMCs have few sessions.
func (b *bmcInTurn) Close(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), closePatience)
	defer cancel()
	if giveBack, err := b.turns.take(bounded, b.address); err == nil {
		defer giveBack()
	}
	return b.bmc.Close(ctx)
}
