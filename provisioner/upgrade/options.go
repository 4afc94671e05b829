package upgrade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
)

// Options is what a run needs to know.
type Options struct {
	Cluster string
	// Target is the version that every node is to run.
	Target Version
	// Stops lets a run take several minor versions, one stop after the other.
	Stops bool
	// Releases are the versions of Talos that there are; without any, KnownReleases are taken.
	Releases []Version
	// Registry is where installers are pulled from; "" is DefaultRegistry.
	Registry string
	// API forces a way of upgrading; "" chooses by node.
	API API
	// APIHost is the node's address that our way to the Kubernetes API leads to; "" when it is no node's.
	APIHost string
	// KubernetesVersion is taken where no Kubernetes API tells it.
	KubernetesVersion string

	// MaxUnavailable is how many workers may be away at the same time; the zero Share is one.
	MaxUnavailable Share
	// Canary names the nodes that go first, one after the other.
	Canary []string
	// OrderLabel is the label by whose value nodes are ordered.
	OrderLabel string
	// Exclude names nodes that are left out.
	Exclude []string

	// NoDrain goes without cordon and drain, and without the Kubernetes API.
	NoDrain bool
	// SingleNode accepts that the cluster is away while its only control plane reboots.
	SingleNode bool
	// NoHealth goes without the server-side health check.
	NoHealth bool
	// PowerCycle reboots nodes through their firmware rather than by kexec.
	PowerCycle bool
	// BMCRescue allows one power cycle by the BMC of a node that did not come back.
	BMCRescue bool
	// Continue carries on the unfinished run.
	Continue bool

	// MaxRaftLag is how many entries an etcd member may be behind; 0 means 1000.
	MaxRaftLag uint64
	// Parallel bounds how many nodes are asked at the same time; 0 means 16.
	Parallel int
	Timeouts Timeouts

	// Members lists the nodes of the cluster. It is asked again during the run: nodes come and go.
	Members func(context.Context) ([]Member, error)
	Talos   Talos
	// Kubernetes may be nil with NoDrain.
	Kubernetes Kubernetes
	// NetBoot, when set, boots each node into the target over the network before it installs it.
	NetBoot NetBoot
	// BMC may be nil.
	BMC   BMC
	Store Store
	// Locks keep off the controllers that have other stores.
	Locks []Locker
	// Holder names this controller to the others.
	Holder string
	// RunID names a new run.
	RunID string
	// Publish gets each event after it was written; it may be nil. Nodes of one batch call it
	// at the same time, and Line too.
	Publish func(store.Event)
	// Line gets each line of a pull, a drain and an installer as it comes, by node; it may be
	// nil. Nothing of it is stored but the installer's last lines.
	Line func(node, line string)
	Log  *slog.Logger
}

// Timeouts bounds each phase. Zero values take the defaults that are named.
type Timeouts struct {
	Gate    time.Duration // until the cluster is fit for the next batch: 10 min
	Pull    time.Duration // of one installer's image: 15 min
	Drain   time.Duration // of one node: 5 min
	Install time.Duration // until the installer ends: 15 min
	Reboot  time.Duration // from the order to a new boot ID: 20 min; servers take long in their firmware
	Verify  time.Duration // from the new boot ID until the node is as it should be: 10 min
	Call    time.Duration // of one look at a node: 15 s
	Poll    time.Duration // between two looks: 5 s
	// Grace is how long a reboot that may have been ordered gets to show, before it is ordered again: 90 s.
	Grace time.Duration
	// Stable is how many looks in a row must tell the same: 3.
	Stable int
}

const (
	defaultRaftLag  = 1000
	defaultParallel = 16
)

func (t Timeouts) orDefaults() Timeouts {
	t.Gate = cmp.Or(t.Gate, 10*time.Minute)
	t.Pull = cmp.Or(t.Pull, 15*time.Minute)
	t.Drain = cmp.Or(t.Drain, 5*time.Minute)
	t.Install = cmp.Or(t.Install, 15*time.Minute)
	t.Reboot = cmp.Or(t.Reboot, 20*time.Minute)
	t.Verify = cmp.Or(t.Verify, 10*time.Minute)
	t.Call = cmp.Or(t.Call, 15*time.Second)
	t.Poll = cmp.Or(t.Poll, 5*time.Second)
	t.Grace = cmp.Or(t.Grace, 90*time.Second)
	t.Stable = cmp.Or(t.Stable, 3)
	return t
}

// complete checks the options and fills in defaults.
func (o Options) complete() (Options, error) {
	var missing []string
	for _, need := range []struct {
		what string
		have bool
	}{
		{"Cluster", o.Cluster != ""}, {"Target", o.Target != Version{}}, {"Members", o.Members != nil},
		{"Talos", o.Talos != nil}, {"Store", o.Store != nil}, {"Kubernetes or NoDrain", o.Kubernetes != nil || o.NoDrain},
	} {
		if !need.have {
			missing = append(missing, need.what)
		}
	}
	if len(missing) > 0 {
		return Options{}, errors.New("an upgrade needs " + strings.Join(missing, ", "))
	}
	return o.orDefaults(), nil
}

func (o Options) orDefaults() Options {
	o.Registry = cmp.Or(o.Registry, DefaultRegistry)
	o.MaxRaftLag = cmp.Or(o.MaxRaftLag, defaultRaftLag)
	o.Parallel = cmp.Or(o.Parallel, defaultParallel)
	o.Timeouts = o.Timeouts.orDefaults()
	if o.Publish == nil {
		o.Publish = func(store.Event) {}
	}
	if o.Line == nil {
		o.Line = func(string, string) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Share is a number of nodes, or a part of them in percent.
type Share struct {
	Count, Percent int
}

// ParseShare reads "3" or "25%".
func ParseShare(s string) (Share, error) {
	number, percent := strings.CutSuffix(s, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || percent && n > 100 {
		return Share{}, fmt.Errorf("--max-unavailable %q: write a number of nodes like 2, or a part of them like 25%%", s)
	}
	if percent {
		return Share{Percent: n}, nil
	}
	return Share{Count: n}, nil
}

// Of is how many of total nodes the share is: never less than one, rounded down.
func (s Share) Of(total int) int {
	if s.Percent > 0 {
		return max(total*s.Percent/100, 1)
	}
	return max(s.Count, 1)
}
