package provisioner

import (
	"container/list"
	"context"
	"math/rand/v2"
	"slices"
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
	// PerChassis and PerRack bound the power-ons in one Window among the nodes of one chassis, and among those
	// with the same value of RackLabel; 0 puts no limit.
	PerChassis, PerRack int
	RackLabel           string
}

// steady are the same limits without jitter.
func (p Power) steady() Power {
	p.Jitter = 0
	return p
}

// PowerGroup is a set of nodes of which at most Limit are powered on in one window.
type PowerGroup struct {
	Name  string
	Limit int
}

// PowerWindow admits at most limits.Parallel power-ons in any stretch of time
// as long as limits.Window, and of each group no more than its limit. Who waits
// longest goes first, unless one of its groups is full. It counts what was
// admitted, so that a burst after a quiet time is no larger than a burst at any
// other.
type PowerWindow struct {
	mu      sync.Mutex
	limits  Power
	recent  []time.Time            // admissions of the last span, oldest first
	grouped map[string][]time.Time // the same by group
	waiting *list.List             // of *powerTurn, in the order in which they came
	wakeup  *time.Timer            // when the next admission may be possible; nil when nobody waits
}

// powerTurn is one node that waits for its place.
type powerTurn struct {
	groups   []PowerGroup
	admitted chan struct{}
}

// NewPowerWindow makes a window in which nothing was admitted yet.
func NewPowerWindow(limits Power) *PowerWindow {
	limits.Parallel = max(limits.Parallel, 1)
	return &PowerWindow{limits: limits, grouped: map[string][]time.Time{}, waiting: list.New()}
}

// SetLimits puts other limits in the place of the present ones, for those who
// wait already too. Their groups stay as they were asked for.
func (w *PowerWindow) SetLimits(limits Power) {
	limits.Parallel = max(limits.Parallel, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limits = limits
	w.admit(time.Now())
}

// Wait blocks until one more power-on is allowed in each of the groups, and counts it.
func (w *PowerWindow) Wait(ctx context.Context, groups ...PowerGroup) error {
	turn := &powerTurn{groups: groups, admitted: make(chan struct{})}
	w.mu.Lock()
	place := w.waiting.PushBack(turn)
	w.admit(time.Now())
	jitter := w.limits.Jitter
	w.mu.Unlock()
	select {
	case <-turn.admitted:
	case <-ctx.Done():
		w.mu.Lock()
		w.waiting.Remove(place)
		w.mu.Unlock()
		return ctx.Err()
	}
	if jitter <= 0 {
		return ctx.Err()
	}
	return sleep(ctx, rand.N(jitter)) //nolint:gosec // spreads load, protects nothing
}

// Free says whether a node of these groups would be admitted without waiting.
func (w *PowerWindow) Free(groups ...PowerGroup) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expire(time.Now())
	return w.waiting.Len() == 0 && w.free(w.recent, w.limits.Parallel) && w.groupsFree(groups)
}

// Note counts a power-on that another process did at that time.
func (w *PowerWindow) Note(at time.Time, groups ...PowerGroup) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if at.After(now) { // before the clock was set back: nobody knows when
		at = now
	}
	if now.Sub(at) >= w.span() {
		return
	}
	w.recent = insertTime(w.recent, at)
	for _, g := range groups {
		w.grouped[g.Name] = insertTime(w.grouped[g.Name], at)
	}
}

func insertTime(times []time.Time, at time.Time) []time.Time {
	i, _ := slices.BinarySearchFunc(times, at, time.Time.Compare)
	return slices.Insert(times, i, at)
}

// span is how long an admission counts: it is put off by up to Jitter, so it
// stays counted for that much longer.
func (w *PowerWindow) span() time.Duration { return w.limits.Window + w.limits.Jitter }

// admit lets in everybody who may go at now, and sees to it that the others are
// looked at again when the next place is free.
func (w *PowerWindow) admit(now time.Time) {
	w.expire(now)
	for e := w.waiting.Front(); e != nil && w.free(w.recent, w.limits.Parallel); {
		next := e.Next()
		if turn, ok := e.Value.(*powerTurn); ok && w.groupsFree(turn.groups) {
			w.waiting.Remove(e)
			w.recent = append(w.recent, now)
			for _, g := range turn.groups {
				w.grouped[g.Name] = append(w.grouped[g.Name], now)
			}
			close(turn.admitted)
		}
		e = next
	}
	if w.waiting.Len() == 0 || len(w.recent) == 0 {
		return
	}
	// The oldest admission that still counts is the first to make a place, in whichever group.
	delay := w.recent[0].Add(w.span()).Sub(now)
	if w.wakeup == nil {
		w.wakeup = time.AfterFunc(delay, w.wake)
		return
	}
	w.wakeup.Reset(delay)
}

func (w *PowerWindow) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.admit(time.Now())
}

// expire forgets the admissions that count no more.
func (w *PowerWindow) expire(now time.Time) {
	old := func(times []time.Time) int {
		return sortedCount(times, func(at time.Time) bool { return now.Sub(at) >= w.span() })
	}
	w.recent = w.recent[old(w.recent):]
	for name, times := range w.grouped {
		if times = times[old(times):]; len(times) == 0 {
			delete(w.grouped, name)
		} else {
			w.grouped[name] = times
		}
	}
}

// sortedCount is how many elements at the beginning of a sorted list have a property.
func sortedCount[T any](list []T, has func(T) bool) int {
	for i, v := range list {
		if !has(v) {
			return i
		}
	}
	return len(list)
}

func (w *PowerWindow) free(recent []time.Time, limit int) bool {
	return w.limits.Window <= 0 || limit <= 0 || len(recent) < limit
}

func (w *PowerWindow) groupsFree(groups []PowerGroup) bool {
	for _, g := range groups {
		if !w.free(w.grouped[g.Name], g.Limit) {
			return false
		}
	}
	return true
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
