package talos

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// lost are the codes after which nobody knows whether the node acted.
var lost = map[codes.Code]bool{
	codes.Unavailable: true, codes.DeadlineExceeded: true, codes.Canceled: true, codes.Aborted: true, codes.Internal: true,
}

// kinds are what the other codes mean for every call.
var kinds = map[codes.Code]error{
	codes.PermissionDenied: ErrNotAuthorized,
	codes.Unimplemented:    ErrNotSupported,
}

// callError says what a failed call of a node was about. The words are the
// node's; calls that carry a machine config do not come here (I9).
func callError(ctx context.Context, what, host string, err error) error {
	s := status.Convert(err)
	switch kind := kinds[s.Code()]; {
	case ctx.Err() != nil:
		return fmt.Errorf("%s of %s took too long or was cut short; ask again: %w", what, host, context.Cause(ctx))
	case kind != nil:
		return fmt.Errorf("%s of %s: %s: %w", what, host, s.Message(), kind)
	case s.Code() == codes.Unavailable:
		return fmt.Errorf("%s of %s: the connection ended, the node is going down or its service restarts; ask again: %w", what, host, err)
	case s.Code() == codes.Unknown, s.Code() == codes.FailedPrecondition, s.Code() == codes.InvalidArgument:
		return fmt.Errorf("%s of %s: the node answers: %s", what, host, s.Message())
	default:
		return fmt.Errorf("%s of %s: %w", what, host, err)
	}
}

// changeError is callError for calls that change the node.
func changeError(ctx context.Context, what, host string, err error) error {
	if lost[status.Code(err)] {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("%s of %s: %w; look at the node before asking again: %w", what, host, ErrOutcomeUnknown, err)
	}
	return callError(ctx, what, host, err)
}
