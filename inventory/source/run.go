package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// maxUnsettled is how often a look is put off because the files change.
const maxUnsettled = 10

// Run watches until the context ends, and gives nil then. It looks at once, so
// that what changed since Load is not missed.
func (s *Source) Run(ctx context.Context) error {
	if !s.running.CompareAndSwap(false, true) {
		return fmt.Errorf("watch %s: it is watched already: call Run once", s.name)
	}
	defer s.running.Store(false)
	pokes := make(chan struct{}, 1)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return s.origin.watch(ctx, func() {
			select {
			case pokes <- struct{}{}:
			default:
			}
		})
	})
	group.Go(func() error {
		s.loop(ctx, pokes)
		return nil
	})
	return group.Wait()
}

// loop is what wakes up: the clock, a change that has settled, or Reload.
func (s *Source) loop(ctx context.Context, pokes <-chan struct{}) {
	quiet, longest := s.origin.settle()
	r := runner{Source: s}
	timer := time.NewTimer(0)
	defer timer.Stop()
	var first time.Time // of the changes that are not looked at yet
	again := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.reload:
			again = true
			timer.Reset(0)
		case <-pokes:
			now := time.Now()
			if first.IsZero() {
				first = now
			}
			timer.Reset(min(quiet, first.Add(longest).Sub(now)))
		case <-timer.C:
			first = time.Time{}
			wait := r.step(ctx, again)
			again = false
			s.mu.Lock()
			s.status.Next = time.Now().Add(wait)
			s.mu.Unlock()
			timer.Reset(wait)
		}
	}
}

// runner is what Run remembers.
type runner struct {
	*Source
	told      *Refusal
	unsettled int
}

// step looks once, tells what came of it, and gives the wait for the next look.
func (r *runner) step(ctx context.Context, again bool) time.Duration {
	generation, refusal := r.look(ctx, again)
	if ctx.Err() != nil {
		return r.origin.delay(0) // a look that was cut short says nothing
	}
	if refusal != nil && errors.Is(refusal, errUnsettled) && r.unsettled < maxUnsettled {
		r.unsettled++
		quiet, _ := r.origin.settle()
		return quiet
	}
	r.unsettled = 0
	switch {
	case generation != nil:
		r.told = nil
		r.options.Log.Info("a new generation of the inventory", "source", r.name, "generation", generation.ID, "nodes", len(generation.Tree.Nodes), "warnings", len(generation.Warnings))
		r.options.OnGeneration(*generation)
	case refusal == nil:
		r.told = nil
	case r.told == nil || !r.told.same(refusal):
		r.told = refusal
		r.options.Log.Warn("the newest inventory is refused, the last good one goes on", "source", r.name, "generation", refusal.ID, "reason", refusal.Reason, "error", refusal.Err)
		r.options.OnRefusal(*refusal)
	}
	if refusal == nil || refusal.Reason != Unreachable {
		return r.origin.delay(0) // what corrects it must not be kept waiting
	}
	return r.origin.delay(r.Status().Failures)
}
