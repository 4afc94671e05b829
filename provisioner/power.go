package provisioner

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Power bounds the power-ons of the fleet, because racks have breakers (I10).
type Power struct {
	// Parallel is how many nodes may be powered on in one Window (at least 1).
	Parallel int
	// Window is the time in which at most Parallel power-ons happen; 0 puts no limit.
	Window time.Duration
	// Jitter is the most that one power-on is put off at random, so that fans do not start in step.
	Jitter time.Duration
}

// PowerWindow admits at most limits.Parallel power-ons in any stretch of time
// as long as limits.Window. It counts what was admitted, so that a burst after
// a quiet time is no larger than a burst at any other.
type PowerWindow struct {
	limits Power

	mu     sync.Mutex
	recent []time.Time // admissions of the last Window, oldest first
}

// NewPowerWindow makes a window in which nothing was admitted yet.
func NewPowerWindow(limits Power) *PowerWindow {
	limits.Parallel = max(limits.Parallel, 1)
	return &PowerWindow{limits: limits}
}

// Wait blocks until one more power-on is allowed, and counts it.
func (w *PowerWindow) Wait(ctx context.Context) error {
	for {
		delay := w.admit(time.Now())
		if delay == 0 {
			break
		}
		if err := sleep(ctx, delay); err != nil {
			return err
		}
	}
	if w.limits.Jitter <= 0 {
		return nil
	}
	return sleep(ctx, rand.N(w.limits.Jitter)) //nolint:gosec // spreads load, protects nothing
}

// admit counts a power-on at now and returns 0, or returns how long to wait before asking again.
func (w *PowerWindow) admit(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	// An admission is put off by up to Jitter, so it stays counted for that much longer.
	span := w.limits.Window + w.limits.Jitter
	for len(w.recent) > 0 && now.Sub(w.recent[0]) >= span {
		w.recent = w.recent[1:]
	}
	if w.limits.Window > 0 && len(w.recent) >= w.limits.Parallel {
		return w.recent[0].Add(span).Sub(now)
	}
	w.recent = append(w.recent, now)
	return 0
}

// sleep waits for d, or until ctx ends and then returns its error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
