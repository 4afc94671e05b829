package upgrade

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The errors of Run that a caller acts on; found with errors.Is.
var (
	// ErrUnfinished: an earlier run was not brought to its end. Nothing was done.
	ErrUnfinished = errors.New("an upgrade of this cluster is unfinished")
	// ErrNothingToContinue: there is no unfinished run. Nothing was done.
	ErrNothingToContinue = errors.New("there is no unfinished upgrade of this cluster")
	// ErrParked: the cluster was not fit to begin, or to go on. No node is on its way.
	ErrParked = errors.New("the upgrade does not go on")
	// ErrFailed: a node failed; no other was begun after that.
	ErrFailed = errors.New("a node failed to upgrade")
	// ErrHeld: every other node runs the target, and some were held.
	ErrHeld = errors.New("nodes were held")
)

// Result is how a run ended. Its JSON is stable.
type Result struct {
	Run     string  `json:"run"`
	Cluster string  `json:"cluster"`
	Target  Version `json:"target"`
	// Complete: every node that was to be upgraded runs the target.
	Complete bool `json:"complete"`
	// Nodes are those that the run knows of.
	Nodes []Record `json:"nodes"`
	// Findings are why it did not begin, or go on.
	Findings []Finding `json:"findings,omitempty"`
}

// Cordoned are the nodes that this run has left cordoned.
func (r Result) Cordoned() []string {
	var names []string
	for _, n := range r.Nodes {
		if n.Cordoned {
			names = append(names, n.Node)
		}
	}
	return names
}

// Abandon ends the unfinished run of the cluster without going on with it. The
// nodes of the result that are cordoned stay so: see Result.Cordoned.
func (r *Runner) Abandon(ctx context.Context) (Result, error) {
	result := Result{Cluster: r.o.Cluster}
	release, err := r.o.Store.Lock(ctx, r.o.Cluster, r.o.Holder)
	if err != nil {
		return result, fmt.Errorf("abandon the upgrade of %s: %w", r.o.Cluster, err)
	}
	defer func() { _ = release(context.WithoutCancel(ctx)) }()
	run, found, err := r.o.Store.Run(ctx, r.o.Cluster)
	switch {
	case err != nil:
		return result, err
	case !found || !run.Finished.IsZero():
		return result, fmt.Errorf("abandon the upgrade of %s: %w", r.o.Cluster, ErrNothingToContinue)
	}
	result.Run, result.Target = run.ID, run.Target
	if result.Nodes, err = r.o.Store.Records(ctx, r.o.Cluster, run.ID); err != nil {
		return result, err
	}
	run.Finished, run.Stopped = time.Now().UTC(), "abandoned"
	return result, r.o.Store.SaveRun(ctx, run)
}
