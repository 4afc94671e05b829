package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// wantsRuns says whether the ends of runs are told.
func (r Receiver) wantsRuns() bool { return slices.Contains(r.States, RunFinished) }

// deliver sends a batch as one message, again and again until the receiver takes it,
// or it is too old. It fails only when nothing more can be sent.
func (f *follower) deliver(ctx context.Context, batch []item) error {
	id, body, err := f.message(batch)
	if err != nil {
		return err
	}
	o := f.sender.opts
	if f.to.Format == FormatSlack {
		if wait := o.Gap - time.Since(f.sentAt); wait > 0 && !pause(ctx, wait) {
			return ctx.Err()
		}
	}
	next := o.FirstPause
	for attempt := 1; ; attempt++ {
		if !f.sender.leads() {
			return errNotLeading
		}
		begun := time.Now()
		asked, err := f.once(ctx, id, body)
		f.sentAt = time.Now()
		tell := func(what Outcome) { o.OnAttempt(what, f.sentAt.Sub(begun)) }
		switch {
		case err == nil:
			tell(Delivered)
			if attempt > 1 {
				f.log.Info("the receiver takes messages again", "id", id, "attempts", attempt)
			}
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errGone):
			tell(GivenUp)
			return err
		case time.Since(batch[len(batch)-1].time()) > o.GiveUp:
			tell(GivenUp)
			f.log.Error("a message is given up: the receiver has not taken it for too long", "id", id, "age", time.Since(batch[0].time()).Round(time.Second), "error", err)
			return nil
		case attempt == 1:
			f.log.Warn("the receiver has not taken a message; it is tried again", "id", id, "error", err)
		}
		tell(Retried)
		// A random part less, so that many senders do not come back at once.
		wait := max(next-rand.N(next/2+1), min(asked, o.MostPause))
		next = min(2*next, o.MostPause)
		if !pause(ctx, wait) {
			return ctx.Err()
		}
	}
}

// message is the batch in the receiver's format, with its id.
func (f *follower) message(batch []item) (id string, body []byte, err error) {
	if f.to.Format == FormatSlack {
		body, err = slackBody(batch)
		return idOf(batch[0].id(), batch[len(batch)-1].id()), body, err
	}
	body, err = batch[0].body()
	return batch[0].id(), body, err
}

// once makes one attempt. asked is how long the receiver wants to be left alone. No
// error holds the URL.
func (f *follower) once(ctx context.Context, id string, body []byte) (asked time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.to.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, f.to.url, bytes.NewReader(body))
	if err != nil {
		return 0, errors.New("make the request: the URL cannot be used")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "provision-webhook/1")
	sign(request.Header, f.to.key, id, time.Now(), body)
	response, err := f.to.client.Do(request)
	if err != nil {
		var withURL *url.Error
		if errors.As(err, &withURL) {
			err = withURL.Err
		}
		return 0, fmt.Errorf("send it: %w; see that the receiver is up and can be reached from here", err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // so that the connection can be used again
	switch {
	case response.StatusCode/100 == 2:
		return 0, nil
	case response.StatusCode == http.StatusGone:
		return 0, errGone
	case response.StatusCode/100 == 3:
		return 0, fmt.Errorf("it answers %d and points elsewhere, where nothing is sent: give the URL where it is", response.StatusCode)
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	return time.Duration(min(max(seconds, 0), 3600)) * time.Second, fmt.Errorf("it answers %d; look at the receiver's log", response.StatusCode)
}
