package web_test

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
)

// moment is when everything happened, as JSON gives it back.
var moment = time.Date(2026, 3, 4, 5, 6, 7, 89, time.UTC)

// fake is a daemon that does nothing but remember what it was asked.
type fake struct {
	mu      sync.Mutex
	asked   []any    // in order
	callers []string // of each
	events  []store.Event
	grown   chan struct{} // closed at the next event

	fail    error // of every call, when it is set
	checks  []web.Check
	backups func(io.Writer) error
	runs    func() ([]web.RunInfo, error)
	block   chan struct{} // Plan waits for it to be closed, when it is set

	streaming atomic.Int64 // calls of Events that have not returned
	searches  atomic.Int64 // calls of Events
	planning  atomic.Int64 // calls of Plan that have not returned
}

func newFake() *fake {
	return &fake{grown: make(chan struct{}), checks: []web.Check{{Name: "state", OK: true, Vital: true, What: "reachable"}, {Name: "leader", OK: true, What: "leads site berlin"}}}
}

func (f *fake) note(ctx context.Context, what any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, what)
	f.callers = append(f.callers, web.Caller(ctx))
	return f.fail
}

// last is what was asked last, and for whom.
func (f *fake) last() (what any, by string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.asked) == 0 {
		return nil, ""
	}
	return f.asked[len(f.asked)-1], f.callers[len(f.callers)-1]
}

func aPlan() web.PlanAnswer {
	return web.PlanAnswer{Digest: "sha256:4711", Plan: provisioner.Plan{Cluster: "prod", Resumes: "run-0", Nodes: []provisioner.PlanNode{{
		Cluster: "prod", Node: "node-01", Action: provisioner.ActionHold, Until: provisioner.UntilReady, Reason: "a configured Talos answers",
		Hint: "name it", Cause: provisioner.CauseConfigured, BMC: "10.0.0.1", Power: "On", IdentifiedBy: identity.KeySerial,
		Facts: identity.Facts{Serial: "S1", MACs: []string{"00:11:22:33:44:55"}}, KernelArgs: `ip=10.0.0.9::10.0.0.1 a="<&>"`,
	}}}}
}

func aNode(name, state string) store.Node {
	return store.Node{
		Cluster: "prod", Name: name, Run: "run-1", State: state, Since: moment, Message: "m", Attempts: 2, LastPowerOn: moment,
		Progress: &store.Progress{File: "vmlinuz", Bytes: 1, Total: 1 << 40}, Facts: identity.Facts{UUID: "u"},
	}
}

func someRuns() []web.RunInfo {
	return []web.RunInfo{
		{ID: "run-2", Cluster: "prod", Started: moment, By: "token", After: 1 << 60, Nodes: 2, States: map[string]int{"Booting": 2}},
		{ID: "run-1", Cluster: "prod", Started: moment, Finished: moment.Add(time.Hour), Nodes: 3, Error: "interrupted", Summary: &web.RunSummary{
			Run: "run-1", Done: []store.Node{aNode("node-01", "Ready")}, Failed: []store.Node{aNode("node-02", "Failed")}, Held: []store.Node{},
			Unfinished: []store.Node{}, Skipped: aPlan().Plan.Nodes,
		}},
	}
}

func someUnknown() []store.Unknown {
	return []store.Unknown{{Seen: moment, Times: 3, Source: "10.0.0.77", Facts: identity.Facts{Serial: "?"}, NICs: []string{"aa:bb:cc:dd:ee:ff"}, Reason: "nobody's"}}
}

func anInventory() web.InventoryInfo {
	return web.InventoryInfo{
		Source: "https://git.example/fleet", Generation: "g1", Loaded: moment, Clusters: 1, Nodes: 10, Install: 8,
		Commit: &web.Commit{Hash: "h", Author: "a", Subject: "s", Time: moment, VerifiedBy: "k"},
		Refused: &web.Refusal{Generation: "g2", Time: moment, Error: "invalid", Findings: []inventory.Finding{
			{Severity: inventory.Warning, Rule: "r", File: "nodes/a.yaml", Line: 3, Column: 1, Field: "bmc.address", Message: "m", Hint: "h"},
		}},
	}
}

func aHold() store.Hold {
	return store.Hold{Cluster: "prod", Node: "node-01", Reason: "disk is on order", By: "uid 0", Since: moment}
}

func (f *fake) Plan(ctx context.Context, r web.RunRequest) (web.PlanAnswer, error) {
	f.planning.Add(1)
	defer f.planning.Add(-1)
	if f.block != nil {
		select {
		case <-f.block:
		case <-ctx.Done():
			return web.PlanAnswer{}, ctx.Err()
		}
	}
	return aPlan(), f.note(ctx, r)
}

func (f *fake) Start(ctx context.Context, r web.RunRequest) (web.RunInfo, error) {
	return someRuns()[0], f.note(ctx, r)
}

func (f *fake) Runs(ctx context.Context) ([]web.RunInfo, error) {
	if f.runs != nil {
		return f.runs()
	}
	return someRuns(), f.note(ctx, "runs")
}

func (f *fake) Stop(ctx context.Context, cluster string) error { return f.note(ctx, "stop "+cluster) }

func (f *fake) Nodes(ctx context.Context, cluster string) ([]store.Node, error) {
	if cluster == "empty" {
		return nil, nil
	}
	return []store.Node{aNode("node-01", "Ready")}, f.note(ctx, "nodes "+cluster)
}

func (f *fake) Unknown(ctx context.Context) ([]store.Unknown, error) {
	return someUnknown(), f.note(ctx, "unknown")
}

func (f *fake) Holds(ctx context.Context) ([]store.Hold, error) {
	return []store.Hold{aHold()}, f.note(ctx, "holds")
}

func (f *fake) Hold(ctx context.Context, h store.Hold) error { return f.note(ctx, h) }

func (f *fake) Release(ctx context.Context, cluster, node string) error {
	return f.note(ctx, "release "+cluster+" "+node)
}

func (f *fake) Inventory(ctx context.Context) (web.InventoryInfo, error) {
	return anInventory(), f.note(ctx, "inventory")
}

func (f *fake) Reload(ctx context.Context) error { return f.note(ctx, "reload") }

func (f *fake) Backup(ctx context.Context, w io.Writer) error {
	if f.backups != nil {
		return f.backups(w)
	}
	_, err := io.WriteString(w, "the state")
	if err != nil {
		return err
	}
	return f.note(ctx, "backup")
}

func (f *fake) Health(context.Context) []web.Check { return f.checks }

// record adds an event; nobody who reads them can hold it up.
func (f *fake) record(e store.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, e)
	close(f.grown)
	f.grown = make(chan struct{})
}

func (f *fake) Events(ctx context.Context, after uint64, follow bool, visit func(uint64, store.Event) error) error {
	f.searches.Add(1)
	f.streaming.Add(1)
	defer f.streaming.Add(-1)
	for next := after; ; {
		f.mu.Lock()
		var fresh []store.Event
		if next < uint64(len(f.events)) {
			fresh = f.events[next:]
		}
		grown, fail := f.grown, f.fail
		f.mu.Unlock()
		for _, e := range fresh {
			next++
			if err := visit(next, e); err != nil {
				return err
			}
		}
		switch {
		case fail != nil:
			return fail
		case len(fresh) > 0:
			continue
		case !follow:
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
