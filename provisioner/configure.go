package provisioner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/talos"
)

// applyPatience is how long a node in maintenance may refuse connections before
// it is taken to have taken its config, or to be gone.
const applyPatience = 20 * time.Second

// maxApplies bounds how often a config is sent to a node that may or may not have taken it.
const maxApplies = 5

// configure is the handler of Maintenance for a node that goes further. What
// can be checked on the node is checked before anything is written to its disk:
// where the next boot goes, the disk that Talos will take, and the config itself.
func configure(ctx context.Context, n *node) (transition, error) {
	if step(n.snapshot().Step) == stepApplying {
		return n.apply(ctx)
	}
	if err := n.leaveNetworkBoot(ctx); err != nil {
		return transition{}, err
	}
	host := n.host()
	disks, err := n.c.opts.Prober.Disks(ctx, host)
	if err != nil {
		return transition{}, failed(CauseTalos, "read the disks of the machine at %s: %w", host, err)
	}
	disk, err := n.config.SelectDisk(disks)
	if err != nil {
		return transition{}, failed(CauseInstallDisk, "nothing was written: %w", err)
	}
	if _, err := n.c.opts.Prober.Apply(ctx, host, n.config.Data(), true, n.isThis); err != nil {
		return transition{}, refusedConfig(ctx, "the node does not accept its machine config in a dry run; nothing was written", err)
	}
	n.remember(func(r *store.Node) { r.InstallDisk = disk.DevPath })
	return transition{state: Maintenance, step: stepApplying, message: "accepts its machine config; Talos goes to " + strings.TrimSpace(disk.DevPath+" "+disk.Model)}, nil
}

// apply sends the config. The step was written before: whatever happens from
// here on, the node may have it.
func (n *node) apply(ctx context.Context) (transition, error) {
	if err := n.mayAct(ctx); err != nil {
		return transition{}, err
	}
	n.applies++
	if n.applies > maxApplies {
		return transition{}, failed(CauseTalos, "its machine config was sent %d times, and it stays in maintenance", maxApplies)
	}
	patience := time.NewTimer(applyPatience)
	defer patience.Stop()
	for {
		_, err := n.c.opts.Prober.Apply(ctx, n.host(), n.config.Data(), false, n.isThis)
		var refused *Failure
		switch {
		case err == nil:
			return transition{state: Configured, message: "took its machine config and installs itself"}, nil
		case ctx.Err() != nil:
			return transition{}, ctx.Err()
		case errors.Is(err, store.ErrOutOfReach), errors.Is(err, store.ErrFenced):
			return transition{}, err
		case errors.As(err, &refused), errors.Is(err, talos.ErrConfigRefused):
			return transition{}, refusedConfig(ctx, "the node does not take its machine config", err)
		case errors.Is(err, talos.ErrOutcomeUnknown):
			return transition{state: Configured, step: stepUnsure, message: "was sent its machine config, and went away before it answered"}, nil
		case errors.Is(err, talos.ErrApplyInProgress), errors.Is(err, talos.ErrNotInMaintenance):
			return transition{state: Configured, step: stepUnsure, message: "has a machine config already, and installs itself"}, nil
		}
		select {
		case <-ctx.Done():
			return transition{}, ctx.Err()
		case <-patience.C:
			return transition{state: Configured, step: stepUnsure, message: fmt.Sprintf("its maintenance API went away while its config was sent (%v)", err)}, nil
		case <-time.After(n.c.opts.PollInterval):
		}
	}
}

// isThis refuses a machine that is not the node, over the very connection that
// its config would go through (I5).
func (n *node) isThis(o talos.Observation) error {
	if err := n.c.opts.Store.MayWork(n.ID()); err != nil { // it may have been a while since it was asked
		return &stateError{err}
	}
	if miss := n.c.confirm(n.Node, o); miss != "" {
		return failed(CauseWrongMachine, "at %s %s", n.host(), miss)
	}
	return nil
}

// refusedConfig tells apart why a config was not applied. The node's own words
// are in err; the config is not (I9).
func refusedConfig(ctx context.Context, what string, err error) error {
	var f *Failure
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &f):
		return f
	case errors.Is(err, talos.ErrConfigRefused):
		return failed(CauseMachineConfig, "%s: %w", what, err)
	case errors.Is(err, talos.ErrNotInMaintenance):
		return failed(CauseConfigured, "%s: somebody else configured it meanwhile: %w", what, err)
	}
	return failed(CauseTalos, "%s: %w", what, err)
}

// leaveNetworkBoot makes sure that the next boot is the disk's: a one-time
// override that a BMC kept would boot the network again after the install.
func (n *node) leaveNetworkBoot(ctx context.Context) error {
	if n.BMC.Address == "" {
		return nil
	}
	if err := n.ready(ctx); err != nil {
		return err
	}
	defer n.hangUp(ctx)
	override, err := n.client.BootOverride(ctx)
	if err != nil {
		return err
	}
	if !override.Armed() {
		return nil
	}
	if err := n.client.Disarm(ctx); err != nil {
		return err
	}
	if override, err = n.client.BootOverride(ctx); err != nil {
		return err
	}
	if override.Armed() {
		return failed(CauseOverrideKept, "the BMC at %s keeps the boot override %s %s, although the node has booted and the override was taken back", n.BMC.Address, override.Target, override.Enabled)
	}
	n.c.opts.Log.Info("the BMC had kept the one-time boot override, which is taken back", "node", n.ID(), "bmc", n.BMC.Address)
	return nil
}
