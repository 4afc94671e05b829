package provisioner

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner/store"
)

// lab is a world with controllers over one state file: one after the other, as a
// daemon that is killed and started again.
type lab struct {
	t     *testing.T
	w     *world
	path  string
	nodes []inventory.Node

	power   Power
	budgets Budgets
	site    string
	// onEvent and onRecord, if any, are called with each event, after it was stored, and in place of each write.
	onEvent  func(store.Event)
	onRecord func(write func() error, r store.Node) error

	mu     sync.Mutex
	state  *store.Store
	stop   context.CancelFunc
	alive  context.Context
	events []store.Event
}

// newLab makes a lab of these nodes, a good machine to each, without a controller.
func newLab(t *testing.T, seed uint64, nodes ...inventory.Node) *lab {
	t.Helper()
	l := &lab{
		t: t, w: newWorld(t.Context()), nodes: nodes, path: filepath.Join(stateDir(t), "state.db"),
		power:   Power{Parallel: 2, Window: 30 * time.Second},
		budgets: Budgets{Attempts: 3, MinRebootInterval: 5 * time.Minute, BootTimeout: 8 * time.Minute},
	}
	for i, n := range nodes {
		l.w.machines = append(l.w.machines, machineOf(n, i+1, seed))
	}
	return l
}

// stateDir is a folder in memory where the host has one: what is tested is not the disk.
func stateDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "provisioner-test-*")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// longest is how long a run can go on: whatever takes longer does not end.
const longest = 24 * time.Hour

// open starts a controller over the lab's state.
func (l *lab) open() *Controller {
	l.t.Helper()
	state, err := store.Open(l.path)
	if err != nil {
		l.t.Fatal(err)
	}
	c := l.controllerOver(state)
	l.mu.Lock()
	l.state = state
	l.alive, l.stop = context.WithTimeout(l.t.Context(), longest)
	l.mu.Unlock()
	l.w.mu.Lock()
	l.w.c = c
	l.w.mu.Unlock()
	return c
}

// controllerOver makes a controller of the present epoch.
func (l *lab) controllerOver(state *store.Store) *Controller {
	l.t.Helper()
	_, epoch := l.w.controller()
	c, err := New(Options{
		Inventory: Inventory{Nodes: l.nodes}, Dial: l.w.dialer(epoch), Prober: l.w, Store: state, Site: l.site,
		Power: l.power, Budgets: l.budgets, PollInterval: 5 * time.Second, Leases: l.w.leases,
		OnEvent: func(e store.Event) {
			if _, now := l.w.controller(); now == epoch {
				l.w.judge(e)
			}
			l.mu.Lock()
			l.events = append(l.events, e)
			l.mu.Unlock()
			if l.onEvent != nil {
				l.onEvent(e)
			}
		},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	if l.onRecord != nil {
		c.record = func(r store.Node, e store.Event) error {
			return l.onRecord(func() error { return state.Record(r, e) }, r)
		}
	}
	return c
}

// kill ends the controller as a kill -9 does: it writes nothing more, and no BMC
// hears of it again. Its goroutines end by themselves.
func (l *lab) kill() {
	l.w.mu.Lock()
	l.w.c = nil
	l.w.epoch++
	l.w.note(entry{what: didKill})
	l.w.mu.Unlock()
	l.mu.Lock()
	state, stop := l.state, l.stop
	l.state, l.stop = nil, nil
	l.mu.Unlock()
	if state == nil {
		return
	}
	if err := state.Close(); err != nil {
		l.t.Error(err)
	}
	stop()
}

// close ends the controller between two runs.
func (l *lab) close() {
	l.mu.Lock()
	state, stop := l.state, l.stop
	l.state, l.stop = nil, nil
	l.mu.Unlock()
	if state != nil {
		stop()
		if err := state.Close(); err != nil {
			l.t.Error(err)
		}
	}
}

// context ends when the present controller is killed.
func (l *lab) context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.alive == nil {
		return l.t.Context()
	}
	return l.alive
}

// request asks for every node of a cluster.
func (l *lab) request(cluster string) Request {
	r := Request{Cluster: cluster, Until: UntilMaintenance, Reinstall: map[string]bool{}}
	for _, n := range l.nodes {
		if n.Cluster == cluster {
			r.Selected = append(r.Selected, n)
		}
	}
	return r
}

// run plans and carries out.
func (l *lab) run(c *Controller, r Request) (Summary, error) {
	ctx := l.context()
	plan, err := c.Plan(ctx, r)
	if err != nil {
		return Summary{}, err
	}
	l.w.mu.Lock()
	l.w.runs[r.Cluster] = plan.RunID()
	l.w.mu.Unlock()
	return c.Run(ctx, plan)
}

// record is what the state file says of a node.
func (l *lab) record(id string) store.Node {
	l.t.Helper()
	cluster, name, err := cutNode(id)
	if err != nil {
		l.t.Fatal(err)
	}
	l.mu.Lock()
	state := l.state
	l.mu.Unlock()
	r, _, err := state.Node(cluster, name)
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

// deeds are what happened to a machine, of these kinds.
func (l *lab) deeds(id string, kinds ...deed) []entry {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	var list []entry
	for _, e := range l.w.log {
		for _, k := range kinds {
			if e.what == k && (id == "" || e.m != nil && e.m.name == id) {
				list = append(list, e)
			}
		}
	}
	return list
}

// check fails the test for what broke an invariant.
func (l *lab) check() {
	l.t.Helper()
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	for _, b := range l.w.breaches {
		l.t.Error(b)
	}
}

// names are the nodes of some records.
func names(records []store.Node) []string {
	list := make([]string, 0, len(records))
	for _, r := range records {
		list = append(list, r.Cluster+"/"+r.Name)
	}
	return list
}

// upNow has a machine come up in maintenance at once.
func (m *machine) upNow() { m.talos, m.ready, m.upSince = inMaintenance, true, time.Now() }
