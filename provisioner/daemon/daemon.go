// Package daemon is the controller as a service: it leads its site, serves machines
// that boot, follows the inventory, and carries out the runs that people and
// commits ask for. All that it must remember is in the state store, so that it
// may die at any instant and another may take over.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/talos-provision/provision/inventory/source"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/upgrade"
	"github.com/talos-provision/provision/provisioner/web"
)

// Source is where the inventory comes from. *source.Source has it.
type Source interface {
	Load(ctx context.Context) (source.Generation, error)
	Run(ctx context.Context) error
	Status() source.Status
	Reload()
	Name() string
}

// Services are the boot services of the site.
type Services interface {
	Listen(ctx context.Context) error
	Run(ctx context.Context) error
	Close()
	// Follow has them serve another generation of the inventory.
	Follow(g source.Generation) error
}

// Host makes what the daemon works with, by the configuration of this host.
type Host interface {
	// Inventory is a generation as the controller takes it.
	Inventory(g source.Generation) provisioner.Inventory
	// Controller makes the controller of the site; it is told every event.
	Controller(i provisioner.Inventory, onEvent func(store.Event)) (*provisioner.Controller, error)
	// Services makes the boot services, which ask the controller. They are not listening yet.
	Services(c *provisioner.Controller, g source.Generation) (Services, error)
	// Upgrade makes an upgrade of the nodes of a generation; publish gets each of its events after it was stored.
	// An *web.Error tells the person who asked what cannot be meant.
	Upgrade(ctx context.Context, r web.UpgradeRequest, g source.Generation, c *provisioner.Controller, publish func(store.Event)) (Upgrade, error)
	// Prepare has everything at hand that a plan needs, such as images, before a machine is touched.
	Prepare(ctx context.Context, plan provisioner.Plan) error
}

// Upgrade is a rolling upgrade that was asked for.
type Upgrade interface {
	Plan(ctx context.Context) (upgrade.Plan, error)
	// Run carries out a plan that Plan gave. It may be killed at any moment.
	Run(ctx context.Context, plan upgrade.Plan) (upgrade.Result, error)
	// Abandon ends the unfinished upgrade of the cluster.
	Abandon(ctx context.Context) (upgrade.Result, error)
	// RunID is the upgrade's: of the one that is carried on, if any, once Plan was called.
	RunID() string
}

// Settings can be changed while the daemon runs.
type Settings struct {
	// AutoInstall starts a run by itself for a node that a new generation marks install: true.
	AutoInstall bool
	// MaxFailures is for runs that name no limit themselves.
	MaxFailures provisioner.Limit
	Power       provisioner.Power
	Budgets     provisioner.Budgets
}

// Options are what a Daemon is made of. All but Site, Log and KeepEvents are required.
type Options struct {
	Store *store.Store
	Host  Host
	// Site is the label `site` of the nodes that this controller works on; "" works on all.
	Site     string
	Settings Settings
	// KeepEvents is how many events are kept, the newest; 0 keeps 200,000.
	KeepEvents int
	Log        *slog.Logger
}

const (
	defaultKeepEvents = 200_000
	pruneInterval     = time.Hour
	// retryInterval is how long the daemon waits before it tries again to lead, or to go on with a run.
	retryInterval = 2 * time.Second
)

// Daemon is one controller process. It is safe for concurrent use.
type Daemon struct {
	opts Options
	src  Source

	mu         sync.Mutex
	settings   Settings
	generation source.Generation
	leading    *leading // nil on standby
	standing   string   // why it does not lead, for people
	jobs       map[string]*job
	ended      map[string]*job        // the newest of each cluster that has ended
	upgrades   map[string]*upgradeJob // the newest of each cluster in this process
	plans      []planned
	rests      rests
	news       chan struct{} // closed, and made anew, when an event was stored

	settled  chan struct{} // closed when it leads, or is known to stand by, for the first time
	settling sync.Once
}

// New makes a daemon. It touches nothing.
func New(o Options) (*Daemon, error) {
	if o.Store == nil || o.Host == nil {
		return nil, errors.New("make the daemon: Store and Host are required")
	}
	if o.KeepEvents == 0 {
		o.KeepEvents = defaultKeepEvents
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Daemon{
		opts: o, settings: o.Settings, standing: "it has just been started",
		jobs: map[string]*job{}, ended: map[string]*job{}, upgrades: map[string]*upgradeJob{}, rests: rests{}, news: make(chan struct{}), settled: make(chan struct{}),
	}, nil
}

// Run works until ctx ends, and then stops in good order: runs are left so that
// they can be carried on. OnGeneration and OnRefusal of the source must be Apply
// and Refuse of this daemon. Without a first good generation it is an error.
func (d *Daemon) Run(ctx context.Context, src Source) error {
	first, err := src.Load(ctx)
	if err != nil {
		return fmt.Errorf("load the inventory from %s: %w", src.Name(), err)
	}
	d.mu.Lock()
	d.src, d.generation = src, first
	d.mu.Unlock()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return src.Run(ctx) })
	group.Go(func() error { return d.campaign(ctx) })
	group.Go(func() error { return d.housekeep(ctx) })
	return group.Wait()
}

// housekeep bounds what is kept.
func (d *Daemon) housekeep(ctx context.Context) error {
	for {
		if removed, err := d.opts.Store.PruneEvents(d.opts.KeepEvents); err != nil {
			d.opts.Log.Warn("old events could not be removed", "error", err)
		} else if removed > 0 {
			d.opts.Log.Info("old events were removed", "events", removed, "kept", d.opts.KeepEvents)
		}
		if !pause(ctx, pruneInterval) {
			return nil
		}
	}
}

// Apply has a new generation of the inventory take effect: nodes that a run works
// on stay as they were planned.
func (d *Daemon) Apply(g source.Generation) {
	d.mu.Lock()
	d.generation = g
	d.plans = nil // they were made from the one before
	leads := d.leading
	d.mu.Unlock()
	if leads != nil {
		d.follow(leads, g)
	}
}

// follow has the controller and the boot services follow a generation.
func (d *Daemon) follow(l *leading, g source.Generation) {
	l.controller.SetInventory(d.opts.Host.Inventory(g))
	if err := l.services.Follow(g); err != nil {
		d.opts.Log.Error("the boot services go on with the inventory before", "generation", g.ID, "error", err)
	}
	l.wake()
}

// Refuse takes note of a generation that is not used. The source has logged it.
func (d *Daemon) Refuse(source.Refusal) {}

// Set changes the settings. Runs that go on take over limits of power and budgets.
func (d *Daemon) Set(s Settings) {
	d.mu.Lock()
	d.settings = s
	leads := d.leading
	d.mu.Unlock()
	if leads != nil {
		leads.controller.SetLimits(s.Power, s.Budgets)
		leads.wake()
	}
}

func (d *Daemon) now() (Settings, source.Generation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.settings, d.generation
}

// pause waits; false when ctx has ended.
func pause(ctx context.Context, t time.Duration) bool {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
