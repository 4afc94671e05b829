// Package dashboard is the admin plane's pages for people: what the fleet does,
// each node and why it is where it is, and the few things that a person does to
// it by hand. Every page is complete as HTML and works without JavaScript; with
// it, a page follows what changes.
package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
)

// Controller is what the pages need of the daemon. web.Controller has it.
type Controller interface {
	Nodes(ctx context.Context, cluster string) ([]store.Node, error)
	Fleet(ctx context.Context, cluster string) ([]web.InventoryNode, error)
	Detail(ctx context.Context, cluster, node string) (web.NodeDetail, error)
	Collisions(ctx context.Context) ([]web.Collision, error)
	Unknown(ctx context.Context) ([]store.Unknown, error)
	Runs(ctx context.Context) ([]web.RunInfo, error)
	Upgrades(ctx context.Context) ([]web.UpgradeInfo, error)
	Inventory(ctx context.Context) (web.InventoryInfo, error)
	Health(ctx context.Context) []web.Check
	Holds(ctx context.Context) ([]store.Hold, error)
	Events(ctx context.Context, after uint64, follow bool, visit func(seq uint64, e store.Event) error) error
	Hold(ctx context.Context, h store.Hold) error
	Release(ctx context.Context, cluster, node string) error
	Stop(ctx context.Context, cluster string) error
	StopUpgrade(ctx context.Context, cluster string) error
	Reload(ctx context.Context) error
}

// Viewer is for whom a page is.
type Viewer struct {
	// Name is shown; "" is nobody who is known.
	Name string
	// MayAct has the forms shown, and what they send taken.
	MayAct bool
	// SignedIn offers to sign out.
	SignedIn bool
	// LoginError says why a login failed.
	LoginError string
}

// Options are what the pages are made of. Only Control is required.
type Options struct {
	Control Controller
	// Version of the program is shown at the foot of each page.
	Version string
	// Docs is the URL that the names of the documentation's pages are put behind, with
	// its slash; "" takes the repository's.
	Docs string
	// Log takes what went wrong; nil discards it.
	Log *slog.Logger
	// Viewer says for whom a request is; nil asks package web.
	Viewer func(context.Context) Viewer
	// Now is the clock; nil takes the host's.
	Now func() time.Time

	// MaxViewers is how many pages may be followed at once; 0 takes 64. Further ones stay as they were loaded.
	MaxViewers int
	// Pace is the shortest time between two updates of a page; 0 takes half a second. A page that
	// takes long to make is made less often, so that viewers take no more than a tenth of a processor each.
	Pace time.Duration
	// Heartbeat is how often a page without news is told that it is still followed, and looks for
	// what no event tells of; 0 takes 5 seconds.
	Heartbeat time.Duration
}

const defaultDocs = "https://github.com/talos-provision/provision/blob/main/docs/"

func (o Options) withDefaults() Options {
	if o.Docs == "" {
		o.Docs = defaultDocs
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Viewer == nil {
		o.Viewer = viewerOf
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxViewers <= 0 {
		o.MaxViewers = 64
	}
	if o.Pace <= 0 {
		o.Pace = 500 * time.Millisecond
	}
	if o.Heartbeat <= 0 {
		o.Heartbeat = 5 * time.Second
	}
	return o
}

// viewerOf is the viewer as package web knows the caller.
func viewerOf(ctx context.Context) Viewer {
	return Viewer{Name: web.Caller(ctx), MayAct: web.MayAct(ctx), SignedIn: web.SignedIn(ctx), LoginError: web.LoginError(ctx)}
}

// site is the pages.
type site struct {
	opts    Options
	views   *views
	files   *files
	fleet   *fleetCache
	hub     *hub
	viewers chan struct{} // a place for each page that may be followed
	mux     *http.ServeMux
}

// New makes the handler of the pages, to be mounted at the root. Who may see
// them, and the headers that protect them, are the business of package web.
func New(o Options) (http.Handler, error) {
	if o.Control == nil {
		return nil, errors.New("make the dashboard: Control is required")
	}
	o = o.withDefaults()
	f, err := loadFiles()
	if err != nil {
		return nil, err
	}
	v, err := parseViews(o, f)
	if err != nil {
		return nil, err
	}
	s := &site{
		opts: o, views: v, files: f, fleet: newFleetCache(o.Control), hub: newHub(o.Control), viewers: make(chan struct{}, o.MaxViewers),
	}
	s.mux = s.routes()
	return s.mux, nil
}

// routes are the pages, what they consist of, and what their forms do.
func (s *site) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, build := range map[string]builder{
		"GET /{$}":                    s.overview,
		"GET /nodes":                  s.nodes,
		"GET /clusters/{cluster}":     s.nodes,
		"GET /nodes/{cluster}/{node}": s.node,
		"GET /unknown":                s.unknown,
		"GET /collisions":             s.collisions,
		"GET /inventory":              s.inventory,
		"GET /runs":                   s.runs,
		"GET /runs/{id}":              s.run,
		"GET /":                       s.nothing,
	} {
		mux.Handle(pattern, s.page(build))
	}
	for pattern, act := range map[string]action{
		"POST /nodes/{cluster}/{node}/hold":    s.hold,
		"POST /nodes/{cluster}/{node}/release": s.release,
		"POST /runs/{id}/stop":                 s.stop,
		"POST /inventory/reload":               s.reload,
		"POST /":                               s.nothingToDo,
	} {
		mux.Handle(pattern, s.form(act))
	}
	mux.Handle("GET /login", http.HandlerFunc(s.login))
	mux.Handle("GET /live", http.HandlerFunc(s.live))
	mux.Handle("GET /static/", s.files)
	return mux
}
