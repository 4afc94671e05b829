package talos

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// applyTimeout bounds the call itself: Talos validates, and before 1.13 waits
// until its start-up takes the config.
const applyTimeout = 30 * time.Second

// Applied is what a node says about a machine config that it took.
type Applied struct {
	// Warnings are the validator's.
	Warnings []string
	// Details say how the node goes on. Neither holds a value of the config that may be secret (I9).
	Details string
}

// RefusedError is a machine config that the node's validator does not take. It
// is an ErrConfigRefused.
type RefusedError struct {
	Host string
	// Reason is the validator's text, with the config's values hidden (I9).
	Reason string
}

// Error says which node refuses, and why.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s: %v; correct it: %s", e.Host, ErrConfigRefused, e.Reason)
}

// Is makes it an ErrConfigRefused.
func (e *RefusedError) Is(target error) bool { return target == ErrConfigRefused }

// Apply sends a machine config to a node in maintenance mode, or with dryRun
// only has the node validate it. The mode is always AUTO, the only one that
// every version takes (siderolabs/talos#13785).
//
// Before that, over the same connection, it reads who the node is and asks
// confirm, which must not be nil; an error of confirm is returned as an
// ErrNotConfirmed that wraps it, and nothing was sent. So a config, which is
// full of secrets, never reaches a machine that got the address in between (I5).
//
// Errors are an ErrConfigRefused (a *RefusedError), ErrApplyInProgress,
// ErrNotInMaintenance, ErrOutcomeUnknown, or say that the node was not reached.
func (p Prober) Apply(ctx context.Context, host string, config []byte, dryRun bool, confirm func(Observation) error) (Applied, error) {
	if confirm == nil {
		return Applied{}, fmt.Errorf("applying a machine config to %s: nothing to confirm the machine with: %w", host, ErrNotConfirmed)
	}
	if len(config) == 0 {
		return Applied{}, &RefusedError{Host: host, Reason: "it is empty"}
	}
	look, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	o, session := p.open(look, host, p.timeout())
	if session != nil {
		defer session.Close()
	}
	switch o.State {
	case Configured:
		return Applied{}, fmt.Errorf("%s has a machine config already, and demands a client certificate: %w", host, ErrNotInMaintenance)
	case Unreachable:
		return Applied{}, fmt.Errorf("applying a machine config: %w", o.Err)
	case Maintenance:
	}
	if session == nil {
		return Applied{}, o.Err
	}
	if err := confirm(o); err != nil {
		return Applied{}, fmt.Errorf("%w: %w", ErrNotConfirmed, err)
	}
	ctx, cancel = context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	return apply(ctx, session, host, config, dryRun)
}

func apply(ctx context.Context, c *session, host string, config []byte, dryRun bool) (Applied, error) {
	hide := newRedactor(config)
	answer, err := c.ApplyConfiguration(ctx, &machine.ApplyConfigurationRequest{
		Data: config, Mode: machine.ApplyConfigurationRequest_AUTO, DryRun: dryRun,
	})
	if err != nil {
		return Applied{}, applyError(ctx, host, dryRun, hide, err)
	}
	var applied Applied
	for _, message := range answer.GetMessages() {
		for _, warning := range message.GetWarnings() {
			applied.Warnings = append(applied.Warnings, hide.clean(warning))
		}
		applied.Details = hide.clean(withoutDiff(message.GetModeDetails()))
	}
	return applied, nil
}

// withoutDiff drops the comparison of old and new config that a dry run ends in.
func withoutDiff(details string) string {
	details, _, _ = strings.Cut(details, "Config diff:")
	details, _, _ = strings.Cut(details, "\n--- ")
	return strings.TrimSpace(details)
}

// applyError tells the refusals apart. The error of gRPC itself is never
// wrapped: its text is the node's, unredacted (I9).
func applyError(ctx context.Context, host string, dryRun bool, hide *redactor, err error) error {
	s := status.Convert(err)
	reason := hide.clean(s.Message())
	switch code := s.Code(); {
	case code == codes.FailedPrecondition && strings.Contains(reason, "already in progress"):
		return fmt.Errorf("%s: %w; wait for it", host, ErrApplyInProgress)
	case code == codes.InvalidArgument, code == codes.Unknown:
		// Before 1.13 what the decoder refuses has no code of its own.
		return &RefusedError{Host: host, Reason: reason}
	case code == codes.PermissionDenied:
		return fmt.Errorf("%s lets only an administrator change its config (%s): %w", host, reason, ErrNotInMaintenance)
	case code == codes.Unimplemented:
		return fmt.Errorf("%s takes no machine config this way (%s): %w", host, reason, ErrNotSupported)
	case lost[code] && !dryRun:
		if cause := context.Cause(ctx); cause != nil {
			return fmt.Errorf("sending %s its machine config: %w: %w; look whether it still is in maintenance mode", host, ErrOutcomeUnknown, cause)
		}
		return fmt.Errorf("sending %s its machine config: %w (%s); look whether it still is in maintenance mode", host, ErrOutcomeUnknown, reason)
	default:
		return fmt.Errorf("asking %s to check its machine config: %s (%s); ask again", host, reason, code)
	}
}
