// Package upgrade takes the nodes of a cluster to another version of Talos, one
// after the other, without losing the quorum of etcd: a plan with every reason
// not to go, gates before and after each node, and a verdict from what the node
// itself shows. It needs no network of its own: it works on small interfaces.
package upgrade

import (
	"context"
	"sync"
)

// Runner upgrades one cluster.
type Runner struct {
	o Options

	run Run

	mu      sync.Mutex
	roles   map[string]string // of the nodes that there are, also when they do not answer
	touched map[string]bool   // nodes that are on their way
}

// New makes a runner. The error says what the options lack.
func New(o Options) (*Runner, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	return &Runner{o: o, roles: map[string]string{}, touched: map[string]bool{}}, nil
}

// RunID names a run that Run would begin; one that is carried on has its own.
func (r *Runner) RunID() string { return r.o.RunID }

// Plan looks at the cluster and says what Run would do. It changes nothing.
func (r *Runner) Plan(ctx context.Context) (Plan, error) {
	run, found, err := r.o.Store.Run(ctx, r.o.Cluster)
	if err != nil {
		return Plan{}, err
	}
	unfinished := found && run.Finished.IsZero()
	if unfinished {
		if _, err := r.recall(ctx, run); err != nil {
			return Plan{}, err
		}
	}
	plan, err := r.plan(ctx, "")
	if unfinished {
		plan.Continues = run.ID
	}
	return plan, err
}

// recall takes over what the store knows of the nodes of a run.
func (r *Runner) recall(ctx context.Context, run Run) ([]Record, error) {
	records, err := r.o.Store.Records(ctx, r.o.Cluster, run.ID)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, record := range records {
		r.roles[record.Node] = record.Role
		r.touched[record.Node] = record.touched()
	}
	return records, nil
}

// plan makes a plan of the cluster as it is. The nodes on their way are exempt
// from its checks, but for one that may be named.
func (r *Runner) plan(ctx context.Context, settling string) (Plan, error) {
	s, err := r.survey(ctx)
	if err != nil {
		return Plan{}, err
	}
	p := planner{Options: r.o, Survey: s, inFlight: map[string]bool{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, touched := range r.touched {
		p.inFlight[name] = touched && name != settling
	}
	return p.plan(), nil
}

// controlPlanes counts them.
func (r *Runner) controlPlanes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	count := 0
	for _, role := range r.roles {
		if role == ControlPlane {
			count++
		}
	}
	return count
}

func (r *Runner) setTouched(record Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.touched[record.Node] = record.touched()
}
