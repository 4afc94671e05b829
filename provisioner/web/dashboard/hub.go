package dashboard

import (
	"context"
	"sync"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
)

// hub tells viewers that something has happened. It follows the events once for all of
// them, and only while there is one. It keeps nothing: who is told looks for himself.
type hub struct {
	control Controller

	mu      sync.Mutex
	viewers map[*listener]struct{}
	stop    context.CancelFunc // ends the following; nil while nobody listens
	ended   chan struct{}      // closed when the last following has ended
	last    uint64             // the newest event that was seen
}

// listener is one viewer: news has an entry when an event of its subject came since it looked.
type listener struct {
	cluster, node string
	news          chan struct{}
}

// followPause is how long the hub waits before it follows again after an error.
const followPause = time.Second

func newHub(c Controller) *hub { return &hub{control: c, viewers: map[*listener]struct{}{}} }

// join has a viewer told of events of a cluster, of one of its nodes, or of all. leave must be called.
func (h *hub) join(ctx context.Context, cluster, node string) (l *listener, leave func()) {
	l = &listener{cluster: cluster, node: node, news: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.viewers[l] = struct{}{}
	if h.stop == nil {
		// It outlives this viewer, and ends with the last one.
		following, cancel := context.WithCancel(context.WithoutCancel(ctx))
		before, ended := h.ended, make(chan struct{})
		h.stop, h.ended = cancel, ended
		go h.follow(following, before, ended)
	}
	return l, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.viewers, l)
		if len(h.viewers) == 0 && h.stop != nil {
			h.stop()
			h.stop = nil
		}
	}
}

// follow follows the events until ctx ends. Only one does so at a time.
func (h *hub) follow(ctx context.Context, before, ended chan struct{}) {
	defer close(ended)
	if before != nil {
		<-before
	}
	h.mu.Lock()
	after := h.last
	h.mu.Unlock()
	if after == 0 {
		after = h.newestRun(ctx)
	}
	for ctx.Err() == nil {
		_ = h.control.Events(ctx, after, true, func(seq uint64, e store.Event) error {
			after = seq
			h.tell(seq, e)
			return ctx.Err()
		})
		timer := time.NewTimer(followPause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// newestRun is where the newest run began: what was before is no news.
func (h *hub) newestRun(ctx context.Context) (after uint64) {
	runs, err := h.control.Runs(ctx)
	if err != nil {
		return 0
	}
	for _, r := range runs {
		after = max(after, r.After)
	}
	return after
}

// tell never waits for a viewer.
func (h *hub) tell(seq uint64, e store.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = seq
	for l := range h.viewers {
		if l.cluster != "" && l.cluster != e.Cluster || l.node != "" && l.node != e.Node {
			continue
		}
		select {
		case l.news <- struct{}{}:
		default: // it has not looked yet
		}
	}
}
