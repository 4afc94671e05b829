package bmc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/schemas"
)

// resets is how a system is reset.
type resets struct {
	target string
	types  []text
	listed bool // the BMC says so itself
}

func (r resets) offers(kind schemas.ResetType) bool { return contains(r.types, string(kind)) }

// defaultResets are assumed where the BMC lists none.
func defaultResets() []text {
	return []text{text(schemas.OnResetType), text(schemas.ForceOffResetType), text(schemas.ForceRestartResetType), text(schemas.GracefulShutdownResetType)}
}

// resetsOf finds the reset types: from the action, else from its ActionInfo
// (newer Supermicro, OpenBMC), which is read once, else the defaults.
func (c *Client) resetsOf(ctx context.Context, m *machine, sys *systemDocument) (resets, error) {
	action := sys.Actions.value.Reset.value
	out := resets{target: below(sys.path, string(action.Target)), types: action.Types, listed: true}
	if out.target == "" {
		out.target = strings.TrimRight(sys.path, "/") + "/Actions/ComputerSystem.Reset"
	}
	if len(out.types) > 0 {
		return out, nil
	}
	c.mu.Lock()
	known := m.resets
	c.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	var err error
	if action.Info != "" {
		var info actionInfoDocument
		_, err = c.fetch(ctx, request{method: http.MethodGet, path: string(action.Info)}, 3, &info)
		if err != nil && (errors.Is(err, ErrUnauthorized) || ctx.Err() != nil) {
			return resets{}, err
		}
		for _, p := range info.Parameters {
			if strings.EqualFold(string(p.Name), "ResetType") && len(p.Values) > 0 {
				out.types = p.Values
			}
		}
	}
	if len(out.types) == 0 {
		out.types, out.listed = defaultResets(), false
	}
	if err == nil || absent(err) {
		c.mu.Lock()
		m.resets = &out
		c.mu.Unlock()
	}
	return out, nil
}

// presser posts resets, going from one type to the next as they are refused.
type presser struct {
	c       *Client
	kinds   []schemas.ResetType
	resets  *resets
	failed  int // answers that may be passing troubles of the BMC
	refused error
}

// maxFailed bounds passing troubles for one reset type.
const maxFailed = 5

// press posts one reset. yes means that the BMC took it, or may have. An error
// that is not final is to be met with another look at the state, which may be
// the wanted one by now: BMCs refuse what is there already (409, 400).
func (p *presser) press(ctx context.Context, sys *systemDocument) (yes bool, err error) {
	if err := p.prepare(ctx, sys); err != nil {
		return false, err
	}
	if len(p.kinds) == 0 {
		return false, fmt.Errorf("%w: it offers %s: %w", ErrPowerRefused, joined(p.resets.types), p.refused)
	}
	req := request{method: http.MethodPost, path: p.resets.target, payload: map[string]schemas.ResetType{"ResetType": p.kinds[0]}}
	a, err := p.c.write(ctx, req)
	if r, ok := errors.AsType[*refusal](err); ok && r.status == http.StatusPreconditionRequired && sys.etag != "" {
		req.headers = map[string]string{"If-Match": sys.etag}
		a, err = p.c.write(ctx, req)
	}
	if err == nil {
		err = p.followReset(ctx, a)
	}
	r, ok := errors.AsType[*refusal](err)
	switch {
	case err == nil:
		p.c.log.InfoContext(ctx, "reset sent", "type", p.kinds[0])
		return true, nil
	case errors.Is(err, ErrUnauthorized), errors.Is(err, ErrLicence), errors.Is(err, ErrNotPermitted):
		return false, err
	case !ok: // no answer: it may have been done
		return true, err
	case r.busy() || r.says("UnableToModifyDuringSystemPOST", "ActionParameterValueConflict"):
		return false, err // bounded by the wait for the state
	case r.status >= 500 && r.status != http.StatusNotImplemented:
		if p.failed++; p.failed < maxFailed {
			return false, err
		}
	}
	p.refused, p.failed = err, 0
	p.kinds = p.kinds[1:]
	if len(p.kinds) > 0 {
		return false, err
	}
	return false, fmt.Errorf("%w (it offers %s): %w", ErrPowerRefused, joined(p.resets.types), err)
}

// prepare finds out once what the BMC offers.
func (p *presser) prepare(ctx context.Context, sys *systemDocument) error {
	if p.resets != nil {
		return nil
	}
	p.c.mu.Lock()
	m := p.c.chosen
	p.c.mu.Unlock()
	r, err := p.c.resetsOf(ctx, m, sys)
	if err != nil {
		return err
	}
	p.resets = &r
	// The list can be wrong ("GracefulShutdownGracefulRestart"): when it has
	// none of the kinds, the best one is tried all the same.
	offered := slices.DeleteFunc(slices.Clone(p.kinds), func(k schemas.ResetType) bool { return !r.offers(k) })
	if len(offered) == 0 {
		offered = p.kinds[:1]
	}
	p.kinds = offered
	return nil
}

// followReset waits for the task of an accepted reset, for a part of the time
// that the state has: the state is what counts, the task only tells of a failure
// sooner.
func (p *presser) followReset(ctx context.Context, a answer) error {
	if a.status != http.StatusAccepted {
		return nil
	}
	ctx, cancel := within(ctx, p.c.cfg.Timeouts.Power/patience)
	defer cancel()
	err := p.c.follow(ctx, a)
	if r, ok := errors.AsType[*refusal](err); ok {
		return r
	}
	return nil
}

// restart posts a restart that cuts power or resets the machine, for BMCs that
// cannot switch it off.
func (c *Client) restart(ctx context.Context) error {
	ctx, cancel := c.operation(ctx)
	defer cancel()
	p := presser{c: c, kinds: []schemas.ResetType{schemas.ForceRestartResetType, schemas.PowerCycleResetType}}
	for {
		_, sys, err := c.system(ctx)
		if err != nil {
			return err
		}
		if powerState(sys.PowerState) == Off {
			return nil // the caller switches it on
		}
		yes, err := p.press(ctx, sys)
		if yes || err != nil && final(err) {
			return err
		}
		if wait := sleep(ctx, c.cfg.Timeouts.Poll); wait != nil {
			return fmt.Errorf("%w; last: %w", wait, err)
		}
	}
}

func joined(types []text) string {
	s := make([]string, 0, len(types))
	for _, t := range types {
		s = append(s, string(t))
	}
	return strings.Join(s, ", ")
}
