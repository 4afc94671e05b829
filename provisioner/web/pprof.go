package web

import (
	"net/http"
	"net/http/pprof"
	"strings"
)

// profilesPath is where Go's profiles of the daemon are. They show what it does at the
// moment, not whom for: still they are for the admin alone, since taking one costs.
const profilesPath = "/debug/pprof/"

// profiles serves the profiles as `go tool pprof` asks for them. Those that take their
// time end with the call's own.
func (s *Server) profiles(w http.ResponseWriter, c *call) error {
	serve := pprof.Index // also the profiles that are there by name, such as heap and goroutine
	switch strings.TrimPrefix(c.URL.Path, profilesPath) {
	case "cmdline":
		serve = pprof.Cmdline
	case "profile":
		serve = pprof.Profile
	case "symbol":
		serve = pprof.Symbol
	case "trace":
		serve = pprof.Trace
	}
	serve(w, c.Request)
	return nil
}
