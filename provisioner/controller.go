// Package provisioner is the controller: it plans what a run would do to each
// node, and takes every node through its life until Talos at its address is
// confirmed to be up and to be the right machine.
package provisioner

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/machineconfig"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/talos"
)

// BMC is what the controller needs of a node's BMC. *bmc.Client has it.
type BMC interface {
	Identify(ctx context.Context) (bmc.Identity, error)
	Arm(ctx context.Context, r bmc.BootRequest) (bmc.BootOverride, error)
	Disarm(ctx context.Context) error
	BootOverride(ctx context.Context) (bmc.BootOverride, error)
	PowerOff(ctx context.Context) error
	PowerOn(ctx context.Context) error
	Close(ctx context.Context) error
}

// Dialer logs in to the BMC of a node. The caller closes what it returns.
type Dialer func(ctx context.Context, n inventory.Node) (BMC, error)

// Prober looks at the Talos API of a host. talos.Prober has it.
type Prober interface {
	Probe(ctx context.Context, host string) talos.Observation
	Disks(ctx context.Context, host string) ([]talos.Disk, error)
	// Apply sends a machine config, or only has it checked, after confirm has accepted
	// the machine at the other end of the same connection (I5).
	Apply(ctx context.Context, host string, config []byte, dryRun bool, confirm func(talos.Observation) error) (talos.Applied, error)
}

// Admin looks after nodes that have a config, with the client certificate of
// their cluster. talos.Admin has it.
type Admin interface {
	Inspect(ctx context.Context, host string) talos.Running
	EtcdMembers(ctx context.Context, host string) ([]talos.Member, error)
	Bootstrap(ctx context.Context, host string) error
}

// Configs gives a node's machine config; false when it has none.
// machineconfig.Source has it.
type Configs interface {
	Render(n inventory.Node) (machineconfig.Config, bool, error)
}

// Budgets bound what a run does to one node (I7).
type Budgets struct {
	// Attempts is how often a run power cycles one node at most; 0 takes 3.
	Attempts int
	// MinRebootInterval is the least time between two power cycles of a node by this tool, over all runs; 0 takes 5 minutes.
	MinRebootInterval time.Duration
	// BootTimeout is how long a node may take from power-on to maintenance; 0 takes 15 minutes.
	BootTimeout time.Duration
	// InstallTimeout is how long a node may take from its machine config to an answer from its disk; 0 takes 30 minutes.
	InstallTimeout time.Duration
	// ReadyTimeout is how long an installed node may take to be Ready; 0 takes 15 minutes.
	ReadyTimeout time.Duration
}

// Inventory is one generation of the operator's files.
type Inventory struct {
	// Nodes are all of every cluster: identity is decided over all of them (I1).
	Nodes []inventory.Node
	// Configs gives machine configs; nil says that no node has one.
	Configs Configs
	// Access gives what reaches the configured nodes of a node's cluster; a nil Admin without
	// an error says that the inventory names no talosconfig. Whatever changes a machine asks
	// confirm first, over the same connection, whether the machine is the node (I5).
	Access func(n inventory.Node, confirm func(identity.Facts) error) (Admin, error)
}

func (b Budgets) withDefaults() Budgets {
	b.Attempts = orDefault(b.Attempts, 3)
	b.MinRebootInterval = orDefault(b.MinRebootInterval, 5*time.Minute)
	b.BootTimeout = orDefault(b.BootTimeout, 15*time.Minute)
	b.InstallTimeout = orDefault(b.InstallTimeout, 30*time.Minute)
	b.ReadyTimeout = orDefault(b.ReadyTimeout, 15*time.Minute)
	return b
}

// Options are what a Controller works with. Dial and Prober are required; Store
// is for Run, and lets Plan see an interrupted run.
type Options struct {
	// Inventory is what the controller starts with; SetInventory puts another in its place.
	Inventory Inventory
	// BootURL is where the boot services' HTTP is reached, such as http://10.0.0.1:8080: for BMCs that
	// are told a URI (bmc.boot uefi-http and virtual-media).
	BootURL string
	Dial    Dialer
	Prober  Prober
	// Delivery is how machine configs reach their nodes; "" is by the API.
	Delivery Delivery
	// Site is the value of SiteLabel of the nodes that this controller works on; "" works on all.
	Site    string
	Store   *store.Store
	Power   Power
	Budgets Budgets
	// Leases tells which address DHCP gave to a MAC (lower case, with colons), of every lease that lasts: where
	// nodes without a static address are looked for that an earlier process was booting. It may be nil.
	Leases func() map[string]netip.Addr
	// PollInterval is how often a node is looked at; 0 takes one second. It is a quarter of that when a
	// node's kernel starts, and five times that before.
	PollInterval time.Duration
	// OnEvent is called with every event, one at a time and after it is stored. It must not block for long.
	OnEvent func(store.Event)
	// Log takes what is not an event; nil discards it.
	Log *slog.Logger
}

// SiteLabel is the label by which controllers of several sites share an inventory.
const SiteLabel = "site"

// elsewhere says whether the node is another site's.
func (c *Controller) elsewhere(n inventory.Node) bool {
	return c.opts.Site != "" && n.Labels[SiteLabel] != c.opts.Site
}

// bmcParallel is how many BMCs are talked to at once when the fleet is looked at: it costs sockets, not watts.
const bmcParallel = 64

// Controller plans and carries out runs, and is asked by the boot services what
// a machine may boot. Runs over different clusters may go on at once. It is
// safe for concurrent use.
type Controller struct {
	opts  Options
	fleet *Fleet
	// window admits nodes to be power cycled, powerOns those of them that are off and armed to be powered on.
	window, powerOns *PowerWindow

	refreshing sync.Mutex // one refreshFleet at a time

	mu        sync.Mutex
	inventory Inventory
	running   map[string]*run  // by cluster; those that go on
	nodes     map[string]*node // by cluster/name; the nodes that those runs work on
	// sources are the addresses that nodes of the runs were last seen at.
	sources map[netip.Addr]*node
	// boots are the nodes' boots that were noted last, by cluster/name.
	boots map[string]notedBoot
	// looks and preparations bound how many BMCs are worked with at once, for one look and
	// from the arming of a node to its power-on.
	looks, preparations slots
	allowed             arrows // of the state machine; the same for every node
	// primed says that the power-ons of earlier processes are counted in the window.
	primed bool

	// configs are the machine configs as they were made once, by cluster/name.
	configs map[string]rendered
	// etcdWaits is since when etcd of a control plane has been seen to wait, by cluster/name.
	etcdWaits map[string]time.Time

	eventMu sync.Mutex

	// record takes the place of the store's Record in tests, which count what is written and fail it.
	record func(store.Node, store.Event) error
}

// New makes a controller. It touches nothing.
func New(opts Options) (*Controller, error) {
	if opts.Dial == nil || opts.Prober == nil {
		return nil, errors.New("make the controller: Dial and Prober are required")
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	opts.PollInterval = orDefault(opts.PollInterval, time.Second)
	opts.Budgets = opts.Budgets.withDefaults()
	return &Controller{
		opts:      opts,
		inventory: opts.Inventory,
		fleet:     NewFleet(opts.Inventory.Nodes),
		window:    NewPowerWindow(opts.Power),
		powerOns:  NewPowerWindow(opts.Power.steady()),
		running:   map[string]*run{},
		nodes:     map[string]*node{},
		sources:   map[netip.Addr]*node{},
		boots:     map[string]notedBoot{},
		configs:   map[string]rendered{},
		etcdWaits: map[string]time.Time{},

		allowed:      newArrows(),
		looks:        make(slots, bmcParallel),
		preparations: make(slots, max(bmcParallel, 4*opts.Power.Parallel)),
	}, nil
}

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// lookup returns the run's node of that id; nil when no run works on it.
func (c *Controller) lookup(id string) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[id]
}

// write stores a record together with the event that tells of it.
func (c *Controller) write(r store.Node, e store.Event) error {
	if c.record != nil {
		return c.record(r, e)
	}
	return c.opts.Store.Record(r, e)
}

// publish hands an event that is already stored to whoever watches.
func (c *Controller) publish(e store.Event) {
	if c.opts.OnEvent == nil {
		return
	}
	c.eventMu.Lock()
	defer c.eventMu.Unlock()
	c.opts.OnEvent(e)
}
