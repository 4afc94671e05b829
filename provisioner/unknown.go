package provisioner

import (
	"time"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/pxe/httpboot"
)

// ObserveScript notes the machines that asked for a boot script and were
// nobody's, so that a person can see them (`provision status --unknown`) and
// take them into the inventory.
func (c *Controller) ObserveScript(r httpboot.Request, a httpboot.Answer) {
	if a.Node != "" || c.opts.Store == nil {
		return
	}
	err := c.opts.Store.RecordUnknown(store.Unknown{
		Seen: time.Now().UTC(), Source: r.Source.String(), Facts: r.Facts,
		Arch: r.Arch, Platform: r.Platform, Manufacturer: r.Manufacturer, Product: r.Product, Asset: r.Asset, NICs: r.NICs,
		Reason: a.Reason,
	})
	if err != nil {
		c.opts.Log.Warn("an unknown machine could not be noted", "source", r.Source, "error", err)
	}
}
