package dashboard

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"time"
)

//go:embed views
var viewFiles embed.FS

// builder finds what a page shows.
type builder func(r *http.Request, v Viewer) (view, error)

// view is what a page shows.
type view struct {
	status  int    // 0 is 200
	title   string // of the window and the page
	section string // entry of the navigation that is current
	name    string // template
	data    any
	// pieces are what changes while the page is open, in no particular order.
	pieces []piece
	// subject is what events the page depends on: a cluster, or a node of it; all with both "".
	cluster, node string
	// noNav leaves the navigation out.
	bare bool
	// heavy says that the page reads more than the shared picture of the fleet, so that only
	// events of its own subject, and the heartbeat, have it made anew.
	heavy bool
}

// piece is an element of a page that is sent anew when it has changed. Its template
// makes exactly one element, which begins with its tag and its id.
type piece struct {
	template string
	data     any
	// rows are elements within it that are sent alone while no other row comes, goes or moves.
	rows []row
	// row is the rows' template.
	row string
	// every is the shortest time between two updates; 0 is as often as the page.
	every time.Duration
}

// row is one element of many.
type row interface{ rowID() string }

// frame is what the layout shows around a page.
type frame struct {
	view    *view
	Title   string
	Section string
	Body    template.HTML
	Bare    bool
	Viewer  Viewer
	Version string
	Now     time.Time
	Nav     nav
	// Live is the URL of the page's stream; "" when it has none.
	Live   string
	Notice string
	Search string
}

// nav is what the navigation counts.
type nav struct{ Unknown, Collisions, Refused, Running int }

// views renders templates.
type views struct{ all *template.Template }

func parseViews(o Options, f *files) (*views, error) {
	all, err := template.New("").Funcs(funcs(o, f)).ParseFS(viewFiles, "views/*.html")
	if err != nil {
		return nil, fmt.Errorf("read the views of the dashboard: %w", err)
	}
	return &views{all: all}, nil
}

func (v *views) render(name string, data any) (template.HTML, error) {
	var b bytes.Buffer
	if err := v.all.ExecuteTemplate(&b, name, data); err != nil {
		return "", fmt.Errorf("render %s: %w", name, err)
	}
	return template.HTML(b.String()), nil //nolint:gosec // it is what html/template made
}

// page serves what a builder finds. A live page asks the same handler, and takes the view itself.
func (s *site) page(build builder) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		viewer := s.opts.Viewer(r.Context())
		v, err := build(r, viewer)
		if sink, live := r.Context().Value(sinkKey{}).(*sink); live {
			sink.view, sink.err = v, err
			return
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.show(w, r, &v)
	})
}

// show writes a page.
func (s *site) show(w http.ResponseWriter, r *http.Request, v *view) {
	f := frame{
		view: v, Title: v.title, Section: v.section, Bare: v.bare, Viewer: s.opts.Viewer(r.Context()), Version: s.opts.Version,
		Now: s.opts.Now(), Notice: notices[r.URL.Query().Get("done")], Search: firstOf(r.URL.Query().Get("q"), maxText),
	}
	if !v.bare {
		f.Nav = s.navigation(r.Context())
	}
	if len(v.pieces) > 0 {
		f.Live = liveURL(r.URL)
	}
	body, err := s.views.render(v.name, v.data)
	if err == nil {
		f.Body = body
		body, err = s.views.render("layout", f)
	}
	if err != nil {
		s.opts.Log.Error("a page of the dashboard could not be made", "page", r.URL.Path, "error", err)
		http.Error(w, "this page could not be made; look at the daemon's log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if v.status != 0 {
		w.WriteHeader(v.status)
	}
	_, _ = w.Write([]byte(body)) // an error means that the reader is gone
}
