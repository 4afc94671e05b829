package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
)

// picture is the fleet at one moment, shared by all pages. It is not changed once made.
type picture struct {
	nodes      []nodeRow // by cluster and name
	clusters   []string
	runs       []web.RunInfo
	upgrades   []web.UpgradeInfo
	collisions []web.Collision
	unknown    []store.Unknown
	inventory  *web.InventoryInfo // nil while none is loaded
	health     []web.Check
}

// fleetCache keeps the newest picture, so that any number of viewers cost one.
type fleetCache struct {
	control Controller
	turn    chan struct{} // a token: who has it may use what follows
	last    *picture
	began   time.Time // when the last picture was begun
	until   time.Time // no other is made before
}

// freshness is for how long a picture serves; one that took long to make serves ten times as long.
const freshness = 400 * time.Millisecond

func newFleetCache(c Controller) *fleetCache {
	f := &fleetCache{control: c, turn: make(chan struct{}, 1)}
	f.turn <- struct{}{}
	return f
}

// get returns a picture that is fresh. Who has been told of something new gets one that
// was begun after that, and waits for as long as none may be made.
func (f *fleetCache) get(ctx context.Context) (*picture, error) {
	var since time.Time
	if s, live := ctx.Value(sinkKey{}).(*sink); live {
		since = s.since
	}
	for {
		p, pause, err := f.try(ctx, since)
		if err != nil || p != nil {
			return p, err
		}
		if !wait(ctx, pause) {
			return nil, ctx.Err()
		}
	}
}

// try returns a picture, or for how long to wait before the next may be made.
func (f *fleetCache) try(ctx context.Context, since time.Time) (*picture, time.Duration, error) {
	select {
	case <-f.turn:
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	defer func() { f.turn <- struct{}{} }()
	now := time.Now()
	if f.last != nil && now.Before(f.until) {
		if f.began.Before(since) {
			return nil, f.until.Sub(now), nil
		}
		return f.last, 0, nil
	}
	p, err := takePicture(ctx, f.control)
	if err != nil {
		return nil, 0, err
	}
	f.last, f.began, f.until = p, now, time.Now().Add(max(freshness, min(10*time.Since(now), 10*time.Second)))
	return p, 0, nil
}

// forget has the next picture made anew: somebody has just changed something.
func (f *fleetCache) forget() {
	<-f.turn
	f.last = nil
	f.turn <- struct{}{}
}

func takePicture(ctx context.Context, c Controller) (*picture, error) {
	p := &picture{health: c.Health(ctx)}
	fleet, err := c.Fleet(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("read the inventory's nodes: %w", err)
	}
	records, err := c.Nodes(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("read the nodes' states: %w", err)
	}
	holds, err := c.Holds(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the holds: %w", err)
	}
	for _, ask := range []func() error{
		func() (err error) { p.collisions, err = c.Collisions(ctx); return err },
		func() (err error) { p.unknown, err = c.Unknown(ctx); return err },
		func() (err error) { p.runs, err = c.Runs(ctx); return err },
		func() (err error) { p.upgrades, err = c.Upgrades(ctx); return err },
	} {
		if err := ask(); err != nil {
			return nil, fmt.Errorf("read what the daemon knows: %w", err)
		}
	}
	if info, err := c.Inventory(ctx); err == nil {
		p.inventory = &info
	}
	slices.SortStableFunc(p.unknown, func(a, b store.Unknown) int { return b.Seen.Compare(a.Seen) })
	p.nodes = joinNodes(fleet, records, holds, p.collisions)
	for _, n := range p.nodes {
		if len(p.clusters) == 0 || p.clusters[len(p.clusters)-1] != n.Cluster {
			p.clusters = append(p.clusters, n.Cluster)
		}
	}
	return p, nil
}

// nodeRow is a node as tables show it.
type nodeRow struct {
	Cluster, Node string
	Record        *store.Node        // nil when no run has worked on it
	Inventory     *web.InventoryNode // nil when it has left the inventory
	Hold          *store.Hold
	Frozen        bool // it cannot be told from others
	// Wide shows the cluster too.
	Wide bool
}

// ID is the node's name in the whole fleet.
func (n nodeRow) ID() string { return n.Cluster + "/" + n.Node }

// State is the node's last known state, noState when there is none.
func (n nodeRow) State() string {
	if n.Record == nil || n.Record.State == "" {
		return noState
	}
	return n.Record.State
}

// Message is what there is to say of it: why it failed, or what it does.
func (n nodeRow) Message() string {
	switch {
	case n.Record != nil && n.Record.Error != "":
		return n.Record.Error
	case n.Record != nil && n.Record.Message != "":
		return n.Record.Message
	case n.Record == nil && n.Inventory != nil && n.Inventory.Install:
		return "marked install: true; no run has worked on it"
	case n.Record == nil:
		return "no run has worked on it"
	}
	return ""
}

// Address is where it answers, else where it is to answer.
func (n nodeRow) Address() string {
	if n.Record != nil && n.Record.Address != "" {
		return n.Record.Address
	}
	if n.Inventory != nil {
		return n.Inventory.IP
	}
	return ""
}

// Since is when its state was entered; zero without a state.
func (n nodeRow) Since() time.Time {
	if n.Record == nil {
		return time.Time{}
	}
	return n.Record.Since
}

// Attempts is how often its run has power cycled it.
func (n nodeRow) Attempts() int {
	if n.Record == nil {
		return 0
	}
	return n.Record.Attempts
}

// joinNodes brings together what the inventory and the state say of each node.
func joinNodes(fleet []web.InventoryNode, records []store.Node, holds []store.Hold, collisions []web.Collision) []nodeRow {
	rows := make([]nodeRow, 0, len(fleet))
	at := make(map[string]int, len(fleet))
	find := func(cluster, node string) *nodeRow {
		id := cluster + "/" + node
		i, found := at[id]
		if !found {
			i = len(rows)
			at[id] = i
			rows = append(rows, nodeRow{Cluster: cluster, Node: node})
		}
		return &rows[i]
	}
	for i := range fleet {
		find(fleet[i].Cluster, fleet[i].Node).Inventory = &fleet[i]
	}
	for i := range records {
		find(records[i].Cluster, records[i].Name).Record = &records[i]
	}
	for i := range holds {
		find(holds[i].Cluster, holds[i].Node).Hold = &holds[i]
	}
	for _, c := range collisions {
		for _, id := range c.Frozen {
			if i, found := at[id]; found {
				rows[i].Frozen = true
			}
		}
	}
	slices.SortFunc(rows, func(a, b nodeRow) int {
		return cmp.Or(strings.Compare(a.Cluster, b.Cluster), strings.Compare(a.Node, b.Node))
	})
	return rows
}
