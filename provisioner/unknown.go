package provisioner

import (
	"strings"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/pxe/httpboot"
)

// ObserveScript notes who asked for a boot script: a machine that is nobody's, so
// that a person can see it (`provision status --unknown`) and take it into the
// inventory; and of a node what its firmware says of the machine, and its script.
func (c *Controller) ObserveScript(r httpboot.Request, a httpboot.Answer) {
	switch {
	case c.opts.Store == nil:
	case a.Node == "":
		c.noteUnknown(r, a)
	case a.Kind != httpboot.Wait: // which only has it ask again
		c.noteBoot(r, a, time.Now())
	}
}

func (c *Controller) noteUnknown(r httpboot.Request, a httpboot.Answer) {
	err := c.opts.Store.RecordUnknown(store.Unknown{
		Seen: time.Now().UTC(), Source: r.Source.String(), Facts: r.Facts,
		Arch: r.Arch, Platform: r.Platform, Manufacturer: r.Manufacturer, Product: r.Product, Asset: r.Asset, NICs: r.NICs,
		Reason: a.Reason,
	})
	if err != nil {
		c.opts.Log.Warn("an unknown machine could not be noted", "source", r.Source, "error", err)
	}
}

// bootInterval is how soon the same script for the same node is noted again: a
// machine that boots in a circle must not wear the store out.
const bootInterval = time.Minute

// notedBoot is the boot of a node that was noted last.
type notedBoot struct {
	script string
	at     time.Time
}

func (c *Controller) noteBoot(r httpboot.Request, a httpboot.Answer, now time.Time) {
	c.mu.Lock()
	last := c.boots[a.Node]
	fresh := last.script != a.Script || now.Sub(last.at) >= bootInterval
	if fresh {
		c.boots[a.Node] = notedBoot{a.Script, now}
	}
	c.mu.Unlock()
	if !fresh {
		return
	}
	cluster, name, _ := strings.Cut(a.Node, "/")
	err := c.opts.Store.RecordBoot(store.Boot{
		Cluster: cluster, Node: name, Time: now.UTC(), Source: r.Source.String(), Facts: r.Facts,
		Arch: r.Arch, Platform: r.Platform, Manufacturer: r.Manufacturer, Product: r.Product, NICs: r.NICs,
		Kind: a.Kind.String(), Reason: a.Reason, Script: a.Script,
	})
	if err != nil {
		c.opts.Log.Warn("the boot of a node could not be noted", "node", a.Node, "error", err)
	}
}
