package provisioner

import (
	"context"
	"fmt"
	"time"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner/store"
)

// holdOn returns the hold that a person put on a node; nil when there is none.
func (c *Controller) holdOn(n inventory.Node) (*store.Hold, error) {
	if c.opts.Store == nil {
		return nil, nil //nolint:nilnil // no state holds nothing
	}
	hold, held, err := c.opts.Store.Held(n.Cluster, n.Name)
	if err != nil || !held {
		return nil, err
	}
	return &hold, nil
}

func heldBy(h store.Hold) *Failure {
	f := held(CauseHeld, "%s holds it since %s: %s", orSomebody(h.By), h.Since.Local().Format(time.DateTime), h.Reason)
	f.Hint = fmt.Sprintf("when it may be worked on again: provision release %s --cluster %s", h.Node, h.Cluster)
	return f
}

func orSomebody(name string) string {
	if name == "" {
		return "somebody"
	}
	return name
}

// mayPower says why the node's power must not be touched now: a person holds it,
// too many nodes of its run have failed, or the state is out of reach, so that
// another controller may work on it.
func (n *node) mayPower(ctx context.Context) error {
	if err := n.mayAct(ctx); err != nil {
		return err
	}
	hold, err := n.c.holdOn(n.Node)
	switch {
	case err != nil:
		return &stateError{err}
	case hold != nil:
		return heldBy(*hold)
	}
	if why := n.run.stopped(); why != "" {
		return held(CauseTooManyFailures, "the run was stopped before this node was powered on: %s", why)
	}
	return nil
}

// mayAct says why nothing may be done to the machine now. It is asked right
// before each effect: a controller that was cut off from a shared state, or
// paused, may have lost its claim on the node to another one.
func (n *node) mayAct(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := n.c.opts.Store.MayWork(n.ID()); err != nil {
		return &stateError{err}
	}
	return nil
}

// stateError is an error of the state store: it ends the whole run, not only the
// node that met it.
type stateError struct{ err error }

func (e *stateError) Error() string { return e.err.Error() }
func (e *stateError) Unwrap() error { return e.err }
