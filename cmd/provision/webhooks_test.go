package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/talos-provision/provision/e2e/fleet"
)

// told is what a receiver gets.
type told struct {
	Type string
	Data struct {
		Run, Cluster, Node string
		Nodes              int
		States             map[string]int
	}
}

// Across a run, and across the daemon's death, a receiver is told how it ended for each
// node and as a whole.
func TestTheDaemonTellsReceiversHowRunsEnd(t *testing.T) {
	t.Parallel()
	const secret = "whsec_Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5LWNhbmE="
	var up atomic.Bool
	messages := make(chan told, 100)
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{} // one request at a time
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = verifier.Verify(body, r.Header)
		}
		var m told
		switch {
		case err != nil:
			t.Errorf("a message that is not signed: %v", err)
		case !up.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case json.Unmarshal(body, &m) != nil:
			t.Errorf("a message is %s", body)
		case !seen[r.Header.Get("webhook-id")]:
			seen[r.Header.Get("webhook-id")] = true
			messages <- m
		}
	}))
	t.Cleanup(receiver.Close)
	next := func() told {
		t.Helper()
		select {
		case m := <-messages:
			return m
		case <-time.After(patience):
			t.Fatal("no message came")
			return told{}
		}
	}
	f := startFleet(t, fleet.Config{Nodes: 2})
	key := filepath.Join(t.TempDir(), "secret")
	writeFile(t, key, secret+"\n")
	edit(t, f, "provision.yaml", "talos:\n", fmt.Sprintf("webhooks: [{name: test, url: '%s/hidden', secretFile: %s}]\ntalos:\n", receiver.URL, key))
	d := startDaemon(t, f)
	// A receiver that is new begins with what happens from then on.
	d.until("the receiver to have its place", func() bool { return strings.Contains(backupOf(t, f), "webhook::test") })
	d.begin()
	d.finished()
	d.kill() // nothing was taken so far
	up.Store(true)
	d = startDaemon(t, f)
	nodes := map[string]bool{}
	for range 2 {
		m := next()
		if m.Type != "node.maintenance" || m.Data.Cluster != "demo" {
			t.Errorf("told is %+v", m)
		}
		nodes[m.Data.Node] = true
	}
	if !nodes["node-01"] || !nodes["node-02"] {
		t.Errorf("told is of %v", nodes)
	}
	if m := next(); m.Type != "run.finished" || m.Data.Nodes != 2 || m.Data.States["Maintenance"] != 2 {
		t.Errorf("the end is %+v", m)
	}
	for _, secret := range []string{"hidden", "Y2FuYXJ5"} {
		if strings.Contains(d.log.String(), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}

// backupOf is the state as bytes, for what can be found there as text.
func backupOf(t *testing.T, f *fleet.Fleet) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), fmt.Sprint(time.Now().UnixNano()))
	if r := provision(t, "state", "backup", file, "--config", f.ConfigFile()); r.status != exitDone {
		t.Fatalf("status %d: %s", r.status, r.err)
	}
	return textOf(t, file)
}

func TestAWebhookThatCannotBeMeantStopsTheDaemonAtItsStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "provision.yaml")
	writeFile(t, file, fmt.Sprintf("state: %s\ninventory: %[1]s\ndhcp: {mode: 'off'}\nadmin: {listen: none}\nwebhooks: [{name: chat, url: 'http://hooks.example/hidden', format: slack}]\n", dir))
	r := provision(t, "serve", "--config", file)
	if r.status != exitUsage || !strings.Contains(r.err, `"chat"`) || !strings.Contains(r.err, "use https") || strings.Contains(r.err, "hidden") {
		t.Errorf("status %d: %s", r.status, r.err)
	}
}
