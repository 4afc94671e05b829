package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/webhook"
)

const (
	// secret is what both ends of a test sign with: 32 bytes in base64.
	secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	// patience is how long a test waits for what must happen.
	patience = time.Minute
)

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func openStore(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// happen writes an event that brings a node to a state.
func happen(t *testing.T, s *store.Store, cluster, node, state string, change ...func(*store.Event)) {
	t.Helper()
	e := store.Event{Time: time.Now().UTC(), Run: "run-1", Cluster: cluster, Node: node, State: state, Previous: "Booting", Message: "now"}
	for _, c := range change {
		c(&e)
	}
	n := store.Node{Cluster: cluster, Name: node, Run: e.Run, State: state, Error: e.Error, Hint: e.Hint, Cause: e.Cause, Since: e.Time}
	if err := s.Record(n, e); err != nil {
		t.Fatal(err)
	}
}

// got is a message as it came.
type got struct {
	id   string
	body []byte
	at   time.Time
	webhook.Message
	data struct {
		Seq                  uint64
		Run, Cluster, Node   string
		State, Error, Hint   string
		Nodes                int
		States               map[string]int
		Problems             []webhook.Problem
		Text, Cause, Message string
	}
	text string // of a chat
}

// receiver is a real HTTP server that keeps what it is sent.
type receiver struct {
	*httptest.Server
	messages chan got
	requests chan string // the id of every request, also of those that are not taken
}

// receive starts a receiver; answer, when it is not nil, says with which status the n-th
// request is answered, from 1 on.
func receive(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request) int) *receiver {
	t.Helper()
	r := &receiver{messages: make(chan got, 1000), requests: make(chan string, 1000)}
	var mu sync.Mutex
	n := 0
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		mu.Lock()
		n++
		count := n
		mu.Unlock()
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return
		}
		r.requests <- request.Header.Get("webhook-id")
		status := http.StatusOK
		if answer != nil {
			status = answer(count, w, request)
		}
		if status/100 == 2 {
			r.messages <- read(t, request.Header, body)
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(r.Close)
	return r
}

// read takes a message apart, and verifies its signature as any receiver would.
func read(t *testing.T, h http.Header, body []byte) got {
	g := got{id: h.Get("webhook-id"), body: body, at: time.Now()}
	if h.Get("webhook-signature") != "" {
		verifier, err := standardwebhooks.NewWebhook(secret)
		if err == nil {
			err = verifier.Verify(body, h)
		}
		if err != nil {
			t.Errorf("the signature: %v", err)
		}
	}
	var m struct {
		Type      string
		Timestamp time.Time
		Data      json.RawMessage
		Text      string
	}
	if err := json.Unmarshal(body, &m); err != nil {
		t.Errorf("the message %s: %v", body, err)
	}
	g.Type, g.Timestamp, g.text = m.Type, m.Timestamp, m.Text
	if len(m.Data) > 0 {
		if err := json.Unmarshal(m.Data, &g.data); err != nil {
			t.Errorf("the data %s: %v", m.Data, err)
		}
	}
	return g
}

// next is the next message that was taken.
func (r *receiver) next(t *testing.T) got {
	t.Helper()
	select {
	case g := <-r.messages:
		return g
	case <-time.After(patience):
		t.Fatal("no message came")
		return got{}
	}
}

// asked is the id of the next request.
func (r *receiver) asked(t *testing.T) string {
	t.Helper()
	select {
	case id := <-r.requests:
		return id
	case <-time.After(patience):
		t.Fatal("no request came")
		return ""
	}
}

// signed is a receiver of events at a URL.
func signed(t *testing.T, name, url string) webhook.Receiver {
	t.Helper()
	return webhook.Receiver{Name: name, URL: url, SecretFile: file(t, secret+"\n")}
}

// sender is a sender of a test.
type sender struct {
	log *logs
	end func()
}

// send starts a sender, which is hasty, and waits until new receivers have their place:
// what happens from then on is told.
func send(t *testing.T, o webhook.Options) *sender {
	t.Helper()
	s := &sender{log: &logs{}}
	o.Log = slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	for _, d := range []struct {
		value *time.Duration
		hasty time.Duration
	}{{&o.Poll, 5 * time.Millisecond}, {&o.FirstPause, time.Millisecond}, {&o.MostPause, 20 * time.Millisecond}, {&o.Gap, time.Millisecond}} {
		if *d.value == 0 {
			*d.value = d.hasty
		}
	}
	w, err := webhook.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	s.end = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the sender ended with %v", err)
			}
		case <-time.After(patience):
			t.Error("the sender did not end")
		}
	})
	t.Cleanup(s.end)
	return s
}

// placed waits until receivers have their place.
func placed(t *testing.T, s webhook.Store, names ...string) {
	t.Helper()
	until(t, "the receivers to have their place", func() bool {
		marks, err := s.Marks()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if marks["webhook::"+name] == "" {
				return false
			}
		}
		return true
	})
}

// kept waits until a receiver's place is behind an event, and behind a run's end if one is
// named: what was sent before does not come again, whatever ends.
func kept(t *testing.T, s webhook.Store, name string, seq uint64, run string) {
	t.Helper()
	until(t, "the place to be kept", func() bool {
		marks, err := s.Marks()
		if err != nil {
			t.Fatal(err)
		}
		var place struct {
			Seq  uint64
			Runs map[string]string
		}
		if err := json.Unmarshal([]byte(marks["webhook::"+name]), &place); err != nil {
			t.Fatal(err)
		}
		return place.Seq >= seq && (run == "" || place.Runs["prod/"] == run)
	})
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", patience, what)
		}
	}
}

// logs is a log that can be read while it is written.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
