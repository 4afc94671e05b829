package bmc

import (
	"cmp"
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
	_, err := c.reach(ctx, way(On), nil)
	return c.explain("power on", err)
}

// PowerOff switches the machine off at once, without asking its operating system
// (ForceOff), and waits until the BMC shows Off.
func (c *Client) PowerOff(ctx context.Context) error {
	_, err := c.reach(ctx, way(Off), nil)
	return c.explain("power off", err)
}

// PowerOffGracefully asks the operating system to shut down and gives it so long;
// then it switches the machine off as PowerOff does. Machines without an
// operating system ignore the request. Without patience it is PowerOff.
func (c *Client) PowerOffGracefully(ctx context.Context, patience time.Duration) error {
	return c.explain("power off", c.shutDown(ctx, patience))
}

func (c *Client) shutDown(ctx context.Context, patience time.Duration) error {
	if patience <= 0 {
		_, err := c.reach(ctx, way(Off), nil)
		return err
	}
	m, sys, err := c.look(ctx)
	if err != nil {
		return err
	}
	if powerState(sys.PowerState) == Off {
		return nil
	}
	resets, err := c.resetsOf(ctx, m, sys)
	if err != nil {
		return err
	}
	if resets.listed && !resets.offers(schemas.GracefulShutdownResetType) {
		_, err := c.reach(ctx, way(Off), sys)
		return err
	}
	gently := way(Off)
	gently.by, gently.budget, gently.presses = []schemas.ResetType{schemas.GracefulShutdownResetType}, patience, 1
	sys, err = c.reach(ctx, gently, sys)
	if err == nil || ctx.Err() != nil || !errors.Is(err, ErrPowerTimeout) && !errors.Is(err, ErrPowerRefused) {
		return err
	}
	c.log.InfoContext(ctx, "the operating system did not shut down; power off", "reason", c.secrets.scrub(err.Error()))
	_, err = c.reach(ctx, way(Off), sys)
	return err
}

// PowerCycle switches the machine off, waits for Off, and on again: the way that
// works everywhere, while restarts lose boot overrides (JetSki#110), hang
// machines (SR675) or do nothing when off (pbnj#75). A machine that is off is
// switched on. BMCs that offer no ForceOff get a restart.
func (c *Client) PowerCycle(ctx context.Context) error {
	return c.explain("power cycle", c.cycle(ctx))
}

func (c *Client) cycle(ctx context.Context) error {
	m, sys, err := c.look(ctx)
	if err != nil {
		return err
	}
	if powerState(sys.PowerState) == Off {
		_, err := c.reach(ctx, way(On), sys)
		return err
	}
	resets, err := c.resetsOf(ctx, m, sys)
	if err != nil {
		return err
	}
	if resets.offers(schemas.ForceOffResetType) {
		off, err := c.reach(ctx, way(Off), sys)
		if err == nil {
			_, err = c.reach(ctx, way(On), off)
			return err
		}
		if !errors.Is(err, ErrPowerRefused) {
			return err
		}
	}
	if err := c.restart(ctx); err != nil {
		return err
	}
	_, err = c.reach(ctx, way(On), nil)
	return err
}

// look reads the system within the time of an operation.
func (c *Client) look(ctx context.Context) (*machine, *systemDocument, error) {
	ctx, cancel := c.operation(ctx)
	defer cancel()
	return c.system(ctx)
}

// towards is how a state is reached, and what is shown on the way.
type towards struct {
	want PowerState
	by   []schemas.ResetType
	via  PowerState
	// away is the opposite transition, which has to end first.
	away PowerState
	// budget and presses are bounds; zero means Timeouts.Power and maxPresses.
	budget  time.Duration
	presses int
}

func way(want PowerState) towards {
	if want == On {
		return towards{want: On, by: []schemas.ResetType{schemas.OnResetType, schemas.ForceOnResetType}, via: PoweringOn, away: PoweringOff}
	}
	return towards{want: Off, by: []schemas.ResetType{schemas.ForceOffResetType}, via: PoweringOff, away: PoweringOn}
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
// back (powerman#154) or shows no reaction. sys is a reading made a moment ago,
// nil for none; the last reading is returned.
func (c *Client) reach(parent context.Context, route towards, sys *systemDocument) (*systemDocument, error) {
	route.budget, route.presses = cmp.Or(route.budget, c.cfg.Timeouts.Power), cmp.Or(route.presses, maxPresses)
	ctx, cancel := within(parent, route.budget)
	defer cancel()
	j := journey{towards: route, state: Unknown, presser: presser{c: c, kinds: route.by}}
	for look := 1; ; look++ {
		var err error
		if sys == nil || look > 1 {
			_, sys, err = c.system(ctx)
		}
		if err == nil {
			err = j.step(ctx, sys)
		}
		switch {
		case err == nil && j.state == route.want:
			return sys, nil
		case err != nil && final(err):
			return sys, err
		case err != nil: // a blade's BMC is gone while the blade is off (powerman#128)
			j.last = err
		}
		// Soon at first, for a BMC that is quick; then at the pace of Poll.
		if err := c.pause(ctx, look); err != nil {
			return nil, j.gaveUp(parent, err)
		}
	}
}

// journey is the way to a power state so far.
type journey struct {
	towards
	presser presser
	state   PowerState
	asked   time.Time // when the BMC last said yes; zero: not yet
	moved   bool      // a transition was seen since
	count   int       // of yeses
	last    error
}

// step judges one look at the system, and asks when it is time to.
func (j *journey) step(ctx context.Context, sys *systemDocument) error {
	j.state = powerState(sys.PowerState)
	regressed := j.moved && j.state != j.via && j.state != Unknown
	ignored := !j.asked.IsZero() && time.Since(j.asked) > j.budget/patience
	switch {
	case j.state == j.want:
	case j.state == j.via:
		j.moved = true
	case j.state == j.away && j.want == On:
		// Wait for Off: On would be refused or forgotten.
	case j.asked.IsZero() || (regressed || ignored) && j.count < j.presses:
		yes, err := j.presser.press(ctx, sys)
		if err != nil && final(err) {
			return err
		}
		if j.last = err; yes {
			j.asked, j.moved = time.Now(), false
			j.count++
		}
	}
	return nil
}

// final tells that looking again cannot help.
func final(err error) bool {
	for _, kind := range []error{ErrUnauthorized, ErrLicence, ErrNotPermitted, ErrClosed, ErrNoSystem, ErrAmbiguousSystem, ErrPowerRefused} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return untrustworthy(err)
}

// gaveUp says what is shown instead, and why that may be.
func (j *journey) gaveUp(parent context.Context, cause error) error {
	err := fmt.Errorf("%w: %s wanted, %s shown after %s", ErrPowerTimeout, j.want, j.state, j.budget)
	if parent.Err() != nil { // the caller's end, not ours
		err = fmt.Errorf("%s wanted, %s shown: %w", j.want, j.state, cause)
		if j.count > 0 {
			err = fmt.Errorf("%w; the reset was sent", err)
		}
	}
	if j.last != nil {
		err = fmt.Errorf("%w; last: %w", err, j.last)
	}
	return err
}
