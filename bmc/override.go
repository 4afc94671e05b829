package bmc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// change is one wish for the boot override.
type change struct {
	kept func(BootOverride) bool
	// bodies to try in turn, given what the resource shows; full asks for all
	// three properties first.
	bodies func(boot bootDocument, full bool) []bootBody
}

// Bounds of one change. Waiting for a BMC that is busy is bounded by the
// operation's time instead.
const (
	maxWrites    = 12
	maxReadBacks = 3
)

// attempt is the state of a change: which resource, body and ETag form is tried.
// No two vendors agree on these three, and none says beforehand.
type attempt struct {
	c    *Client
	m    *machine
	want change

	resources []string // left to try; the first is the current one
	full      bool
	body      int
	tag       int
	star      bool // a precondition is demanded and there is no ETag
	writes    int

	last        error // the latest refusal
	modeRefused error
	now         BootOverride
	unkept      bool // some write was accepted and not kept
}

// changeBoot works through the attempts until one is seen to be kept.
func (c *Client) changeBoot(ctx context.Context, wish func(*machine) change) (BootOverride, error) {
	m, sys, err := c.system(ctx)
	if err != nil {
		return BootOverride{}, err
	}
	a := &attempt{c: c, m: m, want: wish(m)}
	if err := a.plan(ctx, sys); err != nil {
		return BootOverride{}, err
	}
	for a.writes < maxWrites && len(a.resources) > 0 {
		done, err := a.step(ctx)
		if err != nil || done {
			return a.now, err
		}
	}
	return a.now, a.failure()
}

func (a *attempt) failure() error {
	switch {
	case a.unkept:
		return notKept(a.now, a.c.mode, a.modeRefused)
	case a.last == nil:
		return fmt.Errorf("%w: %w", ErrOverrideRefused, errNothingToWrite)
	}
	return fmt.Errorf("%w: %w", ErrOverrideRefused, a.last)
}

// plan orders the resources: the system, unless only its settings resource shows
// a boot override; then the settings, then AMI's unannounced SD.
func (a *attempt) plan(ctx context.Context, sys *systemDocument) error {
	settings := string(sys.Settings.value.Object)
	future := strings.TrimRight(sys.path, "/") + "/SD"
	a.resources = []string{sys.path}
	if settings != "" && !samePath(settings, sys.path) {
		a.resources = append(a.resources, settings)
	}
	if !samePath(settings, future) {
		a.resources = append(a.resources, future)
	}
	boot := sys.Boot.value
	if len(boot.Targets) > 0 || settings == "" || samePath(settings, sys.path) {
		return nil
	}
	pending, err := a.c.readSystem(ctx, settings, 2)
	if err != nil {
		if absent(err) {
			return nil
		}
		return err
	}
	later := pending.Boot.value
	if len(later.Targets) > 0 || boot.Target == nil && later.Target != nil {
		a.resources[0], a.resources[1] = settings, sys.path
		a.full = true
	}
	return nil
}

// step reads the resource, writes once and judges the outcome. Reading first
// gives the ETag, and tells when an earlier write whose answer was lost, or that
// was refused, is in force after all (bmclib#465).
func (a *attempt) step(ctx context.Context) (done bool, err error) {
	path := a.resources[0]
	res, err := a.c.readSystem(ctx, path, readTries)
	if absent(err) && path != a.m.path {
		a.nextResource()
		return false, nil
	}
	if err != nil {
		return false, a.interrupted(err)
	}
	if path != a.m.path && !res.Boot.set { // e.g. Lenovo's Pending
		a.nextResource()
		return false, nil
	}
	if a.writes > 0 {
		if now := res.Boot.value.override(); a.want.kept(now) {
			a.keep(path, now)
			return true, nil
		}
	}
	bodies := a.want.bodies(res.Boot.value, a.full)
	if a.body >= len(bodies) {
		a.nextResource()
		return false, nil
	}
	tags := tagForms(res.etag, a.star)
	if a.tag >= len(tags) {
		a.nextResource()
		return false, nil
	}
	body := bodies[a.body]
	a.writes++
	answer, err := a.c.write(ctx, request{
		method: http.MethodPatch, path: path,
		payload: map[string]bootBody{"Boot": body}, headers: tags[a.tag],
	})
	if err != nil {
		return false, a.react(ctx, err, body, len(tags[a.tag]) > 0)
	}
	kept, err := a.readBack(ctx, path, answer.status == http.StatusAccepted)
	if err != nil || kept {
		return kept, err
	}
	a.unkept = true
	if a.body+1 < len(bodies) && a.saysMore(body, bodies[a.body+1]) {
		a.body++
	} else {
		a.nextResource()
	}
	return false, nil
}

// saysMore tells whether the next body may do what an accepted one did not. To
// arm, one that says less would make a Supermicro fall back to Legacy.
func (a *attempt) saysMore(sent, next bootBody) bool {
	return sent.Enabled == enabledDisabled || sent.Mode == "" && next.Mode != "" && a.modeRefused == nil
}

// tagForms are the If-Match headers to try in turn: as given, strong, bare and
// none. BMCs send weak tags that they refuse, or want no quotes (gofish#275,
// community.general#6434).
func tagForms(etag string, star bool) []map[string]string {
	var out []map[string]string
	seen := map[string]bool{}
	bare := strings.TrimSuffix(strings.Trim(strings.TrimPrefix(etag, "W/"), `"`), "-gzip")
	for _, form := range []string{etag, `"` + bare + `"`, bare} {
		if bare != "" && !seen[form] {
			seen[form] = true
			out = append(out, map[string]string{"If-Match": form})
		}
	}
	if bare == "" && star {
		out = append(out, map[string]string{"If-Match": "*"})
	}
	return append(out, nil)
}

// react decides what to try after a refusal; an error ends the change.
func (a *attempt) react(ctx context.Context, err error, body bootBody, tagged bool) error {
	a.last = err
	r, ok := errors.AsType[*refusal](err)
	switch {
	case errors.Is(err, ErrUnauthorized), errors.Is(err, ErrLicence), errors.Is(err, ErrClosed), errors.Is(err, errCertificate):
		return err
	case ok && r.status == http.StatusForbidden: // the account may not; no other way will do
		return fmt.Errorf("%w: %w", ErrOverrideRefused, err)
	case !ok && !errors.Is(err, ErrUnreachable):
		return a.interrupted(err)
	case !ok: // no answer: the next step reads what became of it
		return a.wait(ctx)
	case r.status == http.StatusPreconditionRequired || r.says("PreconditionHeaderMissing", "PreconditionRequired"):
		if tagged {
			a.tag++
		} else {
			a.tag, a.star = 0, true
		}
	case r.status == http.StatusPreconditionFailed || r.says("PreconditionFailed"):
		a.tag++
	case r.says("UnableToModifyDuringSystemPOST"), r.busy():
		a.writes-- // bounded by the operation's time
		return a.wait(ctx)
	case r.status >= 500 && r.status != http.StatusNotImplemented:
		return a.wait(ctx)
	case r.says("OperationSupportedInFutureStateURI"):
		a.nextResource()
		a.full = true
	case body.Mode != "":
		a.modeRefused = err
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

func (a *attempt) wait(ctx context.Context) error {
	if err := sleep(ctx, a.c.cfg.Timeouts.Poll); err != nil {
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

func (a *attempt) nextResource() {
	a.resources = a.resources[1:]
	a.body, a.tag, a.star = 0, 0, false
}

func (a *attempt) keep(path string, now BootOverride) {
	a.now = now
	a.c.mu.Lock()
	a.m.bootAt = path
	a.c.mu.Unlock()
}

// readBack looks a few times whether the override is shown (I4), in the resource
// that was written or in the system.
func (a *attempt) readBack(ctx context.Context, path string, task bool) (bool, error) {
	a.last = nil
	tries := maxReadBacks
	if task { // accepted, to be done
		tries = 4 * maxReadBacks
	}
	places := []string{path}
	if path != a.m.path {
		places = append(places, a.m.path)
	}
	for try := range tries {
		if try > 0 {
			if err := a.wait(ctx); err != nil {
				return false, err
			}
		}
		for _, place := range places {
			res, err := a.c.readSystem(ctx, place, readTries)
			if err != nil {
				return false, a.interrupted(err)
			}
			a.now = res.Boot.value.override()
			if a.want.kept(a.now) {
				a.keep(path, a.now)
				return true, nil
			}
		}
	}
	return false, nil
}
