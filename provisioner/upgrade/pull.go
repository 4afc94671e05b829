package upgrade

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/talos-provision/provision/provisioner/talos"
)

// ErrPull is part of the error of a run whose installers could not be pulled. No further node was touched.
var ErrPull = errors.New("an installer image cannot be pulled")

// prePull has every node that is left pull the installer of every stop, before a
// node is cordoned: a tag or a schematic that does not exist parks the run with
// nothing touched.
func (w *work) prePull(ctx context.Context, plan Plan) error {
	var (
		mu    sync.Mutex
		bad   []error
		group errgroup.Group
	)
	group.SetLimit(w.o.Parallel)
	for _, p := range plan.with(ActionUpgrade) {
		group.Go(func() error {
			for _, image := range p.images(w.o.Registry) {
				mu.Lock()
				done := w.pulled[p.Host+" "+image]
				mu.Unlock()
				if done {
					continue
				}
				err := w.pull(ctx, p, image)
				mu.Lock()
				w.pulled[p.Host+" "+image] = err == nil
				if err != nil {
					bad = append(bad, fmt.Errorf("%s: %s: %w", p.Node, image, err))
				}
				mu.Unlock()
			}
			return nil
		})
	}
	_ = group.Wait() // none of them fails
	if ctx.Err() != nil {
		return fmt.Errorf("upgrade %s: interrupted: %w", w.o.Cluster, ctx.Err())
	}
	if len(bad) > 0 {
		return fmt.Errorf("upgrade %s: %w: %w: %w; look at the version, the schematic and the registry", w.o.Cluster, ErrParked, ErrPull, errors.Join(bad...))
	}
	return nil
}

func (w *work) pull(ctx context.Context, p PlanNode, image string) error {
	ctx, cancel := context.WithTimeout(ctx, w.o.Timeouts.Pull)
	defer cancel()
	err := w.o.Talos.Pull(ctx, p.Host, image, func(line string) { w.o.Line(p.Node, line) })
	if errors.Is(err, talos.ErrNotSupported) {
		return nil
	}
	return err
}

// images are the installers of all its stops.
func (n PlanNode) images(registry string) []string {
	images := make([]string, 0, len(n.Stops))
	for i, stop := range n.Stops {
		if i == 0 {
			images = append(images, n.Image)
			continue
		}
		images = append(images, factoryImage(registry, n.TargetSchematic, n.machine.SecureBoot, stop).String())
	}
	return images
}
