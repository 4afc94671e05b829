package discovery

import (
	"context"
	"errors"
	"sync"
)

// ErrStopped says that the scan ended early because BMCs refused the
// credentials one after the other.
var ErrStopped = errors.New("not asked: the scan was stopped")

// maxRefusals is how many refusals in a row end the scan.
const maxRefusals = 3

// gate lets log-ins with one set of credentials pass. It starts with as many at
// once as may be refused, and opens by one with each that succeeds: wrong
// credentials are tried three times in the fleet and no more, right ones soon
// everywhere at once. Where accounts are central, 64 wrong log-ins at once
// would lock the account.
type gate struct {
	mu       sync.Mutex
	changed  chan struct{} // closed, and made anew, when something changes
	inFlight int
	proven   int // successes since the last refusal
	refused  int // refusals in a row
	stopped  bool
}

func newGate() *gate { return &gate{changed: make(chan struct{})} }

// enter waits until one more log-in is allowed. Everyone who entered must leave.
func (g *gate) enter(ctx context.Context) error {
	for {
		g.mu.Lock()
		if g.stopped {
			g.mu.Unlock()
			return ErrStopped
		}
		if g.inFlight+g.refused < maxRefusals+g.proven {
			g.inFlight++
			g.mu.Unlock()
			return nil
		}
		changed := g.changed
		g.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// result of a log-in.
type result int

const (
	accepted result = iota
	refused
	unknown // no answer about the credentials was had
)

// leave ends a log-in. It reports whether this one stopped the scan.
func (g *gate) leave(r result) (stops bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inFlight--
	switch r {
	case accepted:
		g.proven++
		g.refused = 0
	case refused:
		g.proven = 0
		g.refused++
		stops = g.refused == maxRefusals
		g.stopped = g.stopped || stops
	case unknown:
	}
	close(g.changed)
	g.changed = make(chan struct{})
	return stops
}

// stop lets nobody pass any more.
func (g *gate) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = true
	close(g.changed)
	g.changed = make(chan struct{})
}
