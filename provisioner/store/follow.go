package store

import (
	"context"
	"time"
)

// News says how a follower hears of events that may be there.
type News struct {
	// Next is closed with the next event of this process; it is asked for before each look. nil hears of none.
	Next func() <-chan struct{}
	// Poll is how often the state is looked at for the events of others.
	Poll time.Duration
}

// Follow visits every event after a number, in order, and goes on with new ones
// until ctx ends or visit fails; it returns that error. The state is the stream: a
// visit may take its time, and holds up nobody else.
func (s *Store) Follow(ctx context.Context, after uint64, news News, visit func(seq uint64, e Event) error) error {
	for {
		var next <-chan struct{}
		if news.Next != nil {
			next = news.Next()
		}
		last, err := s.visitAfter(ctx, after, visit)
		if err != nil {
			return err
		}
		after = last
		timer := time.NewTimer(news.Poll)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-next:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// Replay is Follow to the end of what is written.
func (s *Store) Replay(ctx context.Context, after uint64, visit func(seq uint64, e Event) error) error {
	_, err := s.visitAfter(ctx, after, visit)
	return err
}

// visitAfter returns the number of the last event that was visited, or after.
func (s *Store) visitAfter(ctx context.Context, after uint64, visit func(seq uint64, e Event) error) (uint64, error) {
	var failed error
	err := s.EventsAfter(after, func(seq uint64, e Event) bool {
		if failed = ctx.Err(); failed == nil {
			failed = visit(seq, e)
		}
		if failed == nil {
			after = seq
		}
		return failed == nil
	})
	switch {
	case ctx.Err() != nil:
		return after, ctx.Err()
	case failed != nil:
		return after, failed
	}
	return after, err
}
