package main

import (
	"context"

	"github.com/talos-provision/provision/bmc"
)

// bmcJob is what one command does with each BMC: look, and after all have been
// looked at and the person agreed, do.
type bmcJob struct {
	verb string
	// look reads; it fills in the entry.
	look func(context.Context, *bmcEntry) error
	// do changes the machine or its BMC; nil for commands that only look.
	do func(context.Context, *bmcEntry) error
	// asks says what will happen to the machines, for the question: "These 2
	// machines will be …".
	asks string
	// arms says that power is not touched: nobody is asked about nodes of the
	// inventory, whose identity is checked.
	arms bool
	// starts says that the machine draws power in the end.
	starts bool
	// show prints the results; nil is the common table.
	show func(*bmcRun) error
}

func lookAtAll(ctx context.Context, e *bmcEntry) error {
	id, err := e.client.Identify(ctx)
	if err != nil {
		return err
	}
	e.identity, e.result.PowerState, e.result.Boot = id, id.PowerState, &id.Boot
	return nil
}

func lookAtPower(ctx context.Context, e *bmcEntry) (err error) {
	e.result.PowerState, err = e.client.PowerState(ctx)
	return err
}

func lookAtMedia(ctx context.Context, e *bmcEntry) (err error) {
	e.result.Media, err = e.client.Media(ctx)
	return err
}

func powerOn(ctx context.Context, e *bmcEntry) error {
	return e.powered(bmc.On, e.client.PowerOn(ctx))
}

func (c *bmcCommands) powerOff(ctx context.Context, e *bmcEntry) error {
	return e.powered(bmc.Off, e.client.PowerOffGracefully(ctx, c.given.graceful))
}

func (c *bmcCommands) powerCycle(ctx context.Context, e *bmcEntry) error {
	if c.given.graceful > 0 {
		if err := e.client.PowerOffGracefully(ctx, c.given.graceful); err != nil {
			return err
		}
	}
	return e.powered(bmc.On, e.client.PowerCycle(ctx))
}

// powered notes the state that a power command reached, or that it is not known.
func (e *bmcEntry) powered(reached bmc.PowerState, err error) error {
	e.result.PowerState = reached
	if err != nil {
		e.result.PowerState = bmc.Unknown
	}
	e.result.Boot = nil // a boot used it up
	return err
}

func armFor(r bmc.BootRequest) func(context.Context, *bmcEntry) error {
	return func(ctx context.Context, e *bmcEntry) error {
		now, err := e.client.Arm(ctx, r)
		e.result.Boot = &now
		return err
	}
}

func clearBoot(ctx context.Context, e *bmcEntry) error {
	if err := e.client.ClearBootOverride(ctx); err != nil {
		return err
	}
	now, err := e.client.BootOverride(ctx)
	e.result.Boot = &now
	return err
}

func insertMedia(uri string) func(context.Context, *bmcEntry) error {
	return func(ctx context.Context, e *bmcEntry) error {
		if err := e.client.InsertMedia(ctx, uri); err != nil {
			return err
		}
		return lookAtMedia(ctx, e)
	}
}

func ejectMedia(ctx context.Context, e *bmcEntry) error {
	if err := e.client.EjectMedia(ctx); err != nil {
		return err
	}
	return lookAtMedia(ctx, e)
}
