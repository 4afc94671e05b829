// Package provisioner is the controller: it plans what a run would do to each
// node, and takes every node through its life until Talos at its address is
// confirmed to be up and to be the right machine.
package provisioner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

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

// Options are what a Controller works with. Inventory, Dial and Prober are
// required; Store is for Run, and lets Plan see an interrupted run.
type Options struct {
	// Inventory is every node of every cluster: identity is decided over all of them (I1).
	Inventory []inventory.Node
	// Selected are the nodes that a run may work on.
	Selected []inventory.Node
	// Reinstall names the nodes, as cluster/name, that may be installed although they run a configured Talos (I2).
	Reinstall map[string]bool
	// BootURL is where the boot services' HTTP is reached, such as http://10.0.0.1:8080: for BMCs that
	// are told a URI (bmc.boot uefi-http and virtual-media).
	BootURL string
	Dial    Dialer
	Prober  Prober
	// Until is how far the run takes every node; "" takes those with a machine config to
	// ready, the others to maintenance.
	Until Goal
	// Delivery is how machine configs reach their nodes; "" is by the API.
	Delivery Delivery
	// Configs gives machine configs; nil says that no node has one.
	Configs Configs
	// Access gives what reaches the configured nodes of a node's cluster; a nil Admin without
	// an error says that the inventory names no talosconfig. Whatever changes a machine asks
	// confirm first, over the same connection, whether the machine is the node (I5).
	Access  func(n inventory.Node, confirm func(identity.Facts) error) (Admin, error)
	Store   *store.Store
	Power   Power
	Budgets Budgets
	// PollInterval is how often a booting node is looked at; 0 takes one second.
	PollInterval time.Duration
	// OnEvent is called with every event, one at a time and after it is stored. It must not block for long.
	OnEvent func(store.Event)
	// Log takes what is not an event; nil discards it.
	Log *slog.Logger
}

// bmcParallel is how many BMCs are talked to at once when the fleet is looked at: it costs sockets, not watts.
const bmcParallel = 64

// Controller plans and carries out runs over one selection of nodes.
type Controller struct {
	opts   Options
	fleet  *Fleet
	window *PowerWindow
	// localBoots are the nodes whose firmware needs a way of its own to its disk.
	localBoots map[string]string

	mu    sync.Mutex
	nodes map[string]*node // by cluster/name; the nodes that the present run works on
	// sources are the addresses that nodes of the run were last seen at.
	sources map[netip.Addr]*node

	// configs are the machine configs as they were made once, by cluster/name.
	configs map[string]rendered
	// etcdWaits is since when etcd of a control plane has been seen to wait, by cluster/name.
	etcdWaits map[string]time.Time

	eventMu sync.Mutex
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
	opts.Budgets.Attempts = orDefault(opts.Budgets.Attempts, 3)
	opts.Budgets.MinRebootInterval = orDefault(opts.Budgets.MinRebootInterval, 5*time.Minute)
	opts.Budgets.BootTimeout = orDefault(opts.Budgets.BootTimeout, 15*time.Minute)
	opts.Budgets.InstallTimeout = orDefault(opts.Budgets.InstallTimeout, 30*time.Minute)
	opts.Budgets.ReadyTimeout = orDefault(opts.Budgets.ReadyTimeout, 15*time.Minute)
	localBoots := map[string]string{}
	for _, n := range opts.Inventory {
		if n.LocalBoot != "" {
			localBoots[n.ID()] = n.LocalBoot
		}
	}
	return &Controller{
		localBoots: localBoots,
		opts:       opts,
		fleet:      NewFleet(opts.Inventory),
		window:     NewPowerWindow(opts.Power),
		nodes:      map[string]*node{},
		sources:    map[netip.Addr]*node{},
		configs:    map[string]rendered{},
		etcdWaits:  map[string]time.Time{},
	}, nil
}

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// Run carries out a plan made by Plan: every node of it ends in the state of its
// goal, Failed or Held, or ctx ends first and the run can be carried on by another
// Run over the same store (I8). The boot services must be listening.
func (c *Controller) Run(ctx context.Context, plan Plan) (Summary, error) {
	if c.opts.Store == nil {
		return Summary{}, errors.New("run without a state store: a crash could not be told from a beginning")
	}
	run, _, err := c.opts.Store.BeginRun(plan.Cluster, newRunID(time.Now()), time.Now())
	if err != nil {
		return Summary{}, err
	}
	nodes, err := c.enlist(run, plan)
	if err != nil {
		return Summary{}, err
	}
	defer c.dismiss()

	var work errgroup.Group
	for _, n := range nodes {
		work.Go(func() error { return n.live(ctx) })
	}
	if err := work.Wait(); err != nil {
		return Summary{}, err
	}
	summary := summarise(run.ID, plan, nodes)
	if ctx.Err() != nil {
		return summary, ctx.Err()
	}
	return summary, c.opts.Store.FinishRun(run, time.Now())
}

// enlist writes down what the plan decided for each node and makes the nodes
// known to the boot services, before any of them is touched.
func (c *Controller) enlist(run store.Run, plan Plan) ([]*node, error) {
	var (
		nodes []*node
		group errgroup.Group // the store gathers what is written at once into one fsync
	)
	for _, p := range plan.Nodes {
		if p.Action == ActionSkip {
			continue
		}
		n, err := c.newNode(run, p)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
		group.Go(func() error { return n.begin(p) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range nodes {
		c.nodes[n.ID()] = n
	}
	return nodes, nil
}

// dismiss ends what the boot services do for the run's nodes: none is armed any more (I3).
func (c *Controller) dismiss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.nodes)
	clear(c.sources)
}

// lookup returns the run's node of that id; nil when no run works on it.
func (c *Controller) lookup(id string) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[id]
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

// newRunID is sortable by time and short enough to say aloud.
func newRunID(now time.Time) string {
	return fmt.Sprintf("%s-%04x", now.UTC().Format("20060102T150405Z"), now.Nanosecond()&0xffff)
}
