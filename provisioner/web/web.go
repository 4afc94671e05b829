// Package web is the admin plane: a versioned JSON API over a unix socket and
// over TCP, and the client that the command line uses for both.
//
// The socket is its owner's alone and needs no token. TCP needs a token or a
// client certificate, and TLS as soon as it leaves the host. Everything is under
// Prefix but /healthz, /readyz and /metrics. The server knows the daemon by the
// Controller interface only.
package web

import (
	"context"
	"io"

	"github.com/talos-provision/provision/provisioner/store"
)

// Prefix is what the path of every call of this version begins with.
const Prefix = "/api/v1"

// Controller is what the server needs of the daemon. Every method is called by
// several goroutines at once, and Caller(ctx) says for whom. An *Error decides
// what the caller is told; any other error is an internal one, and its text is
// shown: it holds no secret (I9).
type Controller interface {
	// Plan says what a run would do. It touches nothing.
	Plan(ctx context.Context, r RunRequest) (PlanAnswer, error)
	// Start begins the run whose plan has r.Digest and returns at once; the run outlives ctx.
	// PlanChanged refuses when the plan is another one by now, Busy when other runs have the nodes.
	Start(ctx context.Context, r RunRequest) (RunInfo, error)
	// Runs are the runs that are known, the newest first.
	Runs(ctx context.Context) ([]RunInfo, error)
	// Stop interrupts the runs of a cluster, which can be carried on later. ErrNotFound says that it has none.
	Stop(ctx context.Context, cluster string) error
	// Nodes are the last known states of a cluster's nodes, of all nodes with an empty name.
	Nodes(ctx context.Context, cluster string) ([]store.Node, error)
	// Fleet are the nodes of the inventory in use, of one cluster or of all with an empty name.
	Fleet(ctx context.Context, cluster string) ([]InventoryNode, error)
	// Detail is all that is known of a node. ErrNotFound says that neither the inventory nor the state has it.
	Detail(ctx context.Context, cluster, node string) (NodeDetail, error)
	// Collisions are the values that several nodes show, the strongest key first.
	Collisions(ctx context.Context) ([]Collision, error)
	// Upgrades are the newest rolling upgrade of every cluster that had one.
	Upgrades(ctx context.Context) ([]UpgradeInfo, error)
	// PlanUpgrade says what a rolling upgrade would do. It changes nothing.
	PlanUpgrade(ctx context.Context, r UpgradeRequest) (UpgradePlanAnswer, error)
	// StartUpgrade begins the upgrade whose plan has r.Digest; it outlives ctx. ErrPlanChanged says that the plan
	// is another one by now.
	StartUpgrade(ctx context.Context, r UpgradeRequest) (UpgradeInfo, error)
	// StopUpgrade interrupts the upgrade of a cluster, which can be carried on later. ErrNotFound says that it has none.
	StopUpgrade(ctx context.Context, cluster string) error
	// AbandonUpgrade ends an unfinished upgrade without going on with it.
	AbandonUpgrade(ctx context.Context, cluster string) (UpgradeInfo, error)
	// Unknown are the machines that asked for a boot script and are no node of the inventory.
	Unknown(ctx context.Context) ([]store.Unknown, error)
	// Events visits every event after that number, in order, and returns at the end of what is
	// written; with follow it goes on with new ones until ctx ends. visit may block for as long as
	// its reader is slow, and fails when the reader is gone: no run may wait for it.
	Events(ctx context.Context, after uint64, follow bool, visit func(seq uint64, e store.Event) error) error
	// Holds are the nodes that no run may touch.
	Holds(ctx context.Context) ([]store.Hold, error)
	// Hold keeps runs off a node. By and Since are set.
	Hold(ctx context.Context, h store.Hold) error
	// Release ends a hold. ErrNotFound says that there is none.
	Release(ctx context.Context, cluster, node string) error
	// Inventory says which generation of the inventory is in use, and which was refused.
	Inventory(ctx context.Context) (InventoryInfo, error)
	// Reload asks for a look at the inventory now.
	Reload(ctx context.Context) error
	// Backup writes a consistent copy of the state.
	Backup(ctx context.Context, w io.Writer) error
	// Health says what works and what does not. It must be quick: load balancers ask often.
	Health(ctx context.Context) []Check
}
