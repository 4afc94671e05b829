package talos

import (
	"context"
	"fmt"
	"strings"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	machinetype "github.com/siderolabs/talos/pkg/machinery/config/machine"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/talos-provision/provision/inventory/identity"
)

// confirm reads who the node is and asks Confirm.
func (a Admin) confirm(ctx context.Context, c *session, host string) error {
	if a.Confirm == nil {
		return nil
	}
	var facts identity.Facts
	if err := readSystem(ctx, c, &facts); err != nil {
		return callError(ctx, "reading the identity", host, err)
	}
	if err := readLinks(ctx, c, &facts); err != nil {
		return callError(ctx, "reading the identity", host, err)
	}
	if err := a.Confirm(facts); err != nil {
		return fmt.Errorf("%w: %w", ErrNotConfirmed, err)
	}
	return nil
}

// Bootstrap has a control-plane node begin a new etcd cluster. That must be done
// once in a cluster's life: the caller makes sure that no other control plane
// has etcd members (I6), and this call, over the connection that it then uses,
// that this one has none and waits: an ErrAlreadyBootstrapped, ErrNotWaiting or
// ErrNotControlPlane says otherwise. What cannot be read is not bootstrapped.
func (a Admin) Bootstrap(ctx context.Context, host string) error {
	return a.change(ctx, host, func(ctx context.Context, c *session) error {
		if err := mayBootstrap(ctx, c, host); err != nil {
			return err
		}
		if err := c.Bootstrap(ctx, &machine.BootstrapRequest{}); err != nil {
			return bootstrapError(ctx, host, err)
		}
		return nil
	})
}

// mayBootstrap says why etcd of the node is not to be bootstrapped.
func mayBootstrap(ctx context.Context, c *session, host string) error {
	r := Running{Host: host}
	if err := r.readRole(ctx, c); err != nil {
		return callError(ctx, "reading the machine type", host, err)
	}
	if r.Role == machinetype.TypeWorker.String() {
		return fmt.Errorf("bootstrapping %s: %w; bootstrap a control plane", host, ErrNotControlPlane)
	}
	services, err := readServices(ctx, c)
	if err != nil {
		return callError(ctx, "reading the etcd service", host, err)
	}
	switch etcd := etcdOf(services); {
	case etcd.Waiting:
		return nil
	case etcd.State == "Running":
		return fmt.Errorf("bootstrapping %s: its etcd is running: %w", host, ErrAlreadyBootstrapped)
	default:
		return fmt.Errorf("bootstrapping %s: its etcd is in state %q (%s): %w", host, etcd.State, etcd.Message, ErrNotWaiting)
	}
}

// bootstrapError reads the refusals of Talos' own checks.
func bootstrapError(ctx context.Context, host string, err error) error {
	s := status.Convert(err)
	switch {
	case s.Code() == codes.AlreadyExists:
		return fmt.Errorf("bootstrapping %s: %s: %w", host, s.Message(), ErrAlreadyBootstrapped)
	case s.Code() == codes.FailedPrecondition && strings.Contains(s.Message(), "control plane"):
		return fmt.Errorf("bootstrapping %s: %s: %w", host, s.Message(), ErrNotControlPlane)
	case s.Code() == codes.FailedPrecondition:
		// E.g. "time is not in sync yet".
		return fmt.Errorf("bootstrapping %s: %s: %w", host, s.Message(), ErrNotWaiting)
	}
	return changeError(ctx, "bootstrapping etcd", host, err)
}
