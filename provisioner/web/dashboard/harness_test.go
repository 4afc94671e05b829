package dashboard_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/talos-provision/provision/provisioner/web/dashboard"
	"github.com/talos-provision/provision/provisioner/web/dashboard/dashboardtest"
)

// moment is when the fleets of these tests are.
var moment = time.Date(2026, 11, 30, 21, 30, 0, 0, time.UTC)

// patience bounds every wait of these tests: one that needs it has failed.
const patience = 20 * time.Second

// pages are a server of the pages for one viewer.
type pages struct {
	t       *testing.T
	control *dashboardtest.Control
	url     string
}

func admin(context.Context) dashboard.Viewer {
	return dashboard.Viewer{Name: "token", MayAct: true, SignedIn: true}
}

func reader(context.Context) dashboard.Viewer { return dashboard.Viewer{Name: "read token"} }

// serve serves the pages of what a daemon knows; change may set other options.
func serve(t *testing.T, data dashboardtest.Data, change func(*dashboard.Options)) *pages {
	t.Helper()
	o := dashboard.Options{
		Control: dashboardtest.New(data), Version: "v1.2.3", Docs: "https://docs.example/", Viewer: admin, Now: func() time.Time { return moment },
		Pace: 20 * time.Millisecond, Heartbeat: 200 * time.Millisecond,
	}
	if change != nil {
		change(&o)
	}
	h, err := dashboard.New(o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return &pages{t: t, control: o.Control.(*dashboardtest.Control), url: server.URL}
}

// ofTwelve is a fleet of twelve nodes in two clusters.
func ofTwelve() dashboardtest.Data {
	return dashboardtest.Fleet(dashboardtest.Size{Clusters: 2, Nodes: 12}, moment)
}

// direct follows no redirect: a test looks at it.
var direct = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// answer is what comes before a page.
type answer struct {
	StatusCode int
	Header     http.Header
}

// do asks for something, and reads the answer.
func (p *pages) do(method, path, form string) (answer, string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(form))
	if err != nil {
		p.t.Fatal(err)
	}
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := direct.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header}, string(body)
}

// get loads a page that must be there.
func (p *pages) get(path string) string {
	p.t.Helper()
	response, body := p.do(http.MethodGet, path, "")
	if response.StatusCode != http.StatusOK {
		p.t.Fatalf("GET %s: status %d\n%s", path, response.StatusCode, words(body))
	}
	return body
}

var tags = regexp.MustCompile(`<[^>]*>`)

// words is what a page says, without its tags.
func words(html string) string {
	return strings.Join(strings.Fields(tags.ReplaceAllString(html, " ")), " ")
}

// nodesIn are the nodes of a table, in order.
func nodesIn(html string) (ids []string) {
	for _, m := range regexp.MustCompile(`data-node="([^"]*)"`).FindAllStringSubmatch(html, -1) {
		ids = append(ids, m[1])
	}
	return ids
}

// follower reads the stream of a page.
type follower struct {
	t        *testing.T
	messages chan string // what each update holds; closed at the end
	cancel   context.CancelFunc
	status   int
}

// follow opens the stream of a page.
func (p *pages) follow(page string) *follower {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/live?page="+url.QueryEscape(page), nil)
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	response, err := direct.Do(r) //nolint:bodyclose // its reader below closes it
	if err != nil {
		p.t.Fatal(err)
	}
	f := &follower{t: p.t, messages: make(chan string, 1000), cancel: cancel, status: response.StatusCode}
	go func() {
		defer close(f.messages)
		defer func() { _ = response.Body.Close() }()
		var message strings.Builder
		if response.StatusCode != http.StatusOK {
			return
		}
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, 4<<20)
		for lines.Scan() {
			switch line := lines.Text(); {
			case strings.Contains(line, "\r"):
				p.t.Errorf("a line of the stream has an end inside: %q", line)
			case line == "":
				f.messages <- message.String()
				message.Reset()
			case strings.HasPrefix(line, "data: "):
				message.WriteString(strings.TrimPrefix(line, "data: ") + "\n")
			case !strings.HasPrefix(line, "id: ") && line != "event: update":
				p.t.Errorf("the stream has the line %q", line)
			}
		}
	}()
	p.t.Cleanup(cancel)
	return f
}

// next is the next update.
func (f *follower) next() string {
	f.t.Helper()
	select {
	case m, open := <-f.messages:
		if !open {
			f.t.Fatal("the stream has ended")
		}
		return m
	case <-time.After(patience):
		f.t.Fatal("the stream says nothing")
	}
	return ""
}

// news is the next update that is more than a heartbeat.
func (f *follower) news() string {
	f.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if m := f.next(); strings.Count(m, "<template>") > 1 {
			return m
		}
	}
	f.t.Fatal("the stream has heartbeats only")
	return ""
}

// until waits for something that no event announces.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// clock is a clock that a test sets.
type clock struct{ at atomic.Int64 }

func newClock(at time.Time) *clock {
	c := &clock{}
	c.at.Store(at.UnixNano())
	return c
}

func (c *clock) now() time.Time      { return time.Unix(0, c.at.Load()) }
func (c *clock) add(d time.Duration) { c.at.Add(int64(d)) }

// ended is the context of a request whose asker is gone: a stream sends what there is, and ends.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

func handlerOf(t testing.TB, data dashboardtest.Data) http.Handler {
	t.Helper()
	h, err := dashboard.New(dashboard.Options{Control: dashboardtest.New(data), Viewer: admin})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func answerOf(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
