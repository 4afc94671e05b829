package daemon

import (
	"context"
	"io"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
)

// Nodes are the last known states of the nodes of a cluster, or of all with "".
func (d *Daemon) Nodes(_ context.Context, cluster string) ([]store.Node, error) {
	return d.opts.Store.Status(cluster)
}

// Unknown are the machines that asked for a boot script and were nobody's.
func (d *Daemon) Unknown(context.Context) ([]store.Unknown, error) {
	return d.opts.Store.UnknownMachines()
}

// Holds are the nodes that people hold.
func (d *Daemon) Holds(context.Context) ([]store.Hold, error) {
	return d.opts.Store.Holds()
}

// Hold has a node left alone until it is released: a run that goes on stops before
// it touches the node's power again.
func (d *Daemon) Hold(_ context.Context, h store.Hold) error {
	if err := d.inInventory(h.Cluster, h.Node); err != nil {
		return err
	}
	if h.Since.IsZero() {
		h.Since = time.Now().UTC()
	}
	return d.opts.Store.SetHold(h)
}

// Release lets a held node go.
func (d *Daemon) Release(_ context.Context, cluster, node string) error {
	found, err := d.opts.Store.RemoveHold(cluster, node)
	if err == nil && !found {
		return web.NotFound("nobody holds %s/%s", cluster, node)
	}
	return err
}

func (d *Daemon) inInventory(cluster, node string) error {
	_, g := d.now()
	for _, n := range g.Tree.Nodes {
		if n.Cluster == cluster && n.Name == node {
			return nil
		}
	}
	return web.NotFound("the inventory has no node %s in cluster %s", node, cluster)
}

// Reload has the inventory looked at now.
func (d *Daemon) Reload(context.Context) error {
	d.mu.Lock()
	src := d.src
	d.mu.Unlock()
	if src != nil {
		src.Reload()
	}
	return nil
}

// Backup writes the state as one file.
func (d *Daemon) Backup(_ context.Context, w io.Writer) error {
	return d.opts.Store.Backup(w)
}
