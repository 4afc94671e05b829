package provisioner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/pxe/httpboot"
)

// HTTPPath gives the path of the signed image to DHCP, for the machine with this
// MAC, while its node is armed and has Secure Boot; everybody else gets "" (I3).
// What is served at the path is Direct's decision once more.
func (c *Controller) HTTPPath(mac, arch string) string {
	verdict := c.fleet.Match(identity.Facts{MACs: []string{mac}})
	if verdict.Outcome != identity.Match {
		return ""
	}
	n := c.lookup(verdict.Name)
	if n == nil || !n.SecureBoot || !n.armed() {
		return ""
	}
	path, err := httpboot.UKIPath(mac, arch)
	if err != nil {
		return ""
	}
	return path
}

// ukiURI is what the node's BMC makes its firmware load; empty leaves that to
// DHCP, which knows it too.
func (n *node) ukiURI() string {
	key := n.UUID
	if key == "" && len(n.MACs) > 0 {
		key = n.MACs[0]
	}
	if n.c.opts.BootURL == "" || key == "" {
		return ""
	}
	uri, err := httpboot.UKIURL(n.c.opts.BootURL, key, n.Arch)
	if err != nil {
		n.c.opts.Log.Warn("the BMC is not told what to boot, which is left to DHCP", "node", n.ID(), "error", err)
	}
	return uri
}

// armBoot sets the one-time boot and reads it back. A BMC that knows no UEFI HTTP
// boot is asked for the network in its own words: there it is the firmware that
// chooses between PXE and HTTP, and DHCP has an answer for either.
func (n *node) armBoot(ctx context.Context) (bmc.BootOverride, error) {
	override, err := n.client.Arm(ctx, n.bootRequest())
	refused := errors.Is(err, bmc.ErrOverrideRefused) || errors.Is(err, bmc.ErrOverrideNotKept)
	if !refused || !n.SecureBoot || n.BMC.Boot != "" {
		return override, err
	}
	n.c.opts.Log.Info("the BMC takes no UEFI HTTP boot: the firmware must choose it by itself", "node", n.ID(), "error", err)
	override, errPXE := n.client.Arm(ctx, bmc.BootRequest{Kind: bmc.BootPXE})
	if errPXE != nil {
		return override, fmt.Errorf("%w; and in its place: %w", err, errPXE)
	}
	return override, nil
}

// stageOf is what a request shows: firmware asks for the image itself, iPXE for
// its script.
func stageOf(r httpboot.Request) bootStage {
	if r.Firmware {
		return stageUKI
	}
	return stageScript
}

// signedStuck are the causes of a node with Secure Boot that got no further,
// where they differ from the usual ones.
var signedStuck = map[bootStage]Cause{
	stageDHCP: CauseSignedUnasked, stageBinary: CauseSignedUnasked, stageImage: CauseSignedNeverCameUp,
}

// wipeArg makes Talos wipe its disk before it starts.
const wipeArg = "talos.experimental.wipe=system"

// wipeIsSigned says why a node cannot be wiped by an argument that its signed
// image ignores; nil when it can, or the image has the argument inside.
func wipeIsSigned(n inventory.Node) *Failure {
	if !n.SecureBoot || n.Schematic != nil && slices.Contains(n.Schematic.Customization.ExtraKernelArgs, wipeArg) {
		return nil
	}
	f := held(CauseArguments, "a configured Talos answers at %s, and the signed image of secureBoot ignores %s, by which it would be wiped", n.IP, wipeArg)
	f.Hint = strings.Join([]string{
		"reset the node by `talosctl reset --system-labels-to-wipe STATE --system-labels-to-wipe EPHEMERAL --reboot` with its cluster's talosconfig and run again",
		"or give it for this run a schematic with " + wipeArg + " in its extraKernelArgs",
	}, ", ")
	return f
}
