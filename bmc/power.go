package bmc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stmcginnis/gofish/schemas"
)

// PowerState is the power state of a machine as its BMC shows it.
type PowerState string

// The power states. Unknown stands for everything else, null and Paused among it.
const (
	On          PowerState = PowerState(schemas.OnPowerState)
	Off         PowerState = PowerState(schemas.OffPowerState)
	PoweringOn  PowerState = PowerState(schemas.PoweringOnPowerState)
	PoweringOff PowerState = PowerState(schemas.PoweringOffPowerState)
	Unknown     PowerState = "Unknown"
)

func powerState(t text) PowerState {
	switch s := PowerState(t); s {
	case On, Off, PoweringOn, PoweringOff:
		return s
	default:
		return Unknown
	}
}

// PowerState reads the power state.
func (c *Client) PowerState(ctx context.Context) (PowerState, error) {
	ctx, cancel := c.operation(ctx)
	defer cancel()
	_, sys, err := c.system(ctx)
	if err != nil {
		return Unknown, c.explain("read the power state", err)
	}
	return powerState(sys.PowerState), nil
}

// PowerOn switches the machine on and waits, up to Timeouts.Power, until the BMC
// shows On. A machine that is on is left alone.
func (c *Client) PowerOn(ctx context.Context) error {
	return c.explain("power on", c.reach(ctx, On))
}

// PowerOff switches the machine off at once, without asking its operating system
// (ForceOff), and waits until the BMC shows Off.
func (c *Client) PowerOff(ctx context.Context) error {
	return c.explain("power off", c.reach(ctx, Off))
}

// PowerCycle switches the machine off, waits for Off, and on again: the way that
// works everywhere, while restarts lose boot overrides (JetSki#110), hang
// machines (SR675) or do nothing when off (pbnj#75). A machine that is off is
// switched on. BMCs that offer no ForceOff get a restart.
func (c *Client) PowerCycle(ctx context.Context) error {
	return c.explain("power cycle", c.cycle(ctx))
}

func (c *Client) cycle(ctx context.Context) error {
	opctx, cancel := c.operation(ctx)
	_, sys, err := c.system(opctx)
	var resets resets
	if err == nil {
		resets, err = c.resetsOf(opctx, sys)
	}
	cancel()
	if err != nil {
		return err
	}
	if powerState(sys.PowerState) == Off {
		return c.reach(ctx, On)
	}
	if resets.offers(schemas.ForceOffResetType) {
		err = c.reach(ctx, Off)
		if err == nil {
			return c.reach(ctx, On)
		}
		if !errors.Is(err, ErrPowerRefused) {
			return err
		}
	}
	if err := c.restart(ctx); err != nil {
		return err
	}
	return c.reach(ctx, On)
}

// towards is how a state is reached, and what is shown on the way.
type towards struct {
	by  []schemas.ResetType
	via PowerState
	// away is the opposite transition, which has to end first.
	away PowerState
}

func way(want PowerState) towards {
	if want == On {
		return towards{by: []schemas.ResetType{schemas.OnResetType, schemas.ForceOnResetType}, via: PoweringOn, away: PoweringOff}
	}
	return towards{by: []schemas.ResetType{schemas.ForceOffResetType}, via: PoweringOff, away: PoweringOn}
}

const (
	// maxPresses bounds how often one state is asked for after the BMC said yes.
	maxPresses = 3
	// patience is the part of Timeouts.Power after which a machine that shows no
	// reaction is asked again (pbnj#75: 204, and nothing happens).
	patience = 4
)

// reach brings the machine to a power state: it looks first, asks once, and
// looks again until the state is there. It asks again only when the machine fell
// back (powerman#154) or shows no reaction.
func (c *Client) reach(parent context.Context, want PowerState) error {
	ctx, cancel := within(parent, c.cfg.Timeouts.Power)
	defer cancel()
	var (
		route   = way(want)
		state   = Unknown
		asked   time.Time // when the BMC last said yes; zero: not yet
		moved   bool      // a transition was seen since
		presses int
		last    error
	)
	p := presser{c: c, kinds: route.by}
	for look := 1; ; look++ {
		_, sys, err := c.system(ctx)
		if err != nil {
			if final(err) {
				return err
			}
			last = err // a blade's BMC is gone while the blade is off (powerman#128)
		} else {
			state = powerState(sys.PowerState)
			regressed := moved && state != route.via && state != Unknown
			ignored := !asked.IsZero() && time.Since(asked) > c.cfg.Timeouts.Power/patience
			switch {
			case state == want:
				return nil
			case state == route.via:
				moved = true
			case state == route.away && want == On:
				// Wait for Off: On would be refused or forgotten.
			case asked.IsZero() || (regressed || ignored) && presses < maxPresses:
				yes, err := p.press(ctx, sys)
				if err != nil && final(err) {
					return err
				}
				if last = err; yes {
					asked, moved = time.Now(), false
					presses++
				}
			}
		}
		// Soon at first, for a BMC that is quick; then at the pace of Poll.
		if err := c.pause(ctx, look); err != nil {
			return powerGaveUp(parent, want, state, c.cfg.Timeouts.Power, err, last)
		}
	}
}

// final tells that looking again cannot help.
func final(err error) bool {
	for _, kind := range []error{ErrUnauthorized, ErrLicence, ErrClosed, ErrNoSystem, ErrAmbiguousSystem, ErrPowerRefused, errCertificate} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

func powerGaveUp(parent context.Context, want, state PowerState, budget time.Duration, cause, last error) error {
	err := fmt.Errorf("%w: %s wanted, %s shown after %s", ErrPowerTimeout, want, state, budget)
	if parent.Err() != nil { // the caller's end, not ours
		err = fmt.Errorf("%s wanted, %s shown: %w", want, state, cause)
	}
	if last != nil {
		err = fmt.Errorf("%w; last: %w", err, last)
	}
	return err
}
