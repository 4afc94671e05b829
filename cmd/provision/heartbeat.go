package main

import (
	"context"
	"sync"
	"time"

	"github.com/talos-provision/provision/cmd/provision/board"
	"github.com/talos-provision/provision/provisioner/store"
)

// silence is for how long nothing is said before it is said that work goes on.
const silence = 30 * time.Second

// pulse says that a run goes on while nothing else is to be said of it.
type pulse struct {
	mu       sync.Mutex
	began    time.Time
	spoke    time.Time
	now      func() time.Time
	apply    func(store.Event)
	sentence func() string
}

// newPulse makes a pulse of a run that began at that time. apply takes note of events,
// and sentence says in one line what they have come to.
func newPulse(began time.Time, now func() time.Time, apply func(store.Event), sentence func() string) *pulse {
	return &pulse{began: began, spoke: now(), now: now, apply: apply, sentence: sentence}
}

// note takes an event that is told.
func (p *pulse) note(e store.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spoke = p.now()
	p.apply(e)
}

// due is the line to be said at that time; "" when something was said not long ago.
func (p *pulse) due(at time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at.Sub(p.spoke) < silence {
		return ""
	}
	p.spoke = at
	return at.Local().Format(time.TimeOnly) + "  still running " + board.Span(at.Sub(p.began)) + ": " + p.sentence()
}

// beat says what is due at each tick until ctx ends.
func (p *pulse) beat(ctx context.Context, ticks <-chan time.Time, line func(string)) {
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-ticks:
			if text := p.due(at); text != "" {
				line(text)
			}
		}
	}
}
