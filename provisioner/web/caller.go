package web

import "context"

// role is what somebody may do.
type role int

// The roles, each may do what the ones before it may.
const (
	roleNone  role = iota // ask whether the daemon is up
	roleRead              // look
	roleAdmin             // everything
)

// caller is who asks, as far as it is known. who is for logs: it is no secret.
type caller struct {
	role role
	who  string
	// stand ends when what the caller is known by is taken back; nil where that cannot be.
	stand *standing
	// session is there when the caller is known by a cookie.
	session *session
}

// callerKey and loginErrorKey are the context's keys of who calls, and of why a login failed.
type (
	callerKey     struct{}
	loginErrorKey struct{}
)

func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

func withCaller(ctx context.Context, c caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// Caller says for whom a method of Controller, or the dashboard, is called, such
// as "root", "token" or a certificate's name; "" outside of a call, and for
// who is not known. It holds no secret.
func Caller(ctx context.Context) string { return callerOf(ctx).who }

// MayAct says whether the caller may do more than look: plan, start and stop runs,
// hold and release nodes, reload. The dashboard shows no forms to who may not, and
// refuses theirs.
func MayAct(ctx context.Context) bool { return callerOf(ctx).role >= roleAdmin }

// SignedIn says whether the caller has signed in at /login: only then is there
// something that POST /logout ends. A client certificate, for one, needs no login.
func SignedIn(ctx context.Context) bool { return callerOf(ctx).session != nil }

// LoginError says why the login that the page /login is shown again after has failed,
// and what to do; "" when none has failed. It is a text for people, not HTML.
func LoginError(ctx context.Context) string {
	text, _ := ctx.Value(loginErrorKey{}).(string)
	return text
}
