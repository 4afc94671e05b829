package talos

import (
	"context"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
)

// RebootMode is how a node reboots.
type RebootMode int

// The modes.
const (
	// RebootDefault uses kexec where the node allows it.
	RebootDefault RebootMode = iota
	// RebootPowercycle goes through the firmware.
	RebootPowercycle
	// RebootForce skips the orderly shutdown; older versions take it for RebootDefault.
	RebootForce
)

var rebootModes = map[RebootMode]machine.RebootRequest_Mode{
	RebootDefault:    machine.RebootRequest_DEFAULT,
	RebootPowercycle: machine.RebootRequest_POWERCYCLE,
	RebootForce:      machine.RebootRequest_FORCE,
}

// Reboot reboots the node. It returns once the node has taken the order; that it
// rebooted shows in a new Running.BootID. A node in maintenance mode can be
// rebooted by its BMC only.
func (a Admin) Reboot(ctx context.Context, host string, mode RebootMode) error {
	return a.change(ctx, host, func(ctx context.Context, c *session) error {
		err := c.Reboot(ctx, func(r *machine.RebootRequest) { r.Mode = rebootModes[mode] })
		if err != nil {
			return changeError(ctx, "rebooting", host, err)
		}
		return nil
	})
}
