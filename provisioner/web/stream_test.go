package web_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
)

func anEvent(i int) store.Event {
	return store.Event{
		Time: moment, Run: fmt.Sprintf("run-%d", i%2), Cluster: []string{"prod", "test", "lab"}[i%3], Node: fmt.Sprintf("node-%04d", i),
		State: "Booting", Message: strings.Repeat("m", i%50), Error: "e", Hint: "h",
	}
}

// collect streams until it has so many events, or to the end without a number.
func collect(ctx context.Context, c *web.Client, o web.StreamOptions, number int) ([]web.Event, error) {
	errEnough := errors.New("enough")
	var got []web.Event
	err := c.StreamEvents(ctx, o, func(e web.Event) error {
		if got = append(got, e); len(got) == number {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return got, err
}

// are checks that events are those of these numbers, unchanged.
func are(t *testing.T, got []web.Event, want []uint64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d events; want %d", len(got), len(want))
	}
	for i, e := range got {
		if e.Seq != want[i] || e.Event != anEvent(int(e.Seq)) {
			t.Fatalf("event %d is %+v; want number %d, %+v", i, e, want[i], anEvent(int(want[i])))
		}
	}
}

func numbers(from, to uint64, keep func(store.Event) bool) []uint64 {
	var list []uint64
	for i := from; i <= to; i++ {
		if keep == nil || keep(anEvent(int(i))) {
			list = append(list, i)
		}
	}
	return list
}

// recorded is a daemon with events of these numbers.
func recorded(to int) *fake {
	daemon := newFake()
	for i := 1; i <= to; i++ {
		daemon.record(anEvent(i))
	}
	return daemon
}

func TestTheEventsThatAreAskedFor(t *testing.T) {
	t.Parallel()
	r := serve(t, recorded(1000), web.Options{Socket: socket(t)})
	c := client(t, web.Endpoint{Socket: r.opts.Socket})
	for _, test := range []struct {
		name string
		o    web.StreamOptions
		want []uint64
	}{
		{"all", web.StreamOptions{}, numbers(1, 1000, nil)},
		{"after one", web.StreamOptions{After: 990}, numbers(991, 1000, nil)},
		{"after the last", web.StreamOptions{After: 1000}, nil},
		{"of a cluster", web.StreamOptions{After: 3, Cluster: "prod"}, numbers(4, 1000, func(e store.Event) bool { return e.Cluster == "prod" })},
		{"of a run of a cluster", web.StreamOptions{Cluster: "lab", Run: "run-1"}, numbers(1, 1000, func(e store.Event) bool { return e.Cluster == "lab" && e.Run == "run-1" })},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := collect(t.Context(), c, test.o, 0)
			if err != nil {
				t.Fatal(err)
			}
			are(t, got, test.want)
		})
	}
}

func TestNewEventsComeAsTheyHappen(t *testing.T) {
	t.Parallel()
	daemon := recorded(3)
	r := serve(t, daemon, web.Options{Socket: socket(t)})
	c := client(t, web.Endpoint{Socket: r.opts.Socket})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	next := uint64(0)
	// Every event is recorded only when the one before has come: none waits for another.
	err := c.StreamEvents(ctx, web.StreamOptions{Follow: true}, func(e web.Event) error {
		if next++; e.Seq != next {
			return fmt.Errorf("event %d comes; want %d", e.Seq, next)
		}
		switch {
		case e.Seq == 50:
			cancel()
		case e.Seq >= 3:
			daemon.record(anEvent(int(e.Seq) + 1))
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || next != 50 {
		t.Errorf("the stream ends after %d events with %v; want 50 and context.Canceled", next, err)
	}
	until(t, "the daemon's search to end with its reader", func() bool { return daemon.streaming.Load() == 0 })
}

func TestAStreamThatIsCutGoesOnWithoutLossOrRepetition(t *testing.T) {
	t.Parallel()
	daemon := newFake()
	tokens := file(t, adminToken)
	r := serve(t, daemon, web.Options{Listen: "127.0.0.1:0", TokenFile: tokens})
	proxy := newCutter(t, r.server.Addr().String(), 40)
	c := client(t, web.Endpoint{URL: "http://" + proxy.address, TokenFile: tokens})
	const all = 1500
	go func() {
		for i := 1; i <= all; i++ {
			daemon.record(anEvent(i))
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := collect(ctx, c, web.StreamOptions{Follow: true}, all)
	if err != nil {
		t.Fatal(err)
	}
	are(t, got, numbers(1, all, nil))
	if cuts := proxy.cuts.Load(); cuts < 10 {
		t.Errorf("the connection was cut %d times, so little is tested", cuts)
	}
	// One that only reads what there is must not take a cut for its end.
	proxy.left.Store(20)
	if got, err = collect(ctx, c, web.StreamOptions{}, 0); err != nil {
		t.Fatal(err)
	}
	are(t, got, numbers(1, all, nil))
}

func TestAStreamOutlivesARestartOfTheDaemon(t *testing.T) {
	t.Parallel()
	path := socket(t)
	daemon := recorded(10)
	first := serve(t, daemon, web.Options{Socket: path})
	c := client(t, web.Endpoint{Socket: path})
	var got []web.Event
	errEnough := errors.New("enough")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := c.StreamEvents(ctx, web.StreamOptions{Follow: true}, func(e web.Event) error {
		got = append(got, e)
		switch e.Seq {
		case 10:
			if err := first.end(); err != nil {
				return err
			}
			if c.Available(ctx) {
				return errors.New("the daemon was not ended, so nothing is tested")
			}
			daemon.record(anEvent(11))
			serve(t, daemon, web.Options{Socket: path})
		case 11:
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
	are(t, got, numbers(1, 11, nil))
}

func TestASlowReaderIsCutOffAndKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	daemon := newFake()
	log := newLog()
	r := serve(t, daemon, web.Options{Socket: socket(t), StreamTimeout: 300 * time.Millisecond, Log: log.logger()})
	var d net.Dialer
	slow, err := d.DialContext(t.Context(), "unix", r.opts.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = slow.Close() }()
	if _, err := io.WriteString(slow, "GET /api/v1/events?follow=true HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	until(t, "the slow reader to be let in", func() bool { return daemon.streaming.Load() == 1 })
	const all = 3000 // more than a socket holds
	go func() {
		for i := 1; i <= all; i++ {
			daemon.record(anEvent(i))
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := collect(ctx, client(t, web.Endpoint{Socket: r.opts.Socket}), web.StreamOptions{Follow: true}, all)
	if err != nil {
		t.Fatal(err)
	}
	are(t, got, numbers(1, all, nil))
	until(t, "the slow reader to be cut off", func() bool { return daemon.streaming.Load() == 0 && r.server.OpenStreams() == 0 })
	until(t, "the log to tell of it", func() bool { return strings.Contains(log.String(), "cut off") })
	// What it did not read in time has no proper end.
	answer, err := http.ReadResponse(bufio.NewReader(slow), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if text, err := io.ReadAll(answer.Body); !errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(string(text), `"end"`) {
		t.Errorf("the slow reader's %d bytes end with %v; want a cut", len(text), err)
	}
}

func TestASlowReaderOfABackupIsCutOff(t *testing.T) {
	t.Parallel()
	daemon := newFake()
	ended := make(chan error, 1)
	daemon.backups = func(w io.Writer) error {
		for {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				ended <- err
				return err
			}
		}
	}
	r := serve(t, daemon, web.Options{Socket: socket(t), StreamTimeout: 100 * time.Millisecond})
	var d net.Dialer
	slow, err := d.DialContext(t.Context(), "unix", r.opts.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = slow.Close() }()
	if _, err := io.WriteString(slow, "GET /api/v1/backup HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the backup ends with %v; want that its time is over", err)
		}
	case <-time.After(patience):
		t.Error("a reader who takes nothing holds up a backup")
	}
}

func TestOneStreamTooManyIsRefusedAndCanComeLater(t *testing.T) {
	t.Parallel()
	daemon := recorded(1)
	r := serve(t, daemon, web.Options{Socket: socket(t), MaxStreams: 2})
	c := client(t, web.Endpoint{Socket: r.opts.Socket})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 2)
	for range 2 {
		go func() {
			ended <- c.StreamEvents(ctx, web.StreamOptions{Follow: true}, func(web.Event) error { return nil })
		}()
	}
	until(t, "two streams", func() bool { return r.server.OpenStreams() == 2 })
	if _, err := collect(t.Context(), c, web.StreamOptions{}, 0); !errors.Is(err, web.ErrTooMany) {
		t.Errorf("the third stream ends with %v; want ErrTooMany", err)
	}
	if err := c.Backup(t.Context(), io.Discard); !errors.Is(err, web.ErrTooMany) {
		t.Errorf("a backup beside two streams ends with %v; want ErrTooMany", err)
	}
	if _, err := c.Nodes(t.Context(), ""); err != nil {
		t.Errorf("streams keep other calls off: %v", err)
	}
	cancel()
	for range 2 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a stream that is not wanted any more ends with %v", err)
		}
	}
	until(t, "the streams to end", func() bool { return r.server.OpenStreams() == 0 })
	got, err := collect(t.Context(), c, web.StreamOptions{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	are(t, got, numbers(1, 1, nil))
}

func TestAnErrorOfTheDaemonEndsTheStreamWithIt(t *testing.T) {
	t.Parallel()
	daemon := recorded(5)
	daemon.fail = errors.New("the state is torn")
	r := serve(t, daemon, web.Options{Socket: socket(t)})
	got, err := collect(t.Context(), client(t, web.Endpoint{Socket: r.opts.Socket}), web.StreamOptions{Follow: true}, 0)
	if !errors.Is(err, &web.Error{Code: web.CodeInternal}) || !strings.Contains(err.Error(), "the state is torn") {
		t.Errorf("the stream ends with %v; want the daemon's error", err)
	}
	are(t, got, numbers(1, 5, nil))
}
