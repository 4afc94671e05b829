package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
)

// follower goes along the events for one receiver.
type follower struct {
	sender *Sender
	to     *target
	log    *slog.Logger

	place  *place // nil until it is read from the store, and when this controller does not lead
	saved  uint64 // place.Seq as it is in the store
	sentAt time.Time
	// complained says that it was told that the store cannot be read.
	complained bool
}

// place is how far a receiver was told, as it is kept in the store.
type place struct {
	// Seq is the number of the last event that was sent, or left out.
	Seq uint64 `json:"seq"`
	// Runs are the runs whose end was told last, by cluster/site.
	Runs map[string]string `json:"runs"`
}

var (
	// errGone ends a receiver until the next start: it said that it is there no more.
	errGone = errors.New("it answered 410: it wants no more")
	// errNotLeading says that another controller goes on with the receiver.
	errNotLeading = errors.New("this controller does not lead the site")
)

// markName is where the place is kept. No cluster has a colon in its name, so that no node has this mark.
func (f *follower) markName() string {
	return fmt.Sprintf("webhook:%s:%s", f.sender.opts.Site, f.to.name)
}

func (f *follower) run(ctx context.Context) error {
	for {
		err := f.look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was asked to end
		case errors.Is(err, errGone):
			f.log.Warn("the receiver gets nothing more until the daemon is started anew", "error", err)
			return nil
		case errors.Is(err, errNotLeading):
			f.place = nil // who leads meanwhile goes on from there
		case err != nil && !f.complained:
			f.complained = true
			f.log.Error("what happens cannot be told to the receiver now; it is tried again", "error", err)
		case err == nil:
			f.complained = false
		}
		if !pause(ctx, f.sender.opts.Poll) {
			return nil
		}
	}
}

// look sends what has happened since the last look.
func (f *follower) look(ctx context.Context) error {
	if !f.sender.leads() {
		return errNotLeading
	}
	if f.place == nil {
		if err := f.begin(); err != nil {
			return err
		}
	}
	// In this order: all events of a run that is over are written by now.
	runs, err := f.sender.opts.Store.Runs()
	if err != nil {
		return err
	}
	if err := f.tellEvents(ctx); err != nil {
		return err
	}
	return f.tellRuns(ctx, runs)
}

// begin finds the receiver's place; a new receiver's is the end of what there is.
func (f *follower) begin() error {
	marks, err := f.sender.opts.Store.Marks()
	if err != nil {
		return err
	}
	p := place{Runs: map[string]string{}}
	if mark, known := marks[f.markName()]; known {
		if err := json.Unmarshal([]byte(mark), &p); err != nil {
			return fmt.Errorf("read the place of the webhook %s: %w; give it another name to begin anew", f.to.name, err)
		}
		f.place, f.saved = &p, p.Seq
		return nil
	}
	if p.Seq, err = f.sender.opts.Store.LastEvent(); err != nil {
		return err
	}
	runs, err := f.sender.opts.Store.Runs()
	if err != nil {
		return err
	}
	for _, run := range runs {
		if !run.Finished.IsZero() {
			p.Runs[runKey(run)] = run.ID
		}
	}
	f.place = &p
	return f.save()
}

func (f *follower) save() error {
	raw, err := json.Marshal(f.place)
	if err != nil {
		return fmt.Errorf("write the place of the webhook %s: %w", f.to.name, err)
	}
	if err := f.sender.opts.Store.SetMarks(map[string]string{f.markName(): string(raw)}); err != nil {
		return err
	}
	f.saved = f.place.Seq
	return nil
}

// saveAfter is how many events may be left out before the place is kept, when nothing is sent.
const saveAfter = 1000

// tellEvents sends the events after the receiver's place.
func (f *follower) tellEvents(ctx context.Context) error {
	ours := sync.OnceValues(func() (func(cluster, node string) bool, error) { return f.ours(ctx) })
	var (
		batch  []item
		failed error
	)
	seen := f.place.Seq
	err := f.sender.opts.Store.EventsAfter(f.place.Seq, func(seq uint64, e store.Event) bool {
		if ctx.Err() != nil {
			return false
		}
		if f.to.wants(e) {
			mine, err := ours()
			if err != nil {
				failed = err
				return false
			}
			if mine(e.Cluster, e.Node) {
				batch = append(batch, item{event: &Event{Seq: seq, Event: e}})
			}
		}
		seen = seq
		if f.full(batch) {
			failed = f.tell(ctx, batch, func(p *place) { p.Seq = seq })
			batch = nil
		}
		return failed == nil
	})
	if err = errors.Join(failed, err, ctx.Err()); err != nil {
		return err
	}
	if len(batch) > 0 {
		return f.tell(ctx, batch, func(p *place) { p.Seq = seen })
	}
	f.place.Seq = seen
	if f.place.Seq-f.saved >= saveAfter {
		return f.save()
	}
	return nil
}

// full says whether a batch is sent: a chat gets several at once.
func (f *follower) full(batch []item) bool {
	if f.to.Format == FormatSlack {
		return len(batch) >= maxLines
	}
	return len(batch) > 0
}

// ours says which nodes are told of.
func (f *follower) ours(ctx context.Context) (func(cluster, node string) bool, error) {
	if o := f.sender.opts; o.Site != "" && o.Ours != nil {
		return o.Ours(ctx)
	}
	return func(string, string) bool { return true }, nil
}

// tellRuns sends the ends of runs that were not told yet, all of whose events were.
func (f *follower) tellRuns(ctx context.Context, runs []store.Run) error {
	for _, run := range runs {
		key := runKey(run)
		if run.Finished.IsZero() || f.place.Runs[key] == run.ID || run.Site != f.sender.opts.Site {
			continue
		}
		if !f.to.wantsCluster(run.Cluster) || !f.to.wantsRuns() {
			continue // it costs nothing to leave it out again
		}
		nodes, err := f.sender.opts.Store.Status(run.Cluster)
		if err != nil {
			return err
		}
		if err := f.tell(ctx, []item{{finished: finishedOf(run, nodes)}}, func(p *place) { p.Runs[key] = run.ID }); err != nil {
			return err
		}
	}
	return nil
}

func runKey(run store.Run) string { return run.Cluster + "/" + run.Site }

// tell sends a batch until the receiver has it or it is too old, and keeps the place behind it.
func (f *follower) tell(ctx context.Context, batch []item, told func(*place)) error {
	if err := f.deliver(ctx, batch); err != nil {
		return err
	}
	told(f.place)
	return f.save()
}
