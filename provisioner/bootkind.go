package provisioner

import (
	"context"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/pxe/assets"
	"github.com/talos-provision/provision/pxe/bootfile"
)

// bootKind is how a node is booted once; the inventory has checked the value.
// A signed image is loaded by the firmware itself: PXE would load iPXE.
func bootKind(n inventory.Node) bmc.BootKind {
	if n.BMC.Boot == "" && n.SecureBoot {
		return bmc.BootHTTP
	}
	kind, err := bmc.ParseBootKind(n.BMC.Boot)
	if err != nil {
		return bmc.BootPXE
	}
	return kind
}

// binaries are the iPXE that UEFI HTTP boot loads, by architecture.
var binaries = map[string]string{"amd64": bootfile.SNPOnly, "arm64": bootfile.ARM64}

// bootRequest is what the node's BMC is asked for.
func (n *node) bootRequest() bmc.BootRequest {
	r := bmc.BootRequest{Kind: bootKind(n.Node)}
	switch r.Kind {
	case bmc.BootHTTP:
		if n.SecureBoot {
			r.HTTPBootURI = n.ukiURI()
			break
		}
		r.HTTPBootURI = n.c.opts.BootURL + "/ipxe/" + binaries[n.Arch]
	case bmc.BootMedia:
		r.MediaURI = n.c.opts.BootURL + "/image/" + iso(n.Node).String()
	case bmc.BootPXE, bmc.BootDisk:
	}
	return r
}

func iso(n inventory.Node) assets.Ref {
	return assets.ISO(n.SchematicID, n.TalosVersion, n.Arch, n.SecureBoot)
}

// Images are the files of the Image Factory that the node boots from.
func (p PlanNode) Images() []assets.Ref { return ImagesOf(p.node) }

// ImagesOf are the files of the Image Factory that a node boots from: kernel and
// initramfs over the network, the signed UKI with Secure Boot, the ISO by virtual
// media.
func ImagesOf(n inventory.Node) []assets.Ref {
	if bootKind(n) == bmc.BootMedia {
		return []assets.Ref{iso(n)}
	}
	return assets.Image{Schematic: n.SchematicID, Version: n.TalosVersion, Arch: n.Arch, SecureBoot: n.SecureBoot}.Refs()
}

// eject takes back the medium of a node that is up or given up: a medium that
// stays in the drive would be booted again.
func (n *node) eject(ctx context.Context) {
	if bootKind(n.Node) != bmc.BootMedia {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ejectTimeout)
	defer cancel()
	err := n.ready(ctx)
	if err == nil {
		err = n.client.Disarm(ctx)
	}
	if err != nil {
		n.c.opts.Log.Warn("the virtual medium could not be ejected and may boot again: eject it by `provision bmc media eject`",
			"node", n.ID(), "bmc", n.BMC.Address, "error", err)
	}
}
