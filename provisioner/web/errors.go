package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Code is the class of an error: stable words for machines to read.
type Code string

// The codes.
const (
	CodeInvalid      Code = "invalid"      // 400: the request cannot be meant
	CodeUnauthorized Code = "unauthorized" // 401: nobody known asks
	CodeForbidden    Code = "forbidden"    // 403: who asks may not
	CodeNotFound     Code = "not found"    // 404
	CodeMethod       Code = "method"       // 405: the path is there, for another method
	CodeBusy         Code = "busy"         // 409: another run has the nodes
	CodePlanChanged  Code = "plan changed" // 409: the plan is not the confirmed one any more
	CodeTooLarge     Code = "too large"    // 413: the body is
	CodeContentType  Code = "content type" // 415: the body is no JSON
	CodeTooMany      Code = "too many"     // 429: streams are open already
	CodeInternal     Code = "internal"     // 500
	CodeUnavailable  Code = "unavailable"  // 503: later or elsewhere, such as at the leader
	CodeTimeout      Code = "timeout"      // 504: the answer was not found in time
	CodeUnreachable  Code = "unreachable"  // no status: the client got no answer
)

// What errors.Is can ask of an error of this package, and what an error of a
// Controller may wrap.
var (
	ErrInvalid      = &Error{Code: CodeInvalid, Message: "invalid request"}
	ErrUnauthorized = &Error{Code: CodeUnauthorized, Message: "not authorised"}
	ErrForbidden    = &Error{Code: CodeForbidden, Message: "not allowed"}
	ErrNotFound     = &Error{Code: CodeNotFound, Message: "not found"}
	ErrBusy         = &Error{Code: CodeBusy, Message: "the nodes are in use by another run"}
	ErrPlanChanged  = &Error{Code: CodePlanChanged, Message: "the plan has changed"}
	ErrTooMany      = &Error{Code: CodeTooMany, Message: "too many streams"}
	ErrUnavailable  = &Error{Code: CodeUnavailable, Message: "not available"}
	ErrUnreachable  = &Error{Code: CodeUnreachable, Message: "no answer"}
)

// Error is an error of the API on both sides of the wire.
type Error struct {
	Message string `json:"error"`
	// Hint is what a person can do next.
	Hint string `json:"hint,omitempty"`
	Code Code   `json:"code"`
	// Plan is the plan as it is now, with CodePlanChanged.
	Plan *PlanAnswer `json:"plan,omitempty"`
	// Busy says who has which nodes, with CodeBusy.
	Busy []Busy `json:"busy,omitempty"`

	cause error
}

// Busy is a run that has nodes which another one asks for.
type Busy struct {
	Run     string   `json:"run"`
	Cluster string   `json:"cluster"`
	Nodes   []string `json:"nodes"`
}

// Error implements error: what went wrong, and what to do.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + "; " + e.Hint
}

// Unwrap returns the error behind it, on the side where it arose.
func (e *Error) Unwrap() error { return e.cause }

// Is says that errors of one code are the same to errors.Is.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Invalid refuses a request that cannot be meant, with what to write instead.
func Invalid(err error, hint string) *Error {
	return &Error{Code: CodeInvalid, Message: err.Error(), Hint: hint, cause: err}
}

// NotFound says what there is not.
func NotFound(format string, args ...any) *Error {
	return &Error{Code: CodeNotFound, Message: fmt.Sprintf(format, args...)}
}

// Unavailable says that the daemon cannot do it now, and what to do.
func Unavailable(err error, hint string) *Error {
	return &Error{Code: CodeUnavailable, Message: err.Error(), Hint: hint, cause: err}
}

// PlanChanged refuses a run whose plan is not the confirmed one any more.
func PlanChanged(now PlanAnswer) *Error {
	return &Error{
		Code: CodePlanChanged, Message: "the plan has changed since it was confirmed",
		Hint: "look at the new plan and confirm it", Plan: &now,
	}
}

// BusyWith refuses a run whose nodes others have.
func BusyWith(others ...Busy) *Error {
	texts := make([]string, 0, len(others))
	for _, o := range others {
		has := "works on the cluster"
		if len(o.Nodes) > 0 {
			has = "has " + someOf(o.Nodes)
		}
		texts = append(texts, fmt.Sprintf("run %s of %s %s", o.Run, o.Cluster, has))
	}
	return &Error{
		Code: CodeBusy, Message: strings.Join(texts, "; "),
		Hint: "wait for it to end, stop it, or leave those nodes out with --exclude", Busy: others,
	}
}

// someOf names nodes, not more than fit on a line.
func someOf(nodes []string) string {
	const most = 8
	if len(nodes) <= most {
		return strings.Join(nodes, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(nodes[:most], ", "), len(nodes)-most)
}

// statuses are the codes' HTTP status codes.
var statuses = map[Code]int{
	CodeInvalid: http.StatusBadRequest, CodeUnauthorized: http.StatusUnauthorized, CodeForbidden: http.StatusForbidden,
	CodeNotFound: http.StatusNotFound, CodeMethod: http.StatusMethodNotAllowed, CodeBusy: http.StatusConflict,
	CodePlanChanged: http.StatusConflict, CodeTooLarge: http.StatusRequestEntityTooLarge,
	CodeContentType: http.StatusUnsupportedMediaType, CodeTooMany: http.StatusTooManyRequests,
	CodeInternal: http.StatusInternalServerError, CodeUnavailable: http.StatusServiceUnavailable,
	CodeTimeout: http.StatusGatewayTimeout,
}

// status is the HTTP status of an error.
func (e *Error) status() int {
	if s, known := statuses[e.Code]; known {
		return s
	}
	return http.StatusInternalServerError
}

// asError gives any error of a Controller its form on the wire. A text that was
// put around one of ours stays.
func asError(err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		told := *e
		if text := err.Error(); text != e.Error() {
			told.Message, told.Hint = text, ""
		}
		return &told
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: CodeTimeout, Message: err.Error(), Hint: "ask again; if it goes on, look at /readyz and at the daemon's log", cause: err}
	case errors.Is(err, context.Canceled):
		return &Error{Code: CodeUnavailable, Message: "the daemon stops, or the asker is gone", Hint: "ask again when it is up", cause: err}
	}
	return &Error{Code: CodeInternal, Message: err.Error(), Hint: "look at the daemon's log", cause: err}
}
