package assets

import (
	"context"
	"sync"
)

// flightKey separates callers that may fetch from those that only look, so that
// a caller who must not cause a fetch never joins one.
type flightKey struct {
	ref   Ref
	fetch bool
}

// flights lets callers share one piece of work for each key. Unlike
// golang.org/x/sync/singleflight it lets a caller leave early and ends the work
// when the last caller has left.
type flights struct {
	mu      sync.Mutex
	running map[flightKey]*flight
}

type flight struct {
	waiters int
	cancel  context.CancelFunc
	done    chan struct{}
	err     error // set before done is closed
}

// do runs work once for all callers that overlap, and waits for its end or for
// the end of ctx.
func (s *flights) do(ctx context.Context, key flightKey, work func(context.Context) error) error {
	f := s.join(ctx, key, work)
	select {
	case <-f.done:
		s.leave(key, f)
		return f.err
	case <-ctx.Done():
		s.leave(key, f)
		return context.Cause(ctx)
	}
}

func (s *flights) join(ctx context.Context, key flightKey, work func(context.Context) error) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, ok := s.running[key]; ok {
		f.waiters++
		return f
	}
	// The first caller's values (trace ids) go along, its cancellation does not:
	// others may be waiting by the time it gives up.
	workCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight{waiters: 1, cancel: cancel, done: make(chan struct{})}
	if s.running == nil {
		s.running = map[flightKey]*flight{}
	}
	s.running[key] = f
	go func() {
		f.err = work(workCtx)
		s.forget(key, f)
		close(f.done)
	}()
	return f
}

func (s *flights) leave(key flightKey, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.waiters--
	if f.waiters > 0 {
		return
	}
	// Forgotten at once: a caller that comes now starts afresh instead of
	// joining work that is being cancelled.
	f.cancel()
	if s.running[key] == f {
		delete(s.running, key)
	}
}

func (s *flights) forget(key flightKey, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[key] == f {
		delete(s.running, key)
	}
}
