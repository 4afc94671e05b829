package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/talos-provision/provision/e2e/fleet"
)

// notifySocket takes what systemd is told.
type notifySocket struct {
	t    *testing.T
	path string
	conn *net.UnixConn

	mu    sync.Mutex
	lines []string
	times []time.Time
	more  chan struct{} // has room for one
}

func newNotifySocket(t *testing.T) *notifySocket {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	n := &notifySocket{t: t, path: filepath.Join(dir, "s"), more: make(chan struct{}, 1)}
	if n.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: n.path, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.conn.Close() })
	go n.read()
	return n
}

func (n *notifySocket) read() {
	buffer := make([]byte, 4096)
	for {
		size, err := n.conn.Read(buffer)
		if err != nil {
			return
		}
		n.mu.Lock()
		for line := range strings.SplitSeq(string(buffer[:size]), "\n") {
			n.lines, n.times = append(n.lines, line), append(n.times, time.Now())
		}
		n.mu.Unlock()
		select {
		case n.more <- struct{}{}:
		default:
		}
	}
}

func (n *notifySocket) env() string { return "NOTIFY_SOCKET=" + n.path }

func (n *notifySocket) told() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.lines)
}

// await waits for lines in this order, with others in between, and forgets them.
func (n *notifySocket) await(wanted ...string) {
	n.t.Helper()
	deadline := time.After(patience)
	for {
		n.mu.Lock()
		for i, line := range n.lines {
			if line == wanted[0] {
				n.lines, n.times, wanted = n.lines[i+1:], n.times[i+1:], wanted[1:]
				break
			}
		}
		left := n.lines
		n.mu.Unlock()
		if len(wanted) == 0 {
			return
		}
		if slices.Contains(left, wanted[0]) {
			continue
		}
		select {
		case <-n.more:
		case <-deadline:
			n.t.Fatalf("systemd was not told %s, but %q", wanted[0], left)
		}
	}
}

func TestSystemdIsToldHowTheDaemonIs(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 1})
	notify := newNotifySocket(t)
	const watchdog = 3 * time.Second
	d := launchDaemon(t, f, notify.env(), fmt.Sprintf("WATCHDOG_USEC=%d", watchdog.Microseconds()))
	notify.await("READY=1")
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", f.Controller())
	if err != nil {
		t.Errorf("it says that it is ready, and HTTP is not bound: %v", err)
	} else if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if health, err := d.Ready(t.Context()); err != nil || !health.OK {
		t.Errorf("it says that it is ready, and /readyz says %+v, %v", health, err)
	}
	began := time.Now()
	notify.await("WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1")
	if took := time.Since(began); took > 3*watchdog {
		t.Errorf("the watchdog was told three times within %s, want each time within %s", took, watchdog)
	}
	edit(t, f, "provision.yaml", "parallel: 8", "parallel: 2")
	d.signal(syscall.SIGHUP)
	notify.await("RELOADING=1")
	since, found := strings.CutPrefix(notify.told()[0], "MONOTONIC_USEC=")
	if micros, err := strconv.ParseInt(since, 10, 64); !found || err != nil || micros <= 0 {
		t.Errorf("a reload is told without its time: %q", notify.told())
	}
	notify.await("READY=1")
	if !strings.Contains(d.log.String(), "the configuration was reloaded") {
		t.Error("systemd is told of a reload that was not done")
	}
	d.signal(syscall.SIGTERM)
	notify.await("STOPPING=1")
	if status := d.end(); status != exitDone {
		t.Errorf("ended with status %d", status)
	}
}
