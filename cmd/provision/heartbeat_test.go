package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/cmd/provision/board"
	"github.com/talos-provision/provision/provisioner/store"
)

// After half a minute without a word it is said that the run goes on, and how it stands.
func TestSilenceIsBrokenByAHeartbeat(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 30, 12, 0, 0, 0, time.Local)
	clock := begin
	nodes := make([]board.Node, 0, 12)
	for i := range 12 {
		nodes = append(nodes, board.Node{Cluster: "demo", Name: fmt.Sprintf("node-%02d", i+1), State: "Maintenance", Goal: "Maintenance", Since: begin})
	}
	fleet := board.NewFleet(nodes)
	p := newPulse(begin.Add(-4*time.Minute), func() time.Time { return clock }, fleet.Apply, func() string { return fleet.Sentence(clock) })
	ticks, lines := make(chan time.Time), make(chan string, 1)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.beat(ctx, ticks, func(line string) { lines <- line })
	}()
	at := func(after time.Duration) string { // what is said at that time
		clock = begin.Add(after)
		ticks <- clock
		ticks <- clock // the one before has been dealt with
		select {
		case line := <-lines:
			return line
		default:
			return ""
		}
	}
	note := func(after time.Duration, node, state string) {
		clock = begin.Add(after)
		p.note(store.Event{Time: clock.Add(-2 * time.Minute), Cluster: "demo", Node: node, State: state, Previous: "PowerCycled"})
	}
	if line := at(29 * time.Second); line != "" {
		t.Errorf("after 29 s: %q", line)
	}
	note(29*time.Second, "node-07", "Booting")
	note(29*time.Second, "node-08", "Failed")
	if line := at(58 * time.Second); line != "" {
		t.Errorf("29 s after an event: %q", line)
	}
	want := "12:01:00  still running 5m00s: 1 Failed, 1 Booting, 10 Maintenance; longest: node-07 Booting for 2m31s"
	if line := at(60 * time.Second); line != want {
		t.Errorf("31 s after an event: %q, want %q", line, want)
	}
	if line := at(89 * time.Second); line != "" {
		t.Errorf("29 s after a heartbeat: %q", line)
	}
	if line := at(90 * time.Second); !strings.HasPrefix(line, "12:01:30  still running 5m30s: ") {
		t.Errorf("30 s after a heartbeat: %q", line)
	}
	stop()
	<-ended
}
