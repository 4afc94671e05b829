package web

import "context"

// standing is a right that lasts until it is taken back: that of a token, of the
// certificates of an authority, of a session. What was let in by it ends with it.
type standing struct {
	ctx context.Context
	end context.CancelFunc
}

// newStanding is a right that ends with another one, if it comes from one.
func newStanding(from *standing) *standing {
	parent := context.Background()
	if from != nil {
		parent = from.ctx
	}
	ctx, end := context.WithCancel(parent)
	return &standing{ctx, end}
}

// ended says whether the right was taken back; one that is nil never is.
func (s *standing) ended() bool { return s != nil && s.ctx.Err() != nil }

// bind has a context end with the right. unbind lets go of both.
func (s *standing) bind(parent context.Context) (ctx context.Context, unbind func()) {
	ctx, cancel := context.WithCancel(parent)
	if s == nil {
		return ctx, cancel
	}
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// errRevoked ends what was let in by a right that was taken back since.
func errRevoked() *Error {
	return &Error{Code: CodeUnauthorized, Message: "the token, certificate or session is not known any more", Hint: "give the daemon's new token, or sign in again"}
}
