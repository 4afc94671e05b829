package bmc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

const serviceRoot = "/redfish/v1/" // the form without the slash is 404 or 301 on some BMCs

// dialTries bounds the reads of the service root.
const dialTries = 5

// connect reads the service root and logs in.
func (c *Client) connect(ctx context.Context) error {
	if err := c.readRoot(ctx); err != nil {
		return err
	}
	c.connected.Store(true)
	c.sessions = c.root.sessions()
	if err := c.firstLogin(ctx); err != nil {
		return err
	}
	if c.basic {
		return c.probeBasic(ctx)
	}
	return nil
}

// readRoot reads the service root, with Basic authentication when the BMC hides
// even that.
func (c *Client) readRoot(ctx context.Context) error {
	r := request{method: http.MethodGet, path: serviceRoot, auth: authAnonymous}
	_, err := c.fetch(ctx, r, dialTries, &c.root)
	if errors.Is(err, ErrUnauthorized) {
		r.auth = authBasic
		_, err = c.fetch(ctx, r, dialTries, &c.root)
	}
	if bad, ok := errors.AsType[*badDocument](err); ok {
		return fmt.Errorf("%w: this does not look like a Redfish service: %w", ErrUnreachable, bad)
	}
	if ref, ok := errors.AsType[*refusal](err); ok && ref.status == http.StatusNotFound {
		return fmt.Errorf("%w: there is no Redfish service: %w", ErrUnreachable, ref)
	}
	return err
}

func (c *Client) firstLogin(ctx context.Context) error {
	for try := 1; ; try++ {
		if err := c.acquire(ctx); err != nil {
			return err
		}
		err := c.login(ctx)
		c.release()
		if errors.Is(err, errStale) && try == 1 {
			c.log.WarnContext(ctx, "the connection broke during the log-in; log in over a new one")
			continue
		}
		// Only a BMC that says it is starting is asked again: anything else may
		// have counted as a failed log-in.
		if r, ok := errors.AsType[*refusal](err); !ok || try >= dialTries || r.status < 500 || !r.says(notReady...) {
			return err
		}
		if err := c.pause(ctx, try); err != nil {
			return err
		}
	}
}

// Messages that tell a full session table and a wrong password from other refusals.
var (
	sessionsFull  = []string{"RAC0218", "SessionLimitExceeded", "MaximumSessionsReached"}
	loginRefusals = []string{"UnauthorizedLoginAttempt", "InvalidUserNameOrPassword", "AuthenticationFailed", "AccountLocked", "NoValidSession"}
)

// login opens a session, or settles for Basic authentication. The gate must be
// held. Once sent, the log-in goes on for a moment when ctx ends, because a
// session whose token is lost cannot be closed.
func (c *Client) login(ctx context.Context) error {
	if c.sessions == "" {
		c.useBasic(ctx, "the service root shows no sessions")
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx, cancel := linger(ctx, c.cfg.Timeouts.Logout)
	defer cancel()
	r := request{
		method: http.MethodPost, path: c.sessions, auth: authAnonymous,
		payload: map[string]string{"UserName": c.cfg.Username, "Password": c.cfg.Password},
	}
	a, err := c.once(ctx, r)
	if err != nil {
		return err
	}
	if a.ok() {
		return c.adopt(ctx, a)
	}
	refused := c.refuse(r, a)
	switch {
	case refused.says(sessionsFull...) || refused.mentions("maximum number of user sessions"):
		c.useBasic(ctx, "the BMC has no session left")
		c.full = true
		return nil
	case a.status == http.StatusNotFound || a.status == http.StatusMethodNotAllowed || a.status == http.StatusNotImplemented:
		c.useBasic(ctx, "the BMC has no session service")
		return nil
	case errors.Is(refused, ErrLicence):
	case a.status == http.StatusUnauthorized, a.status == http.StatusForbidden, refused.says(loginRefusals...):
		c.denied = fmt.Errorf("%w: %w", ErrUnauthorized, refused)
		return c.denied
	}
	return refused
}

// adopt takes the session of a successful log-in.
func (c *Client) adopt(ctx context.Context, a answer) error {
	var body struct {
		ID link `json:"@odata.id"`
	}
	token, session := a.header.Get("X-Auth-Token"), localPath(a.header.Get("Location"))
	if session == "" && decode(a.body, &body) == nil {
		session = string(body.ID)
	}
	c.session, c.proven, c.basic = session, false, false
	c.token = token
	c.secrets.learn(token)
	if token == "" {
		// A session without its token is of no use, and open all the same.
		c.useBasic(ctx, "the BMC gave no session token")
		return nil
	}
	if session == "" {
		c.log.WarnContext(ctx, "the BMC did not say where its session is; it stays open until it times out")
	}
	return nil
}

func (c *Client) useBasic(ctx context.Context, why string) {
	c.basic = true
	c.token = ""
	c.log.DebugContext(ctx, "use Basic authentication", "reason", why)
}

// probeBasic finds out whether the BMC takes the account: Basic authentication
// has no log-in that would tell.
func (c *Client) probeBasic(ctx context.Context) error {
	path := string(c.root.Systems)
	if path == "" {
		path = defaultSystems
	}
	r := request{method: http.MethodGet, path: path}
	a, err := c.exchange(ctx, r)
	if err != nil {
		return err
	}
	refused := c.refuse(r, a)
	switch {
	case c.full && (a.status == http.StatusUnauthorized || refused.says(sessionsFull...)):
		c.denied = fmt.Errorf("%w, and took no Basic authentication instead: %s", ErrSessionLimit, refused.Error())
		return c.denied
	case a.status == http.StatusUnauthorized:
		return refused
	}
	return nil
}

// relogin replaces a session that the BMC dropped. The gate must be held.
func (c *Client) relogin(ctx context.Context) error {
	old := c.session
	c.session = ""
	c.log.InfoContext(ctx, "the BMC dropped the session; log in again")
	if err := c.login(ctx); err != nil {
		c.session = old // Close tries to delete it
		return fmt.Errorf("log in again after the session was dropped: %w", err)
	}
	if old != "" && old != c.session {
		// Mostly gone already; where the 401 had another reason it would leak.
		ctx, cancel := linger(ctx, c.cfg.Timeouts.Logout)
		defer cancel()
		_, _ = c.once(ctx, request{method: http.MethodDelete, path: old})
	}
	return nil
}

// logout deletes the session. The gate must be held.
func (c *Client) logout(ctx context.Context) error {
	if c.session == "" {
		return nil
	}
	var last error
	for range 2 { // deleting twice does no harm, and iLOs reset idle connections
		a, err := c.once(ctx, request{method: http.MethodDelete, path: c.session})
		switch {
		case err != nil:
			last = err
		case a.ok(), a.status == http.StatusNotFound, a.status == http.StatusUnauthorized, a.status == http.StatusGone:
			c.session = ""
			c.token = ""
			return nil
		default:
			last = fmt.Errorf("the session's deletion answered HTTP %d", a.status)
		}
	}
	return fmt.Errorf("the session stays open until it times out: %w", last)
}
