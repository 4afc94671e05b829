package provisioner

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/store"
)

// Request is what a run is asked for.
type Request struct {
	Cluster string
	// Selected are the nodes that the run may work on.
	Selected []inventory.Node
	// Reinstall names the nodes, as cluster/name, that may be installed although they run a configured Talos (I2).
	Reinstall map[string]bool
	// Until is how far the run takes every node; "" takes those with a machine config to
	// ready, the others to maintenance.
	Until Goal
	// Daemon says that a daemon asks: it goes on with the run by itself when it was cut short.
	Daemon bool
	// MaxFailures ends the run early: once that many of its nodes have failed, no further
	// node is powered on.
	MaxFailures Limit
}

// ErrBusy says that another run of this controller, or of another one, works on a cluster or a node.
var ErrBusy = errors.New("another run works on it")

// run is one run while it goes on.
type run struct {
	store.Run
	maxFailures Limit
	size        int          // how many nodes it works on
	failures    atomic.Int64 // how many of them failed since it began
}

// stopped says why the run powers on no further node, or "".
func (r *run) stopped() string {
	failures := int(r.failures.Load())
	if !r.maxFailures.Reached(failures, r.size) {
		return ""
	}
	return fmt.Sprintf("%d of %d nodes failed in this run, and --max-failures is %s", failures, r.size, r.maxFailures)
}

// Run carries out a plan made by Plan: every node of it ends in the state of its
// goal, Failed or Held, or ctx ends first and the run can be carried on by another
// Run over the same store (I8). The boot services must be listening. Where the
// state is out of reach all work ends, and the error says so.
func (c *Controller) Run(ctx context.Context, plan Plan) (Summary, error) {
	if c.opts.Store == nil {
		return Summary{}, errors.New("run without a state store: a crash could not be told from a beginning")
	}
	if err := c.prime(); err != nil {
		return Summary{}, err
	}
	ctx, release, err := c.claim(ctx, plan)
	if err != nil {
		return Summary{}, err
	}
	defer release()
	r, err := c.begin(plan)
	if err != nil {
		return Summary{}, err
	}
	defer c.end(r)
	nodes, err := c.enlist(r, plan)
	if err != nil {
		return Summary{}, err
	}
	defer c.dismiss(nodes)
	return c.carryOut(ctx, r, plan, nodes)
}

// errClaimLost ends the work on nodes that another controller may claim now.
var errClaimLost = errors.New("the claim on the nodes was lost: the state was out of reach for too long, or this process was paused; another controller may go on with them")

// claimTimeout bounds the release of a claim at the end of a run.
const claimTimeout = 10 * time.Second

// claim takes the nodes of a plan for this controller among all that share its
// state. The context ends when the claim is lost.
func (c *Controller) claim(ctx context.Context, plan Plan) (working context.Context, release func(), err error) {
	worked := plan.worked()
	ids := make([]string, 0, len(worked))
	for _, n := range worked {
		ids = append(ids, n.node.ID())
	}
	claim, err := c.opts.Store.Claim(ctx, ids, "run "+plan.id)
	switch {
	case errors.Is(err, store.ErrClaimed):
		return nil, nil, fmt.Errorf("run %s: %w: %w", plan.Cluster, ErrBusy, err)
	case err != nil:
		return nil, nil, err
	}
	working, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-claim.Lost():
			cancel(errClaimLost)
		case <-working.Done():
		}
	}()
	return working, func() {
		cancel(nil)
		bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
		defer stop()
		if err := claim.Release(bounded); err != nil {
			c.opts.Log.Warn("the claim on the nodes of a run could not be released, and ends by itself", "run", plan.id, "error", err)
		}
	}, nil
}

// carryOut takes every node to its end. Without the store nothing may go on: the
// first node that finds it gone stops all.
func (c *Controller) carryOut(ctx context.Context, r *run, plan Plan, nodes []*node) (Summary, error) {
	work, working := errgroup.WithContext(ctx)
	for _, n := range nodes {
		work.Go(func() error { return n.live(working) })
	}
	if err := work.Wait(); err != nil {
		return Summary{}, err
	}
	summary := summarise(r.ID, plan, nodes)
	if ctx.Err() != nil {
		return summary, context.Cause(ctx)
	}
	left, err := c.leftBehind(r, nodes)
	if err != nil {
		return summary, err
	}
	if len(left) > 0 {
		c.opts.Log.Warn("the run is not over: an earlier process left nodes in the middle of it, which it was not to work on now", "run", r.ID, "cluster", r.Cluster, "nodes", left)
		return summary, nil
	}
	return summary, c.opts.Store.FinishRun(r.Run, time.Now())
}

// leftBehind are nodes that an earlier process of the run left where their power may
// have been touched, and that this one did not work on. They are lost to nobody as
// long as the run is unfinished (I8). Nodes that left the inventory do not count.
func (c *Controller) leftBehind(r *run, nodes []*node) ([]string, error) {
	records, err := c.opts.Store.Nodes(r.Cluster)
	if err != nil {
		return nil, err
	}
	ours, open := map[string]bool{}, map[string]bool{}
	for _, id := range r.Nodes {
		ours[id] = true
	}
	for _, record := range records {
		if record.Run == r.ID && ours[recordID(record)] && touched(record) {
			open[recordID(record)] = true
		}
	}
	for _, n := range nodes {
		delete(open, n.ID())
	}
	var left []string
	for _, n := range c.current().of(r.Cluster) {
		if open[n.ID()] && n.Install && !c.elsewhere(n) {
			left = append(left, n.Name)
		}
	}
	return left, nil
}

// begin makes the plan's run the one of its cluster.
func (c *Controller) begin(plan Plan) (*run, error) {
	c.mu.Lock()
	other := c.running[plan.Cluster]
	r := &run{maxFailures: plan.request.MaxFailures}
	if other == nil {
		c.running[plan.Cluster] = r
	}
	c.mu.Unlock()
	if other != nil {
		return nil, fmt.Errorf("run %s: %w: run %s goes on", plan.Cluster, ErrBusy, other.ID)
	}
	stored, _, err := c.opts.Store.BeginRun(plan.record())
	r.Run = stored
	if err != nil {
		c.end(r)
		return nil, err
	}
	return r, nil
}

func (c *Controller) end(r *run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for cluster, running := range c.running {
		if running == r {
			delete(c.running, cluster)
		}
	}
}

// enlist writes down what the plan decided for each node and makes the nodes
// known to the boot services, before any of them is touched.
func (c *Controller) enlist(r *run, plan Plan) ([]*node, error) {
	var (
		nodes []*node
		group errgroup.Group // the store gathers what is written at once into one fsync
	)
	for _, p := range plan.Nodes {
		if p.Action == ActionSkip {
			continue
		}
		n, err := c.newNode(r, p)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	r.size = len(nodes)
	c.placeByLeases(nodes)
	if err := c.enter(nodes...); err != nil {
		return nil, err
	}
	for i, p := range plan.worked() {
		group.Go(func() error { return nodes[i].begin(p) })
	}
	if err := group.Wait(); err != nil {
		c.dismiss(nodes)
		return nil, err
	}
	return nodes, nil
}

// placeByLeases finds out where DHCP put nodes that an earlier process was booting and
// that have no static address: they may have come up, and be waiting there (I8).
func (c *Controller) placeByLeases(nodes []*node) {
	var leases map[string]netip.Addr
	for _, n := range nodes {
		if c.opts.Leases == nil || !n.resumed || n.IP != "" || n.record.Address != "" {
			continue
		}
		if leases == nil {
			leases = c.opts.Leases()
		}
		for _, mac := range slices.Concat(n.MACs, n.record.Facts.MACs) {
			if ip, found := leases[identity.NormalizeMAC(mac)]; found {
				n.seen.source = ip
				break
			}
		}
	}
}

// enter makes nodes known to the boot services, all or none: a node is worked on by one run.
func (c *Controller) enter(nodes ...*node) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range nodes {
		if c.nodes[n.ID()] != nil {
			return fmt.Errorf("work on %s: %w", n.ID(), ErrBusy)
		}
	}
	for _, n := range nodes {
		c.nodes[n.ID()] = n
		delete(c.etcdWaits, n.ID())
	}
	return nil
}

// dismiss ends what the boot services do for nodes: they are armed no more (I3).
func (c *Controller) dismiss(nodes []*node) {
	c.mu.Lock()
	for _, n := range nodes {
		if c.nodes[n.ID()] == n {
			delete(c.nodes, n.ID())
		}
	}
	for source, n := range c.sources {
		if c.nodes[n.ID()] != n {
			delete(c.sources, source)
		}
	}
	c.mu.Unlock()
	c.refreshFleet()
}

// record is the plan's run as it is stored: all that a daemon needs to go on with it.
func (p Plan) record() store.Run {
	r := store.Run{
		ID: p.id, Cluster: p.Cluster, Site: p.site, Started: time.Now(),
		Daemon: p.request.Daemon, Until: string(p.request.Until), MaxFailures: p.request.MaxFailures.String(),
	}
	for _, n := range p.worked() {
		r.Nodes = append(r.Nodes, n.node.ID())
	}
	return r
}

// newRunID is sortable by time and short enough to say aloud.
func newRunID(now time.Time) string {
	return fmt.Sprintf("%s-%04x", now.UTC().Format("20060102T150405Z"), now.Nanosecond()&0xffff)
}
