package talos

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Rollback has the node boot what it ran before its last upgrade, and reboots
// it. It returns once the node has taken the order; what became of it shows in a
// new Running.BootID and in Running.Version. A node that has nothing to go back
// to is an ErrRollbackRefused.
func (a Admin) Rollback(ctx context.Context, host string) error {
	return a.change(ctx, host, func(ctx context.Context, c *session) error {
		err := c.Rollback(ctx)
		switch s := status.Convert(err); {
		case err == nil:
			return nil
		case ctx.Err() == nil && (s.Code() == codes.Unknown || s.Code() == codes.FailedPrecondition):
			// Talos looks at its boot entries before it answers, and reboots after that.
			return fmt.Errorf("rolling back %s: the node answers: %s: %w", host, s.Message(), ErrRollbackRefused)
		}
		return changeError(ctx, "the rollback", host, err)
	})
}
