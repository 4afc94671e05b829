package bmc

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

const (
	testUser     = "provisioner"
	testPassword = "s3cret-Pa$$w0rd"
)

// quick are timeouts of tests: BMCs on loopback answer at once.
func quick() Timeouts {
	return Timeouts{
		Dial: 10 * time.Second, Request: 15 * time.Second, Operation: 30 * time.Second,
		Power: 30 * time.Second, Poll: 5 * time.Millisecond, Logout: 10 * time.Second,
	}
}

// service starts a BMC of redfishtest over HTTPS and checks, at the end, that
// every session was closed and that requests came one at a time (I10).
func service(t *testing.T, cfg redfishtest.Config) *redfishtest.Service {
	t.Helper()
	s := start(t, cfg)
	t.Cleanup(func() {
		if n := s.MaxInFlight(); n > 1 {
			t.Errorf("%d requests at a time, want 1 (I10)", n)
		}
	})
	return s
}

// start is service for tests that abandon requests, which the BMC may still be
// working on when the next one comes.
func start(t *testing.T, cfg redfishtest.Config) *redfishtest.Service {
	t.Helper()
	cfg.Username, cfg.Password = testUser, testPassword
	s := redfishtest.New(cfg)
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := s.OpenSessions(); n != 0 {
			t.Errorf("%d sessions left open", n)
		}
		s.Close()
	})
	return s
}

func configFor(t *testing.T, s *redfishtest.Service) Config {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, s.CertificatePEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	return Config{Address: s.URL(), Username: testUser, Password: testPassword, CAFile: ca, Timeouts: quick()}
}

// dial logs in and closes at the end of the test.
func dial(t *testing.T, cfg Config) *Client {
	t.Helper()
	c, err := Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// reply is one scripted answer.
type reply struct {
	status int
	body   string
	header map[string]string
}

// script is a BMC made of recorded documents, for shapes that a well behaved
// service does not give. Writes change nothing unless a handler does it.
type script struct {
	*httptest.Server
	mu    sync.Mutex
	docs  map[string]string // path without trailing slash -> document
	etags map[string]string
	// on overrides "METHOD path"; returning nil falls through.
	on       map[string]func(body string, h http.Header) *reply
	seen     []string // "METHOD path"
	bodies   []string // of writes besides the log-in
	headers  []http.Header
	logins   int
	sessions map[string]bool
}

const plainRoot = `{"Id":"RootService","Systems":{"@odata.id":"/redfish/v1/Systems"},"Chassis":{"@odata.id":"/redfish/v1/Chassis"},` +
	`"SessionService":{"@odata.id":"/redfish/v1/SessionService"},"Links":{"Sessions":{"@odata.id":"/redfish/v1/SessionService/Sessions"}}}`

func newScript(t *testing.T, docs map[string]string) *script {
	t.Helper()
	s := &script{
		docs: map[string]string{"/redfish/v1": plainRoot}, etags: map[string]string{},
		on: map[string]func(string, http.Header) *reply{}, sessions: map[string]bool{},
	}
	for p, d := range docs {
		s.docs[p] = d
	}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(func() {
		s.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.sessions) != 0 {
			t.Errorf("%d sessions left open", len(s.sessions))
		}
	})
	return s
}

func (s *script) serve(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	p := strings.TrimRight(r.URL.Path, "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, r.Method+" "+p)
	if r.Method != http.MethodGet && !strings.Contains(p, "/Sessions") {
		s.bodies, s.headers = append(s.bodies, string(b)), append(s.headers, r.Header.Clone())
	}
	if h := s.on[r.Method+" "+p]; h != nil {
		if a := h(string(b), r.Header); a != nil {
			for k, v := range a.header {
				w.Header().Set(k, v)
			}
			w.WriteHeader(a.status)
			_, _ = io.WriteString(w, a.body)
			return
		}
	}
	s.standard(w, r, p)
}

func (s *script) standard(w http.ResponseWriter, r *http.Request, p string) {
	const sessions = "/redfish/v1/SessionService/Sessions"
	switch {
	case r.Method == http.MethodPost && p == sessions:
		s.logins++
		id := fmt.Sprintf("%s/%d", sessions, s.logins)
		s.sessions[id] = true
		w.Header().Set("X-Auth-Token", fmt.Sprintf("token-%d-secret", s.logins))
		w.Header().Set("Location", s.URL+id) // absolute, as many BMCs give it
		w.WriteHeader(http.StatusCreated)
	case r.Method == http.MethodDelete && strings.HasPrefix(p, sessions):
		delete(s.sessions, p)
		w.WriteHeader(http.StatusNoContent)
	case r.Method != http.MethodGet:
		w.WriteHeader(http.StatusNoContent)
	case s.docs[p] == "":
		w.WriteHeader(http.StatusNotFound)
	default:
		if e := s.etags[p]; e != "" {
			w.Header().Set("ETag", e)
		}
		_, _ = io.WriteString(w, s.docs[p])
	}
}

func (s *script) config(t *testing.T) Config {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	b := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(ca, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return Config{Address: s.URL, Username: testUser, Password: testPassword, CAFile: ca, Timeouts: quick()}
}

// count tells how often a request was seen.
func (s *script) count(request string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.seen {
		if r == request {
			n++
		}
	}
	return n
}

func (s *script) written() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.bodies...)
}

// first answers the first n requests with a, later ones as usual.
func first(n int, a reply) func(string, http.Header) *reply {
	return func(string, http.Header) *reply {
		if n--; n >= 0 {
			return &a
		}
		return nil
	}
}

// logBuffer is a debug log that a test can search.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
