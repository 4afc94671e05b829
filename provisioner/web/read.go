package web

import (
	"context"
	_ "embed" // the document of the API
	"errors"
	"net/http"
	"time"
)

// openAPI describes the API; a test compares it with the routes and the types.
//
//go:embed openapi.json
var openAPI []byte

func (s *Server) openapi(w http.ResponseWriter, _ *call) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openAPI) // the asker may be gone
	return nil
}

func (s *Server) metrics(w http.ResponseWriter, c *call) error {
	s.opts.Metrics.ServeHTTP(w, c.Request)
	return nil
}

func (s *Server) nodes(c *call) (any, error) {
	return list(s.control.Nodes(c.Context(), c.URL.Query().Get("cluster")))
}

func (s *Server) unknown(c *call) (any, error) { return list(s.control.Unknown(c.Context())) }

func (s *Server) runs(c *call) (any, error) {
	runs, err := s.control.Runs(c.Context())
	if err != nil {
		return nil, err
	}
	whole := make([]RunInfo, 0, len(runs))
	for _, r := range runs {
		whole = append(whole, r.whole())
	}
	return whole, nil
}

func (s *Server) holds(c *call) (any, error) { return list(s.control.Holds(c.Context())) }

func (s *Server) run(c *call) (any, error) {
	runs, err := s.control.Runs(c.Context())
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		if r.ID == c.PathValue("id") {
			return r.whole(), nil
		}
	}
	return nil, NotFound("there is no run %q; see the list of the runs", c.PathValue("id"))
}

func (s *Server) inventory(c *call) (any, error) {
	info, err := s.control.Inventory(c.Context())
	if err != nil {
		return nil, err
	}
	return info, nil
}

// list makes no elements an empty list, not null.
func list[T any](values []T, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return orEmpty(values), nil
}

func orEmpty[T any](values []T) []T {
	if values == nil {
		return []T{}
	}
	return values
}

// whole has lists where there are no nodes, not nulls.
func (r RunInfo) whole() RunInfo {
	if r.Summary == nil {
		return r
	}
	s := *r.Summary
	s.Done, s.Failed, s.Held, s.Unfinished = orEmpty(s.Done), orEmpty(s.Failed), orEmpty(s.Held), orEmpty(s.Unfinished)
	s.Skipped = orEmpty(s.Skipped)
	r.Summary = &s
	return r
}

func (s *Server) healthz(w http.ResponseWriter, c *call) error {
	return s.health(w, c, func(check Check) bool { return check.OK || !check.Vital })
}

func (s *Server) readyz(w http.ResponseWriter, c *call) error {
	return s.health(w, c, func(check Check) bool { return check.OK })
}

// health answers 200 or 503. What the checks say is for who may read.
func (s *Server) health(w http.ResponseWriter, c *call, good func(Check) bool) error {
	h := Health{OK: true, Checks: []Check{}}
	for _, check := range s.control.Health(c.Context()) {
		h.OK = h.OK && good(check)
		if c.caller.role < roleRead {
			check.What = ""
		}
		h.Checks = append(h.Checks, check)
	}
	status := http.StatusOK
	if !h.OK {
		status = http.StatusServiceUnavailable
	}
	return writeJSON(w, status, h)
}

// backup sends a copy of the state. One that fails on its way is cut off.
func (s *Server) backup(w http.ResponseWriter, c *call) error {
	leave, err := s.enterStream()
	if err != nil {
		return err
	}
	defer leave()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="provision-state.db"`)
	paced := s.paced(w)
	paced.ctx = c.Context()
	if err := s.control.Backup(c.Context(), paced); err != nil {
		w.Header().Del("Content-Disposition")
		return err
	}
	if paced.written == 0 {
		return errors.New("the copy of the state is empty; look at the daemon's log")
	}
	return nil
}

// paced gives every write its own time, so that only a reader who takes nothing is cut off.
func (s *Server) paced(w http.ResponseWriter) *pacedWriter {
	return &pacedWriter{w: w, control: http.NewResponseController(w), patience: s.opts.StreamTimeout}
}

type pacedWriter struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration
	ctx      context.Context // ends the writing too, unless it is nil
	written  int64
}

func (p *pacedWriter) Write(b []byte) (int, error) {
	if p.ctx != nil && p.ctx.Err() != nil {
		return 0, p.ctx.Err()
	}
	if err := p.control.SetWriteDeadline(time.Now().Add(p.patience)); err != nil {
		return 0, err
	}
	n, err := p.w.Write(b)
	p.written += int64(n)
	return n, err
}

// flush sends what was written.
func (p *pacedWriter) flush() error {
	if err := p.control.SetWriteDeadline(time.Now().Add(p.patience)); err != nil {
		return err
	}
	return p.control.Flush()
}
