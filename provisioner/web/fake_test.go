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

func someFleet() []web.InventoryNode {
	return []web.InventoryNode{{
		Cluster: "prod", Node: "node-01", File: "prod/node-01.yaml", Install: true, IP: "10.0.0.9", BMC: "10.0.0.1", TalosVersion: "v1.13.9",
		Arch: "amd64", Labels: map[string]string{"role": "worker"}, Facts: identity.Facts{Serial: "S1"},
	}}
}

func aDetail() web.NodeDetail {
	record, hold := aNode("node-01", "Ready"), aHold()
	return web.NodeDetail{
		Cluster: "prod", Node: "node-01", Inventory: &someFleet()[0], Record: &record, Hold: &hold, Conflict: "serial S1 is also node-02's",
		Boot: &store.Boot{
			Cluster: "prod", Node: "node-01", Time: moment, Source: "10.0.0.9", Facts: identity.Facts{Serial: "S1"}, Arch: "amd64", Platform: "efi",
			Manufacturer: "M", Product: "P", NICs: []string{"aa:bb:cc:dd:ee:ff"}, Kind: "install", Reason: "it is armed", Script: "#!ipxe\n",
		},
		Events: []web.Event{{Seq: 7, Event: store.Event{Time: moment, Run: "run-1", Cluster: "prod", Node: "node-01", State: "Ready", Previous: "Installed"}}},
	}
}

func someCollisions() []web.Collision {
	return []web.Collision{{Key: identity.KeySerial, Value: "S1", Nodes: []string{"prod/node-01", "prod/node-02"}, Frozen: []string{"prod/node-02"}}}
}

func someUpgrades() []web.UpgradeInfo {
	return []web.UpgradeInfo{{
		ID: "upgrade-1", Cluster: "prod", Target: "v1.13.9", Started: moment, Stopped: "node-02 failed",
		Nodes: []web.UpgradeNode{{Node: "node-02", Role: "worker", State: "Failed", From: "v1.12.0", Since: moment, Message: "m", Error: "e", Hint: "h"}},
	}}
}

func (f *fake) Fleet(ctx context.Context, cluster string) ([]web.InventoryNode, error) {
	return someFleet(), f.note(ctx, "fleet "+cluster)
}

func (f *fake) Detail(ctx context.Context, cluster, node string) (web.NodeDetail, error) {
	return aDetail(), f.note(ctx, "detail "+cluster+" "+node)
}

func (f *fake) Collisions(ctx context.Context) ([]web.Collision, error) {
	return someCollisions(), f.note(ctx, "collisions")
}

func (f *fake) Upgrades(ctx context.Context) ([]web.UpgradeInfo, error) {
	return someUpgrades(), f.note(ctx, "upgrades")
}

func anUpgradeRequest() web.UpgradeRequest {
	return web.UpgradeRequest{Cluster: "prod", Nodes: "node-[01-09]", To: "v1.13.9", MaxUnavailable: "25%", NoDrain: true, PullTimeout: "5m", Digest: "sha256:4711"}
}

func (f *fake) PlanUpgrade(ctx context.Context, r web.UpgradeRequest) (web.UpgradePlanAnswer, error) {
	return web.UpgradePlanAnswer{Digest: "sha256:4711", Plan: map[string]any{"cluster": "prod"}}, f.note(ctx, r)
}

func (f *fake) StartUpgrade(ctx context.Context, r web.UpgradeRequest) (web.UpgradeInfo, error) {
	return someUpgrades()[0], f.note(ctx, r)
}

func (f *fake) StopUpgrade(ctx context.Context, cluster string) error {
	return f.note(ctx, "stop upgrade "+cluster)
}

func (f *fake) AbandonUpgrade(ctx context.Context, cluster string) (web.UpgradeInfo, error) {
	return someUpgrades()[0], f.note(ctx, "abandon "+cluster)
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
