package provisioner

import (
	"context"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/pxe/assets"
)

// bootKind is how a node is booted once; the inventory has checked the value.
func bootKind(n inventory.Node) bmc.BootKind {
	kind, err := bmc.ParseBootKind(n.BMC.Boot)
	if err != nil {
		return bmc.BootPXE
	}
	return kind
}

// binaries are the iPXE that UEFI HTTP boot loads, by architecture.
var binaries = map[string]string{"amd64": "snponly.efi", "arm64": "ipxe-arm64.efi"}

// bootRequest is what the node's BMC is asked for.
func (n *node) bootRequest() bmc.BootRequest {
	r := bmc.BootRequest{Kind: bootKind(n.Node)}
	switch r.Kind {
	case bmc.BootHTTP:
		r.HTTPBootURI = n.c.opts.BootURL + "/ipxe/" + binaries[n.Arch]
	case bmc.BootMedia:
		r.MediaURI = n.c.opts.BootURL + "/image/" + iso(n.Node).String()
	case bmc.BootPXE, bmc.BootDisk:
	}
	return r
}

func iso(n inventory.Node) assets.Ref {
	return assets.ISO(n.SchematicID, n.TalosVersion, n.Arch, false)
}

// Images are the files of the Image Factory that the node boots from: kernel
// and initramfs over the network, the ISO by virtual media.
func (p PlanNode) Images() []assets.Ref {
	if bootKind(p.node) == bmc.BootMedia {
		return []assets.Ref{iso(p.node)}
	}
	return []assets.Ref{
		assets.Kernel(p.SchematicID, p.TalosVersion, p.Arch),
		assets.Initramfs(p.SchematicID, p.TalosVersion, p.Arch),
	}
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
