package web_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/provisioner/web"
)

// readEvents reads a stream as a browser does, until it holds a text.
func readEvents(t *testing.T, r *running, query, accept, lastID, stop string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", r.opts.Socket)
	}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://x/api/v1/events?"+query, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", accept)
	if lastID != "" {
		request.Header.Set("Last-Event-ID", lastID)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	want := "application/x-ndjson"
	if strings.Contains(accept, "event-stream") {
		want = "text/event-stream"
	}
	if got := response.Header.Get("Content-Type"); got != want {
		t.Errorf("the content type is %q; want %q", got, want)
	}
	var text strings.Builder
	part := make([]byte, 4096)
	for !strings.Contains(text.String(), stop) {
		n, err := response.Body.Read(part)
		text.Write(part[:n])
		if err != nil && !strings.Contains(text.String(), stop) {
			t.Fatalf("the stream ends with %v before %q:\n%s", err, stop, &text)
		}
	}
	return text.String()
}

func TestServerSentEvents(t *testing.T) {
	t.Parallel()
	daemon := recorded(4)
	r := serve(t, daemon, web.Options{Socket: socket(t), Heartbeat: time.Hour}) // one that came in between would be no fault
	const browser = "text/event-stream"
	text := readEvents(t, r, "after=1", browser, "2", "\"complete\"}\n\n")
	var ids []string
	for line := range strings.Lines(text) {
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			ids = append(ids, strings.TrimSpace(id))
		}
	}
	if want := []string{"3", "4"}; !slices.Equal(ids, want) {
		t.Errorf("the ids after Last-Event-ID 2 are %v; want %v:\n%s", ids, want, text)
	}
	for _, want := range []string{`data: {"seq":3,"time":"2026-03-04T05:06:07.000000089Z",`, "}\n\nevent: end\ndata: {\"end\":\"complete\"}\n\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the stream does not hold %q:\n%s", want, text)
		}
	}
	lively := serve(t, daemon, web.Options{Socket: socket(t), Heartbeat: time.Millisecond})
	readEvents(t, lively, "follow=true", browser, "", ": alive\n\n")
	readEvents(t, lively, "follow=true&after=4", "application/x-ndjson", "", "\n\n")
}

func TestHeartbeatsKeepASilentStreamOpen(t *testing.T) {
	t.Parallel()
	daemon := recorded(1)
	r := serve(t, daemon, web.Options{Socket: socket(t), Heartbeat: 5 * time.Millisecond})
	c := client(t, web.Endpoint{Socket: r.opts.Socket})
	c.MakeHasty(500 * time.Millisecond)
	time.AfterFunc(1200*time.Millisecond, func() { daemon.record(anEvent(2)) }) // long after silence would be given up
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := collect(ctx, c, web.StreamOptions{Follow: true}, 2)
	if err != nil {
		t.Fatal(err)
	}
	are(t, got, numbers(1, 2, nil))
	if n := daemon.searches.Load(); n != 1 {
		t.Errorf("the client connected %d times; want once", n)
	}
}

func TestADaemonThatFallsSilentIsGivenUp(t *testing.T) {
	t.Parallel()
	daemon := recorded(1)
	// It shows no life within the client's patience, so the client comes back again and again.
	r := serve(t, daemon, web.Options{Socket: socket(t), Heartbeat: time.Hour})
	c := client(t, web.Endpoint{Socket: r.opts.Socket})
	c.MakeHasty(20 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ended := make(chan error, 1)
	var got []web.Event
	go func() {
		ended <- c.StreamEvents(ctx, web.StreamOptions{Follow: true}, func(e web.Event) error {
			got = append(got, e)
			if e.Seq == 2 {
				cancel()
			}
			return nil
		})
	}()
	until(t, "the client to ask anew", func() bool { return daemon.searches.Load() >= 3 })
	daemon.record(anEvent(2))
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the stream ends with %v", err)
	}
	are(t, got, numbers(1, 2, nil))
}
