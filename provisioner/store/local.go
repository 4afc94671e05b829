package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// localRights are the rights within one process: the lock on the file keeps
// others off, and goes with the process.
type localRights struct {
	controller string

	mu      sync.Mutex
	ended   bool
	claims  map[string]Holder // by cluster/name
	leaders map[string]Holder // by site
	// turn is closed, and replaced, when a leader resigns or everything ends.
	turn chan struct{}
}

var errClosed = errors.New("the state was closed")

func newLocalRights(controller string) *localRights {
	return &localRights{controller: controller, claims: map[string]Holder{}, leaders: map[string]Holder{}, turn: make(chan struct{})}
}

func (l *localRights) claim(ctx context.Context, keys []string, what string) (*Claim, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.open(ctx); err != nil {
		return nil, err
	}
	var others []Holder
	for _, key := range keys {
		if h, taken := l.claims[key]; taken {
			others = append(others, h)
		}
	}
	if others != nil {
		return nil, claimedError(others)
	}
	for _, key := range keys {
		l.claims[key] = Holder{Key: key, Controller: l.controller, What: what, Since: time.Now()}
	}
	var once sync.Once
	release := func(context.Context) error {
		once.Do(func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			for _, key := range keys {
				delete(l.claims, key)
			}
		})
		return nil
	}
	return &Claim{keys: keys, lost: make(chan struct{}), release: release}, nil
}

func (l *localRights) open(ctx context.Context) error {
	if l.ended {
		return errClosed
	}
	return ctx.Err()
}

func (l *localRights) holders() ([]Holder, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	holders := make([]Holder, 0, len(l.claims))
	for _, h := range l.claims {
		holders = append(holders, h)
	}
	slices.SortFunc(holders, func(a, b Holder) int { return cmp.Compare(a.Key, b.Key) })
	return holders, nil
}

func (l *localRights) lead(ctx context.Context, site string) (*Leadership, error) {
	for {
		l.mu.Lock()
		if err := l.open(ctx); err != nil {
			l.mu.Unlock()
			return nil, err
		}
		turn := l.turn
		_, taken := l.leaders[site]
		if !taken {
			l.leaders[site] = Holder{Key: site, Controller: l.controller, Since: time.Now()}
		}
		l.mu.Unlock()
		if !taken {
			return &Leadership{site: site, lost: make(chan struct{}), resign: l.resigner(site)}, nil
		}
		select {
		case <-turn:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (l *localRights) resigner(site string) func(context.Context) error {
	var once sync.Once
	return func(context.Context) error {
		once.Do(func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.leaders, site)
			l.nextTurn()
		})
		return nil
	}
}

func (l *localRights) nextTurn() {
	close(l.turn)
	l.turn = make(chan struct{})
}

func (l *localRights) leader(site string) (Holder, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, found := l.leaders[site]
	return h, found, nil
}

func (*localRights) alive() error { return nil }

func (*localRights) mayWork(string) error { return nil }

func (*localRights) mayServe(string) error { return nil }

// end wakes whoever waits to lead.
func (l *localRights) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.nextTurn()
}
