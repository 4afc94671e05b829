// Package webhook tells receivers over HTTP what happens to nodes: that one failed,
// was held or is ready, and that a run is over. The events in the state store are the
// queue: each receiver has a place in them that is kept there too, so that nothing is
// lost over a restart, or a change of the leader, and no run waits for a receiver. A
// message may come twice, then with the same id; a receiver gets them in order.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/talos-provision/provision/provisioner/store"
)

// Store is what is needed of the state store. *store.Store has it.
type Store interface {
	EventsAfter(after uint64, visit func(seq uint64, e store.Event) bool) error
	LastEvent() (uint64, error)
	Runs() ([]store.Run, error)
	Status(cluster string) ([]store.Node, error)
	Marks() (map[string]string, error)
	SetMarks(marks map[string]string) error
	// MayServe is nil while this controller leads the site.
	MayServe(site string) error
}

// Options are what a Sender is made of. Store and Receivers are required.
type Options struct {
	Store     Store
	Receivers []Receiver
	// Site is the site of this controller: who does not lead it sends nothing, and of the others'
	// runs and nodes nothing is sent; "" is all.
	Site string
	// Ours gives what tells whether a node is of this site, anew for every look at the events; nil
	// takes all. It is not asked without a Site.
	Ours func(ctx context.Context) (func(cluster, node string) bool, error)
	// OnAttempt is told what came of every attempt, and how long the receiver took; it may be nil.
	OnAttempt func(o Outcome, took time.Duration)
	// Log takes what could not be sent; nil discards it. It never holds a secret, nor the path of a URL.
	Log *slog.Logger

	// Poll is how often the store is looked at; 0 takes one second.
	Poll time.Duration
	// FirstPause and MostPause bound the time between two attempts, which doubles; 0 takes one second and five minutes.
	FirstPause, MostPause time.Duration
	// GiveUp is how old a message may be that is still tried again; 0 takes 24 hours. Every one is tried once.
	GiveUp time.Duration
	// Gap is the least time between two messages to a chat; 0 takes one second.
	Gap time.Duration
}

// Outcome is what came of one attempt to send a message.
type Outcome string

// The outcomes.
const (
	Delivered Outcome = "delivered" // the receiver took it
	Retried   Outcome = "retried"   // it did not, and is asked again
	GivenUp   Outcome = "given up"  // it did not, and is asked no more
)

// Sender tells receivers what happens.
type Sender struct {
	opts      Options
	followers []*follower
}

// New checks the receivers and reads their files. It sends nothing.
func New(o Options) (*Sender, error) {
	if o.Store == nil {
		return nil, errors.New("set up the webhooks: Store is required")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.OnAttempt == nil {
		o.OnAttempt = func(Outcome, time.Duration) {}
	}
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&o.Poll, time.Second}, {&o.FirstPause, time.Second}, {&o.MostPause, 5 * time.Minute}, {&o.GiveUp, 24 * time.Hour}, {&o.Gap, time.Second},
	} {
		if *d.value <= 0 {
			*d.value = d.fallback
		}
	}
	s := &Sender{opts: o}
	names := map[string]bool{}
	for i, r := range o.Receivers {
		to, err := r.target()
		if err != nil {
			return nil, fmt.Errorf("set up the webhook %s: %w", r.label(i), err)
		}
		if names[to.name] {
			return nil, fmt.Errorf("set up the webhook %s: another one has the name %q: give each a name", r.label(i), to.name)
		}
		names[to.name] = true
		s.followers = append(s.followers, &follower{sender: s, to: to, log: o.Log.With("webhook", to.name)})
	}
	return s, nil
}

// Run sends until ctx ends. What could not be sent by then is sent after the next start.
func (s *Sender) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, f := range s.followers {
		group.Go(func() error {
			defer f.to.client.CloseIdleConnections()
			return f.run(ctx)
		})
	}
	return group.Wait()
}

// leads says whether this controller sends now.
func (s *Sender) leads() bool { return s.opts.Store.MayServe(s.opts.Site) == nil }

// pause waits; false when ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// doer is what sends a request.
type doer interface {
	Do(r *http.Request) (*http.Response, error)
	CloseIdleConnections()
}
