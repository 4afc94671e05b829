package bmc

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// change is one wish for the boot override.
type change struct {
	mode string // of the boot, for the words of an error
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
	// fresh are readings made for the plan, each good for one step: until
	// something is written nothing changes them, ETags among it.
	fresh     map[string]*systemDocument
	full      bool
	body      int
	tag       int
	star      bool // a precondition is demanded beyond the forms of the ETag
	needsMode bool // a body without the mode was refused for that
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
	return c.changeFrom(ctx, m, sys, wish(m))
}

// changeFrom is changeBoot with the system as it was read a moment ago.
func (c *Client) changeFrom(ctx context.Context, m *machine, sys *systemDocument, want change) (BootOverride, error) {
	a := &attempt{c: c, m: m, want: want, fresh: map[string]*systemDocument{sys.path: sys}}
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
		return notKept(a.now, a.want.mode, a.modeRefused)
	case a.last == nil:
		return fmt.Errorf("%w: %w", ErrOverrideRefused, errNothingToWrite)
	}
	return fmt.Errorf("%w: %w", ErrOverrideRefused, a.last)
}

// plan orders the resources: the system, unless only its settings resource shows
// a boot override; then the settings, then AMI's unannounced SD.
func (a *attempt) plan(ctx context.Context, sys *systemDocument) error {
	settings := sys.settings()
	future := strings.TrimRight(sys.path, "/") + "/SD"
	a.resources = []string{sys.path}
	if settings != "" {
		a.resources = append(a.resources, settings)
	}
	if !samePath(settings, future) {
		a.resources = append(a.resources, future)
	}
	boot := sys.Boot.value
	if len(boot.Targets) > 0 || settings == "" {
		return nil
	}
	pending, err := a.c.readSystem(ctx, settings, 2)
	if err != nil {
		if absent(err) {
			return nil
		}
		return err
	}
	a.fresh[settings] = pending
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
	res, err := a.read(ctx, path)
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
	body, tag, ok := a.next(res, bodies)
	if !ok {
		a.nextResource()
		return false, nil
	}
	a.writes++
	a.fresh = nil
	answer, err := a.c.write(ctx, request{
		method: http.MethodPatch, path: path,
		payload: map[string]bootBody{"Boot": body}, headers: tag,
	})
	if err == nil {
		err = a.c.follow(ctx, answer)
	}
	if err != nil {
		return false, a.react(ctx, err, body, len(tag) > 0)
	}
	kept, err := a.readBack(ctx, path, answer.status == http.StatusAccepted)
	if err != nil || kept {
		return kept, err
	}
	a.unkept = true
	for a.body++; a.body < len(bodies); a.body++ {
		if a.saysMore(body, bodies[a.body]) {
			return false, nil
		}
	}
	a.nextResource()
	return false, nil
}

// next gives the body and the header to send; ok is false when the resource has
// no way left.
func (a *attempt) next(res *systemDocument, bodies []bootBody) (body bootBody, tag map[string]string, ok bool) {
	for a.needsMode && a.body < len(bodies) && bodies[a.body].Mode == "" {
		a.body++
	}
	tags := tagForms(res.etag, a.star)
	if a.tag >= len(tags) && !a.star { // the tag may have changed in between
		a.tag, a.star = 0, true
		tags = tagForms(res.etag, a.star)
	}
	if a.body >= len(bodies) || a.tag >= len(tags) {
		return bootBody{}, nil, false
	}
	return bodies[a.body], tags[a.tag], true
}

// read gives a resource, without a request when the plan has just read it.
func (a *attempt) read(ctx context.Context, path string) (*systemDocument, error) {
	if res := a.fresh[path]; res != nil {
		return res, nil
	}
	return a.c.readSystem(ctx, path, readTries)
}

// saysMore tells whether the next body may do what an accepted one did not. To
// arm, one that says less would make a Supermicro fall back to Legacy.
func (a *attempt) saysMore(sent, next bootBody) bool {
	return sent.Enabled == enabledDisabled || sent.Target != next.Target && next.Mode == sent.Mode ||
		sent.Mode == "" && next.Mode != "" && a.modeRefused == nil
}

// tagForms are the If-Match headers to try in turn: as given, strong, bare and
// none. BMCs send weak tags that they refuse, or want no quotes (gofish#275,
// community.general#6434). With star none of these went through: the tag as it is
// by now, and any.
func tagForms(etag string, star bool) []map[string]string {
	var out []map[string]string
	if star {
		if etag != "" {
			out = append(out, map[string]string{"If-Match": etag})
		}
		return append(out, map[string]string{"If-Match": "*"})
	}
	seen := map[string]bool{}
	bare := strings.TrimSuffix(strings.Trim(strings.TrimPrefix(etag, "W/"), `"`), "-gzip")
	for _, form := range []string{etag, `"` + bare + `"`, bare} {
		if bare != "" && !seen[form] {
			seen[form] = true
			out = append(out, map[string]string{"If-Match": form})
		}
	}
	return append(out, nil)
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
