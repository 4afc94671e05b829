package provisioner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/pxe/httpboot"
)

// A node that is installed can be booted from the network over its installation:
// Talos finds its config on the disk, runs it with the version that was booted,
// and leaves the disk as it is.

// harmful are the kernel arguments with which such a boot would not keep the
// node's data, or would not come up.
var harmful = []struct{ prefix, why string }{
	{"talos.experimental.wipe=", "wipes its disk"},
	{"talos.halt_if_installed", "makes Talos stop where it finds an installation"},
	{httpboot.ConfigArg, "gives it another config"},
}

// MayBootOver says why a node cannot be booted from the network over its
// installation without harm to its data; nil when it can. It touches nothing.
func (c *Controller) MayBootOver(n inventory.Node) error {
	if n.BMC.Address == "" {
		return errors.New("it has no bmc.address in the inventory")
	}
	args, err := n.KernelCommandLine()
	if err == nil {
		err = httpboot.CheckArgs(args)
	}
	if err != nil {
		return fmt.Errorf("its kernel arguments: %w", err)
	}
	given := strings.Fields(args)
	if n.Schematic != nil {
		given = append(given, n.Schematic.Customization.ExtraKernelArgs...)
	}
	for _, arg := range given {
		for _, h := range harmful {
			if strings.HasPrefix(arg, h.prefix) {
				return fmt.Errorf("its kernel argument %s %s", arg, h.why)
			}
		}
	}
	return nil
}

// BootOver boots an installed node once from the network, in the version and
// with the schematic that n has, over its installation. It returns when the
// node's Talos has come up with its config from the disk. The boot services must
// be listening, and the images be in the cache.
func (c *Controller) BootOver(ctx context.Context, inventoried inventory.Node) error {
	if err := c.MayBootOver(inventoried); err != nil {
		return fmt.Errorf("boot %s from the network: %w", inventoried.Name, err)
	}
	if c.opts.Store == nil {
		return errors.New("boot a node from the network without a state store: a crash could not be told from a beginning")
	}
	args, err := inventoried.KernelCommandLine()
	if err != nil {
		return err
	}
	facts := c.fleet.reported(inventoried.ID())
	n, err := c.newNode(&run{Run: store.Run{ID: newRunID(time.Now())}}, PlanNode{
		Cluster: inventoried.Cluster, Node: inventoried.Name, KernelArgs: args, Until: UntilMaintenance, Facts: facts, node: inventoried,
	})
	if err != nil {
		return err
	}
	n.over = true
	if err := c.enter(n); err != nil {
		return err
	}
	defer c.dismiss([]*node{n})
	if err := n.enter(transition{state: Pending, message: "boots Talos " + inventoried.TalosVersion + " from the network over its installation"}); err != nil {
		return err
	}
	if err := n.live(ctx); err != nil {
		return err
	}
	switch record := n.snapshot(); {
	case ctx.Err() != nil:
		return ctx.Err()
	case State(record.State).GivenUp():
		return fmt.Errorf("%s: %s; %s", record.Message, record.Error, record.Hint)
	}
	return nil
}
