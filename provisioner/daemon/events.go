package daemon

import (
	"context"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
)

// eventPoll is how often the store is asked for events of other controllers.
const eventPoll = 2 * time.Second

// told wakes whoever reads events: one was stored.
func (d *Daemon) told(e store.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if j := d.jobs[e.Cluster]; j != nil && j.id == e.Run {
		j.enlistedOnce.Do(func() { close(j.enlisted) })
	}
	close(d.news)
	d.news = make(chan struct{})
}

// Events hands every event after a sequence number to visit and, if it is to follow,
// goes on with new ones until ctx ends or visit fails. The store is the stream: a slow reader
// holds up nobody but itself.
func (d *Daemon) Events(ctx context.Context, after uint64, follow bool, visit func(seq uint64, e store.Event) error) error {
	if !follow {
		return d.opts.Store.Replay(ctx, after, visit)
	}
	return d.opts.Store.Follow(ctx, after, store.News{Next: d.newsNext, Poll: eventPoll}, visit)
}

// newsNext is closed when this daemon stores its next event.
func (d *Daemon) newsNext() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.news
}
