package talos

import (
	"context"
	"time"

	"github.com/talos-provision/provision/inventory/identity"
)

// defaultCallTimeout is for an answer that takes a node milliseconds, or on a
// busy control plane a second.
const defaultCallTimeout = 10 * time.Second

// Admin calls configured nodes with the client certificate of their cluster.
// Each call opens a connection of its own straight to the node and closes it:
// never through another node or a virtual address (siderolabs/talos#11830). An
// Admin may be used by many goroutines.
//
// Errors of every method tell by errors.Is: ErrInMaintenance, ErrWrongPKI,
// ErrAccessExpired, ErrNotAuthorized, ErrNotSupported.
type Admin struct {
	// Access is the cluster's talosconfig.
	Access *Access
	// Port of the Talos API; 0 means 50000.
	Port int
	// Timeout bounds each call; 0 means 10 s. Health, Pull and Upgrade have their own.
	Timeout time.Duration
	// Confirm, when set, is asked over the same connection before a call that changes the
	// node; its error is returned within an ErrNotConfirmed. A certificate proves that the
	// node is of the cluster, not which one it is (I5).
	Confirm func(identity.Facts) error
}

// call makes one connection and hands it to do.
func (a Admin) call(ctx context.Context, host string, do func(context.Context, *session) error) error {
	timeout := a.Timeout
	if timeout <= 0 {
		timeout = defaultCallTimeout
	}
	return a.callWithin(ctx, timeout, host, do)
}

func (a Admin) callWithin(ctx context.Context, timeout time.Duration, host string, do func(context.Context, *session) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	session, err := a.Access.dial(ctx, host, a.Port)
	if err != nil {
		return err
	}
	defer session.Close()
	return do(ctx, session)
}

// change is call for what changes the node.
func (a Admin) change(ctx context.Context, host string, do func(context.Context, *session) error) error {
	return a.call(ctx, host, a.confirmed(host, do))
}

// changeWithin is change for what takes a node longer than an answer.
func (a Admin) changeWithin(ctx context.Context, timeout time.Duration, host string, do func(context.Context, *session) error) error {
	return a.callWithin(ctx, timeout, host, a.confirmed(host, do))
}

// confirmed asks Confirm before it does, over the same connection.
func (a Admin) confirmed(host string, do func(context.Context, *session) error) func(context.Context, *session) error {
	return func(ctx context.Context, c *session) error {
		if err := a.confirm(ctx, c, host); err != nil {
			return err
		}
		return do(ctx, c)
	}
}
