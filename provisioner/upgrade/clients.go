package upgrade

import (
	"context"
	"errors"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/talos"
)

// Talos is what is asked of nodes, each over a connection of its own straight to
// the node. talos.Admin is one; a caller that confirms machines has one that takes
// another Admin for each host. Errors tell by the kinds of that package.
type Talos interface {
	// Inspect tells all that a node says of itself; what stands in the way is in its Err.
	Inspect(ctx context.Context, host string) talos.Running
	Details(ctx context.Context, host string) (talos.Details, error)

	EtcdMembers(ctx context.Context, host string) ([]talos.Member, error)
	EtcdStatus(ctx context.Context, host string) (talos.MemberStatus, error)
	EtcdAlarms(ctx context.Context, host string) ([]talos.Alarm, error)
	ForfeitLeadership(ctx context.Context, host string) (string, error)
	Health(ctx context.Context, host string, request talos.HealthRequest, progress func(string)) error

	// An ErrNotSupported of Pull is no failure: the node pulls the image when it upgrades.
	Pull(ctx context.Context, host, image string, progress func(string)) error
	// Upgrade is always asked for one API. Lines come from the goroutine that called.
	Upgrade(ctx context.Context, host string, request talos.UpgradeRequest) (talos.UpgradeResult, error)
	Reboot(ctx context.Context, host string, mode talos.RebootMode) error
}

// Kubernetes is what is asked of the cluster's Kubernetes API.
type Kubernetes interface {
	// Version is that of the API server, such as v1.36.3.
	Version(ctx context.Context) (string, error)
	// Nodes are all Node objects.
	Nodes(ctx context.Context) ([]KubernetesNode, error)
	// Budgets says by node which pods cannot be evicted now, and why: a PodDisruptionBudget, or no controller.
	Budgets(ctx context.Context) (map[string][]string, error)
	// Cordon makes the node unschedulable and marks it as ours, with the run and why. A node that somebody
	// else cordoned is left alone, and ours is false. Cordoning again changes run and reason only.
	Cordon(ctx context.Context, node, run, reason string) (ours bool, err error)
	// Drain evicts the pods of a node, as the budgets allow, within a time.
	Drain(ctx context.Context, node string, timeout time.Duration, progress func(string)) error
	// Uncordon takes our own mark and the cordon off; a node that has no mark of ours is left alone.
	Uncordon(ctx context.Context, node string) error
}

// KubernetesNode is a Node object.
type KubernetesNode struct {
	Name      string
	Addresses []string
	// Kubelet is its version, such as v1.36.3.
	Kubelet string
	Ready   bool
	// Unschedulable: it is cordoned; Ours: by us.
	Unschedulable, Ours bool
}

// BMC is asked about a machine that did not come back.
type BMC interface {
	// PowerState is such as "On" or "Off".
	PowerState(ctx context.Context, node string) (string, error)
	// PowerCycle switches the machine off and on again.
	PowerCycle(ctx context.Context, node string) error
}

// ErrLocked is returned by a Locker when another controller has the cluster.
var ErrLocked = errors.New("another upgrade of this cluster is running")

// Locker keeps other controllers off a cluster. Its lock ends with the process
// that holds it, however that ends, or soon after.
type Locker interface {
	// Lock returns what lets go of the cluster, or an ErrLocked that says who has it.
	Lock(ctx context.Context, cluster, holder string) (release func(context.Context) error, err error)
}

// Store keeps what must survive the controller. What a method wrote is on the
// disk when it returns.
type Store interface {
	Locker
	// Run returns the cluster's newest run; false when there is none.
	Run(ctx context.Context, cluster string) (Run, bool, error)
	// SaveRun writes a run.
	SaveRun(ctx context.Context, run Run) error
	// Records returns the nodes of a run.
	Records(ctx context.Context, cluster, run string) ([]Record, error)
	// Record writes a node's record together with the event that tells of it: both or neither.
	Record(ctx context.Context, record Record, event store.Event) error
}
