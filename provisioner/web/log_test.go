package web_test

import (
	"bytes"
	"log/slog"
	"os/user"
	"sync"
	"testing"
)

// log keeps what a server logs, of every level.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func newLog() *log { return &log{} }

func (l *log) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// ownName is how a server calls the user of the tests on its socket.
func ownName(t *testing.T) string {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return u.Username
}
