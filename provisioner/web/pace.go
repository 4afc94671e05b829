package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// pace is how patient a client is.
type pace struct {
	first, most time.Duration // between two attempts to connect
	poll        time.Duration // between two looks at a run
	silence     time.Duration // for how long a stream may say nothing: three heartbeats of the daemon
}

var defaultPace = pace{first: 100 * time.Millisecond, most: 5 * time.Second, poll: time.Second, silence: 45 * time.Second}

// retry counts the attempts since the last success.
type retry struct{ next, most time.Duration }

func (p pace) begin() *retry { return &retry{next: p.first, most: p.most} }

// wait waits for the next attempt: twice as long every time, up to the most, and a
// random half less, so that many clients do not come back at once.
func (r *retry) wait(ctx context.Context) error {
	half := r.next / 2
	d := half + rand.N(half+1)
	r.next = min(2*r.next, r.most)
	return pause(ctx, d)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// retryable says whether the same question may be answered later.
func retryable(err error) bool {
	for _, code := range []Code{CodeUnreachable, CodeUnavailable, CodeTooMany, CodeTimeout} {
		if errors.Is(err, &Error{Code: code}) {
			return true
		}
	}
	return false
}

// watchdog gives a connection up that has been silent for too long.
type watchdog struct {
	timer   *time.Timer
	silence time.Duration
	fired   atomic.Bool
}

func newWatchdog(silence time.Duration, giveUp func()) *watchdog {
	w := &watchdog{silence: silence}
	w.timer = time.AfterFunc(silence, func() {
		w.fired.Store(true)
		giveUp()
	})
	return w
}

func (w *watchdog) stop() { w.timer.Stop() }

// explain says that it was the watchdog who ended the connection, if it was.
func (w *watchdog) explain(err error) error {
	if !w.fired.Load() {
		return err
	}
	return &Error{Code: CodeUnreachable, Message: fmt.Sprintf("the daemon said nothing for %s", w.silence), Hint: "look at its log, and at the network in between"}
}

// watched is a reader whose every byte shows the watchdog that the other end lives.
type watched struct {
	r io.Reader
	*watchdog
	err error // of r, but for its end
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.r.Read(b)
	if n > 0 && !w.fired.Load() {
		w.timer.Reset(w.silence)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}
