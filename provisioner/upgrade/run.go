package upgrade

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Run upgrades the cluster. It ends with nil when every node that was to be
// upgraded runs the target. It may be killed at any moment: with Continue it goes
// on where it stopped. While it runs, no other run of the cluster begins.
func (r *Runner) Run(ctx context.Context) (result Result, err error) {
	for _, locker := range append([]Locker{r.o.Store}, r.o.Locks...) {
		release, err := locker.Lock(ctx, r.o.Cluster, r.o.Holder)
		if err != nil {
			return Result{Cluster: r.o.Cluster, Target: r.o.Target}, fmt.Errorf("upgrade %s: %w", r.o.Cluster, err)
		}
		defer func() {
			if err := release(context.WithoutCancel(ctx)); err != nil {
				r.o.Log.Warn("cannot let go of the cluster", "cluster", r.o.Cluster, "error", err)
			}
		}()
	}
	records, err := r.begin(ctx)
	if err != nil {
		return Result{Cluster: r.o.Cluster, Target: r.o.Target}, err
	}
	w := work{Runner: r, nodes: map[string]*node{}, pulled: map[string]bool{}}
	for _, record := range records {
		w.nodes[record.Node] = &node{r: r, record: record, resumed: true}
	}
	findings, err := w.all(ctx)
	result = Result{
		Run: r.run.ID, Cluster: r.o.Cluster, Target: r.o.Target,
		Nodes: w.records(), Findings: findings, Complete: err == nil,
	}
	return result, errors.Join(err, r.end(ctx, err))
}

// begin finds the run to carry on, or makes one. It is written when the first
// node is touched: a run that never began leaves nothing behind.
func (r *Runner) begin(ctx context.Context) ([]Record, error) {
	run, found, err := r.o.Store.Run(ctx, r.o.Cluster)
	unfinished := found && run.Finished.IsZero()
	switch {
	case err != nil:
		return nil, err
	case unfinished && !r.o.Continue:
		return nil, fmt.Errorf("upgrade %s: %w: run %s to %s stopped (%s); carry it on with --continue", r.o.Cluster, ErrUnfinished, run.ID, run.Target, run.Stopped)
	case unfinished && run.Target != r.o.Target:
		return nil, fmt.Errorf("upgrade %s: %w: run %s goes to %s, and not to %s; bring it to its end first", r.o.Cluster, ErrUnfinished, run.ID, run.Target, r.o.Target)
	case !unfinished && r.o.Continue:
		return nil, fmt.Errorf("upgrade %s: %w; begin one without --continue", r.o.Cluster, ErrNothingToContinue)
	case !unfinished:
		r.run = Run{ID: r.o.RunID, Cluster: r.o.Cluster, Target: r.o.Target, Started: time.Now().UTC()}
		return nil, nil
	}
	r.run = run
	return r.recall(ctx, run)
}

// end writes down how the run ended, if it began.
func (r *Runner) end(ctx context.Context, err error) error {
	ctx = context.WithoutCancel(ctx)
	run, found, storeErr := r.o.Store.Run(ctx, r.o.Cluster)
	if storeErr != nil || !found || run.ID != r.run.ID {
		return storeErr
	}
	run.Stopped = ""
	if err == nil || errors.Is(err, ErrHeld) {
		run.Finished = time.Now().UTC()
	} else {
		run.Stopped = err.Error()
	}
	return r.o.Store.SaveRun(ctx, run)
}
