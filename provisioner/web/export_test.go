package web

import (
	"net/http"
	"net/url"
	"time"
)

// MakeHasty has a client try again, look again and give up sooner than users want.
func (c *Client) MakeHasty(silence time.Duration) {
	c.pace = pace{first: time.Millisecond, most: 20 * time.Millisecond, poll: time.Millisecond, silence: silence}
}

// DecodeRun and DecodeHold read bodies, DecodeEvents the query of a stream.
var (
	DecodeRun  = decodeRun
	DecodeHold = func(body []byte) (string, error) {
		r, err := decodeHold(body)
		return r.Reason, err
	}
	DecodeEvents = func(query url.Values, header http.Header) (after uint64, follow, sse bool, err error) {
		q, err := decodeEvents(query, header)
		return q.after, q.follow, q.sse, err
	}
)

// Types whose JSON is part of the API and that no user of the package needs.
type (
	HoldRequest  = holdRequest
	LoginRequest = loginRequest
	StreamEnd    = streamEnd
)

// RouteInfo is what the document says of a route.
type RouteInfo struct {
	Method, Path string
	Open         bool // for everybody
	Status       int
}

// Routes are the registered routes.
func Routes() []RouteInfo {
	all := routes()
	infos := make([]RouteInfo, 0, len(all))
	for _, r := range all {
		infos = append(infos, RouteInfo{r.method, r.path, r.role == roleNone, r.status})
	}
	return infos
}

// Codes are the codes that a server sends.
func Codes() []Code {
	codes := make([]Code, 0, len(statuses))
	for c := range statuses {
		codes = append(codes, c)
	}
	return codes
}

// OpenStreams is how many streams are open.
func (s *Server) OpenStreams() int { return len(s.streams) }

// LocalPath is where a login goes on.
var LocalPath = localPath
