package dashboard

import (
	"context"
	"errors"
	"net/http"

	"github.com/talos-provision/provision/provisioner/web"
)

// failure is what the page of an error shows.
type failure struct{ Heading, Text, Hint string }

// statuses are the classes of errors that a page can meet.
var statuses = map[web.Code]int{
	web.CodeInvalid: http.StatusBadRequest, web.CodeUnauthorized: http.StatusUnauthorized, web.CodeForbidden: http.StatusForbidden,
	web.CodeNotFound: http.StatusNotFound, web.CodeMethod: http.StatusMethodNotAllowed, web.CodeBusy: http.StatusConflict,
	web.CodeTooMany: http.StatusServiceUnavailable, web.CodeUnavailable: http.StatusServiceUnavailable, web.CodeTimeout: http.StatusGatewayTimeout,
}

var headings = map[int]string{
	http.StatusBadRequest: "This cannot be done so", http.StatusUnauthorized: "Sign in first", http.StatusForbidden: "You may only look",
	http.StatusNotFound: "There is nothing here", http.StatusMethodNotAllowed: "There is nothing to do here", http.StatusConflict: "Not now",
	http.StatusServiceUnavailable: "Not available now", http.StatusGatewayTimeout: "It took too long",
}

// statusOf is the status of an error, and its text and advice for a person.
func statusOf(err error) (status int, f failure) {
	var e *web.Error
	switch {
	case errors.As(err, &e):
		status, f.Text, f.Hint = statuses[e.Code], e.Message, e.Hint
	case errors.Is(err, context.DeadlineExceeded):
		status, f.Text, f.Hint = http.StatusGatewayTimeout, err.Error(), "load the page again; if it stays so, look at the daemon's log"
	default:
		f.Text, f.Hint = err.Error(), "look at the daemon's log"
	}
	if status == 0 {
		status = http.StatusInternalServerError
	}
	if f.Heading = headings[status]; f.Heading == "" {
		f.Heading = "Something went wrong"
	}
	return status, f
}

// fail shows an error as a page.
func (s *site) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		return // nobody is there to read it
	}
	status, f := statusOf(err)
	if status >= http.StatusInternalServerError {
		s.opts.Log.Warn("a page of the dashboard failed", "page", r.URL.Path, "error", err)
	}
	s.show(w, r, &view{status: status, title: f.Heading, name: "failure", data: f})
}

// nothing is the page of an address that there is not.
func (s *site) nothing(r *http.Request, _ Viewer) (view, error) {
	return view{}, &web.Error{Code: web.CodeNotFound, Message: "No page is at " + clip(r.URL.Path, maxText) + ".", Hint: "the navigation above leads to all pages"}
}
