package upgrade

import (
	"context"
	"fmt"
	"time"
)

// cordon keeps new pods off the node.
func cordon(ctx context.Context, n *node) (transition, error) {
	if n.record.KubernetesName == "" {
		return transition{state: Cordoned, message: "goes without cordon and drain"}, nil
	}
	err := n.mark(ctx, stepCordoning, "cordoning "+n.record.KubernetesName, func(r *Record) { r.Cordoned = true })
	if err != nil {
		return transition{}, err
	}
	var ours bool
	err = n.insist(ctx, func(ctx context.Context) (err error) {
		ours, err = n.r.o.Kubernetes.Cordon(ctx, n.record.KubernetesName, n.record.Run, "upgrading to "+n.record.Target.String())
		return err
	})
	if err != nil {
		return transition{}, failed(VerdictCordon, "cordon %s: %w", n.record.KubernetesName, err)
	}
	message := "cordoned"
	if !ours {
		message = "somebody else cordoned it: it will stay so"
	}
	return transition{state: Cordoned, message: message, change: func(r *Record) { r.Cordoned = ours }}, nil
}

// drain moves the pods away before anything is installed: a drain that fails
// after that leaves a node that runs one version and boots another
// (home-operations/tuppr#575).
func drain(ctx context.Context, n *node) (transition, error) {
	if n.record.KubernetesName == "" {
		return transition{state: Drained, message: "its pods were not moved away"}, nil
	}
	if err := n.mark(ctx, stepDraining, "draining "+n.record.KubernetesName, nil); err != nil {
		return transition{}, err
	}
	deadline := time.Now().Add(n.r.o.Timeouts.Drain)
	for {
		var last string
		err := n.r.o.Kubernetes.Drain(ctx, n.record.KubernetesName, time.Until(deadline), func(line string) {
			last = line
			n.r.o.Line(n.record.Node, line)
		})
		if err == nil {
			return transition{state: Drained, message: "drained"}, nil
		}
		if last != "" {
			err = fmt.Errorf("%w (it was at %q)", err, last)
		}
		// The API may be away for a moment; the pods have their time in any case.
		if time.Until(deadline) <= n.r.o.Timeouts.Poll {
			return transition{}, failed(VerdictDrain, "drain %s: %w", n.record.KubernetesName, err)
		}
		if err := sleep(ctx, n.r.o.Timeouts.Poll); err != nil {
			return transition{}, err
		}
	}
}

// insist calls the Kubernetes API until it does what is asked, for as long as a
// gate waits: the API server may be one that has just come up again.
func (n *node) insist(ctx context.Context, do func(context.Context) error) error {
	deadline := time.Now().Add(n.r.o.Timeouts.Gate)
	for {
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, n.r.o.Timeouts.Call)
			defer cancel()
			return do(ctx)
		}()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		if err := sleep(ctx, n.r.o.Timeouts.Poll); err != nil {
			return err
		}
	}
}
