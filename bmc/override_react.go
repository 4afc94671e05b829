package bmc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// react decides what to try after a refusal; an error ends the change.
func (a *attempt) react(ctx context.Context, err error, body bootBody, tagged bool) error {
	a.last = err
	r, ok := errors.AsType[*refusal](err)
	switch {
	case errors.Is(err, ErrUnauthorized), errors.Is(err, ErrLicence), errors.Is(err, ErrNotPermitted), errors.Is(err, ErrClosed), untrustworthy(err):
		return err
	case ok && r.status == http.StatusForbidden: // the account may not; no other way will do
		return fmt.Errorf("%w: %w", ErrOverrideRefused, err)
	case !ok && !errors.Is(err, ErrUnreachable):
		return a.interrupted(err)
	case !ok: // no answer: the next step reads what became of it
		return a.wait(ctx)
	}
	return a.reactTo(ctx, r, body, tagged)
}

// reactTo is react for an answer that is a refusal.
func (a *attempt) reactTo(ctx context.Context, r *refusal, body bootBody, tagged bool) error {
	switch {
	case r.status == http.StatusPreconditionRequired || r.says("PreconditionHeaderMissing", "PreconditionRequired"):
		if tagged || a.star {
			a.tag++
		} else {
			a.tag, a.star = 0, true
		}
	case r.status == http.StatusPreconditionFailed || r.says("PreconditionFailed"):
		a.tag++
	case r.says("UnableToModifyDuringSystemPOST"), r.busy():
		a.writes-- // bounded by the operation's time
		return a.waitFor(ctx, r.after)
	case r.status >= 500 && r.status != http.StatusNotImplemented:
		return a.wait(ctx)
	case r.says("OperationSupportedInFutureStateURI"):
		a.nextResource()
		a.full = true
	case body.Mode == "" && !a.needsMode && r.mentions("BootSourceOverrideMode"):
		a.needsMode = true
	case body.Mode != "":
		a.modeRefused = r
		a.body++
	case r.says("PropertyNotWritable"), r.status == http.StatusMethodNotAllowed, r.status == http.StatusNotFound:
		a.nextResource()
	default:
		a.body++
	}
	return nil
}

// busy tells that the same request may be taken a little later.
func (r *refusal) busy() bool {
	return r.status == http.StatusServiceUnavailable || r.status == http.StatusConflict ||
		r.status == http.StatusTooManyRequests || r.says(notReady...) || r.says("InvalidOperationForSystemState", "ResourceInUse")
}

func (a *attempt) wait(ctx context.Context) error { return a.waitFor(ctx, 0) }

// waitFor is wait, or longer when the BMC asked for it.
func (a *attempt) waitFor(ctx context.Context, after time.Duration) error {
	if err := sleep(ctx, max(a.c.cfg.Timeouts.Poll, after)); err != nil {
		return a.interrupted(err)
	}
	return nil
}

// interrupted says that the change was given up in the middle, and why.
func (a *attempt) interrupted(err error) error {
	switch {
	case a.writes == 0 && a.last == nil:
		return err
	case a.last == nil:
		return fmt.Errorf("it was sent, but could not be read back and may be in force: %w", err)
	case errors.Is(err, errGaveUp):
		return fmt.Errorf("%w: %w; last: %w", ErrOverrideRefused, err, a.last)
	}
	return fmt.Errorf("%w; last: %w; the override may be in force", err, a.last)
}
