package daemon

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/source"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/talos"
	"github.com/talos-provision/provision/provisioner/web"
)

// patience bounds every wait: a test that needs it has failed.
const patience = 30 * time.Second

// fakeHost has a site without machines: every BMC is out of reach.
type fakeHost struct {
	talos.Prober // is not asked: a BMC out of reach decides
	state        *store.Store
	site         string

	prepared atomic.Int64
	prepare  func(ctx context.Context, nth int64) error // nil has everything at hand
}

func (h *fakeHost) Inventory(g source.Generation) provisioner.Inventory {
	return provisioner.Inventory{Nodes: g.Tree.Nodes}
}

func (h *fakeHost) Controller(i provisioner.Inventory, onEvent func(store.Event)) (*provisioner.Controller, error) {
	return provisioner.New(provisioner.Options{
		Inventory: i, Prober: h, Store: h.state, Site: h.site, OnEvent: onEvent,
		Dial: func(context.Context, inventory.Node) (provisioner.BMC, error) {
			return nil, errors.New("no route to the BMC")
		},
	})
}

func (h *fakeHost) Probe(context.Context, string) talos.Observation { return talos.Observation{} }

func (h *fakeHost) Services(*provisioner.Controller, source.Generation) (Services, error) {
	return fakeServices{}, nil
}

// Upgrade: no test of this package has a cluster to upgrade.
func (h *fakeHost) Upgrade(context.Context, web.UpgradeRequest, source.Generation, *provisioner.Controller, func(store.Event)) (Upgrade, error) {
	return nil, web.Invalid(errors.New("there is no cluster"), "")
}

func (h *fakeHost) Prepare(ctx context.Context, _ provisioner.Plan) error {
	nth := h.prepared.Add(1)
	if h.prepare == nil {
		return nil
	}
	return h.prepare(ctx, nth)
}

// fakeServices serve nobody.
type fakeServices struct{}

func (fakeServices) Listen(context.Context) error { return nil }
func (fakeServices) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
func (fakeServices) Close()                         {}
func (fakeServices) Follow(source.Generation) error { return nil }

// fakeSource has one generation.
type fakeSource struct{ first source.Generation }

func (s fakeSource) Load(context.Context) (source.Generation, error) { return s.first, nil }
func (s fakeSource) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
func (s fakeSource) Status() source.Status { return source.Status{Good: s.first} }
func (s fakeSource) Reload()               {}
func (s fakeSource) Name() string          { return "a test" }

// generation is an inventory of these nodes, all in the cluster demo.
func generation(id string, nodes ...inventory.Node) source.Generation {
	for i := range nodes {
		nodes[i].Cluster = "demo"
	}
	return source.Generation{ID: id, Tree: &inventory.Tree{Nodes: nodes}, Loaded: time.Now()}
}

func openState(t *testing.T) *store.Store {
	t.Helper()
	state, err := store.Open(filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := state.Close(); err != nil {
			t.Error(err)
		}
	})
	return state
}

// newDaemon makes a daemon over a state, which begins with an inventory when it is started.
func newDaemon(t *testing.T, h *fakeHost) *Daemon {
	t.Helper()
	d, err := New(Options{
		Store: h.state, Host: h, Site: h.site, Settings: Settings{AutoInstall: true},
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// start runs a daemon until the test ends, or the returned function is called.
func start(t *testing.T, d *Daemon, g source.Generation) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx, fakeSource{g}) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the daemon ended with %v", err)
			}
		case <-time.After(patience):
			t.Error("the daemon does not end")
		}
	})
	t.Cleanup(stop)
	until(t, "the daemon to lead", func() bool {
		_, err := d.leader()
		return err == nil
	})
	return stop
}

// until waits for what nothing announces.
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

// marks are what is noted of the nodes.
func marks(t *testing.T, state *store.Store) map[string]string {
	t.Helper()
	all, err := state.Marks()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// noted waits until the first look at an inventory was taken.
func noted(t *testing.T, d *Daemon) {
	t.Helper()
	until(t, "the first look", func() bool { return marks(t, d.opts.Store)[d.baseline()] != "" })
}

// inUse is the generation that a daemon works by.
func inUse(d *Daemon) source.Generation {
	_, g := d.now()
	return g
}
