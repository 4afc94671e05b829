package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/talos-provision/provision/e2e/needs"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/store/storetest"
)

// sharedEtcd is one etcd for all tests that do not harm it; each has a prefix of its own.
var sharedEtcd struct {
	once     sync.Once
	dir      string
	endpoint string
	etcd     *storetest.Etcd
	err      error
	prefixes atomic.Int32
}

// children are what this test binary does in place of tests, by the value of asChild.
var children = map[string]func(){
	"writer": writeUntilKilled,
	"paused": recordWhenTold,
	"leader": leadUntilKilled,
}

const asChild = "TEST_STORE_AS"

func TestMain(m *testing.M) {
	if child := children[os.Getenv(asChild)]; child != nil {
		child()
		return
	}
	dir, err := os.MkdirTemp("", "store-etcd-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	sharedEtcd.dir = dir
	status := m.Run()
	if sharedEtcd.etcd != nil {
		sharedEtcd.etcd.Kill()
	}
	_ = os.RemoveAll(dir)
	os.Exit(status)
}

// etcdLocation is an empty state of the shared etcd.
func etcdLocation(t testing.TB) string {
	t.Helper()
	s := &sharedEtcd
	s.once.Do(func() { s.endpoint, s.etcd, s.err = storetest.Launch(context.Background(), s.dir) })
	switch {
	case errors.Is(s.err, storetest.ErrNoEtcd):
		needs.Lacking(t, "%v", s.err)
	case s.err != nil:
		t.Fatal(s.err)
	}
	return fmt.Sprintf("etcd://%s/test-%d", s.endpoint, s.prefixes.Add(1))
}

// etcdParts are the endpoint and the prefix of a location.
func etcdParts(location string) (endpoint, prefix string) {
	endpoint, prefix, _ = strings.Cut(strings.TrimPrefix(location, "etcd://"), "/")
	return endpoint, prefix
}

// connect opens a state that is closed with the test, at the latest.
func connect(t testing.TB, location string, o store.Options) *store.Store {
	t.Helper()
	if testing.Verbose() {
		o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	s, err := store.Connect(context.Background(), location, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// overBoth runs a test over a state in a file and one in etcd.
func overBoth(t *testing.T, test func(t *testing.T, location string)) {
	t.Parallel()
	t.Run("bbolt", func(t *testing.T) {
		t.Parallel()
		test(t, filepath.Join(t.TempDir(), "deep", "state.db"))
	})
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		test(t, etcdLocation(t))
	})
}

// eventually waits until a condition holds; it looks often, and gives up loudly.
func eventually(t testing.TB, within time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(within)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// closedWithin waits for a channel to be closed.
func closedWithin(t testing.TB, within time.Duration, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(within):
		t.Fatalf("not within %v: %s", within, what)
	}
}

func at(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
