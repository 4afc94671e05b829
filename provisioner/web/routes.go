package web

import (
	"net/http"
	"time"
)

// route is one call of the API. openapi.json describes the same ones.
type route struct {
	method, path string
	role         role // who may call it
	// answer finds what is then written as JSON with this status; nil is written as 204.
	answer func(*Server, *call) (any, error)
	status int // 0 is 200
	// write writes the answer itself; its error is told only while nothing is written.
	write func(*Server, http.ResponseWriter, *call) error
	// patient calls look at every BMC, endless ones are bounded by their reader's pace instead of by time.
	patient, endless bool
}

func routes() []route {
	return []route{
		{method: "GET", path: "/healthz", role: roleNone, write: (*Server).healthz},
		{method: "GET", path: "/readyz", role: roleNone, write: (*Server).readyz},
		{method: "GET", path: Prefix + "/openapi.json", role: roleRead, write: (*Server).openapi},
		{method: "GET", path: Prefix + "/nodes", role: roleRead, answer: (*Server).nodes},
		{method: "GET", path: Prefix + "/nodes/{cluster}/{node}", role: roleRead, answer: (*Server).detail},
		{method: "GET", path: Prefix + "/inventory/nodes", role: roleRead, answer: (*Server).fleet},
		{method: "GET", path: Prefix + "/collisions", role: roleRead, answer: (*Server).collisions},
		{method: "GET", path: Prefix + "/upgrades", role: roleRead, answer: (*Server).upgrades},
		{method: "GET", path: Prefix + "/unknown", role: roleRead, answer: (*Server).unknown},
		{method: "GET", path: Prefix + "/runs", role: roleRead, answer: (*Server).runs},
		{method: "GET", path: Prefix + "/runs/{id}", role: roleRead, answer: (*Server).run},
		{method: "GET", path: Prefix + "/holds", role: roleRead, answer: (*Server).holds},
		{method: "GET", path: Prefix + "/inventory", role: roleRead, answer: (*Server).inventory},
		{method: "GET", path: Prefix + "/events", role: roleRead, write: (*Server).events, endless: true},
		{method: "GET", path: Prefix + "/backup", role: roleAdmin, write: (*Server).backup, endless: true},
		{method: "POST", path: Prefix + "/plans", role: roleAdmin, answer: (*Server).plan, patient: true},
		{method: "POST", path: Prefix + "/runs", role: roleAdmin, answer: (*Server).start, status: http.StatusAccepted, patient: true},
		{method: "POST", path: Prefix + "/runs/{cluster}/stop", role: roleAdmin, answer: (*Server).stop},
		{method: "POST", path: Prefix + "/nodes/{cluster}/{node}/hold", role: roleAdmin, answer: (*Server).hold},
		{method: "POST", path: Prefix + "/nodes/{cluster}/{node}/release", role: roleAdmin, answer: (*Server).release},
		{method: "POST", path: Prefix + "/logins", role: roleAdmin, answer: (*Server).newLogin, status: http.StatusCreated},
		{method: "POST", path: Prefix + "/upgrades/plans", role: roleAdmin, answer: (*Server).planUpgrade, patient: true},
		{method: "POST", path: Prefix + "/upgrades", role: roleAdmin, answer: (*Server).startUpgrade, status: http.StatusAccepted, patient: true},
		{method: "POST", path: Prefix + "/upgrades/{cluster}/stop", role: roleAdmin, answer: (*Server).stopUpgrade},
		{method: "POST", path: Prefix + "/upgrades/{cluster}/abandon", role: roleAdmin, answer: (*Server).abandonUpgrade},
		{method: "POST", path: Prefix + "/reload", role: roleAdmin, answer: (*Server).reload},
	}
}

// handler serves the routes, and JSON errors elsewhere.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for _, rt := range routes() {
		mux.Handle(rt.method+" "+rt.path, s.serve(rt))
	}
	if s.opts.Metrics != nil {
		mux.Handle("GET /metrics", s.serve(route{method: "GET", path: "/metrics", role: roleRead, write: (*Server).metrics}))
	}
	mux.Handle("GET "+profilesPath, s.serve(route{method: "GET", path: profilesPath, role: roleAdmin, write: (*Server).profiles, patient: true}))
	elsewhere := s.serve(route{role: roleRead, answer: func(_ *Server, c *call) (any, error) { return nil, noRoute(mux, c.Request) }})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.isPage(r.URL.Path) {
			s.page(w, r)
			return
		}
		if _, pattern := mux.Handler(r); pattern == "" {
			elsewhere(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// noRoute tells a path that is not there from a method that it does not have.
func noRoute(mux *http.ServeMux, r *http.Request) error {
	var probe headerOnly
	mux.ServeHTTP(&probe, r)
	if probe.status == http.StatusMethodNotAllowed {
		return &Error{Code: CodeMethod, Message: r.URL.Path + " cannot be asked by " + r.Method, Hint: "use " + probe.Header().Get("Allow")}
	}
	return &Error{Code: CodeNotFound, Message: "there is nothing at " + r.URL.Path, Hint: Prefix + "/openapi.json describes what there is; client and daemon may be of different versions"}
}

// headerOnly keeps the status and the headers of an answer.
type headerOnly struct {
	header http.Header
	status int
}

func (h *headerOnly) Header() http.Header {
	if h.header == nil {
		h.header = http.Header{}
	}
	return h.header
}

func (h *headerOnly) Write(b []byte) (int, error) { return len(b), nil }

func (h *headerOnly) WriteHeader(status int) { h.status = status }

// timeout is how long a call may take; 0 is without end.
func (s *Server) timeout(rt route) time.Duration {
	switch {
	case rt.endless:
		return 0
	case rt.patient:
		return s.opts.PlanTimeout
	}
	return s.opts.RequestTimeout
}
