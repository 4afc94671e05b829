package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/cmd/provision/board"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/store"
)

// While a board is up a warning is shown on it; where the log is no terminal it is
// written to at once too.
func TestTheLogDoesNotTearTheBoard(t *testing.T) {
	t.Parallel()
	var errOut bytes.Buffer
	a := &app{errOut: &errOut, flags: flags{logLevel: "warn"}}
	log, err := a.logger()
	if err != nil {
		t.Fatal(err)
	}
	b := board.New(board.Options{Now: time.Now})
	log.Warn("before")
	a.screen.set(b, nil)
	log.Warn("during")
	log.Log(t.Context(), slog.LevelDebug, "too little")
	if lines, _ := b.Lines(); len(lines) != 1 || !strings.Contains(lines[0], "msg=during") {
		t.Errorf("the board has %q", lines)
	}
	a.screen.set(nil, nil)
	log.Warn("after")
	if n := strings.Count(errOut.String(), "\n"); n != 3 {
		t.Errorf("%d lines are in the log:\n%s", n, errOut.String())
	}
}

// An event goes to the board while there is one; else it is a line.
func TestAnEventIsShownOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := &session{app: &app{out: &out}}
	b := board.New(board.Options{Now: time.Now})
	s.screen.set(b, nil)
	s.tell(store.Event{Cluster: "demo", Node: "a", State: "Booting"})
	if out.Len() > 0 || b.Sentence() != "1 Booting; longest: a Booting for 0s" && !strings.HasPrefix(b.Sentence(), "1 Booting") {
		t.Errorf("with a board: the line %q, the board %q", out.String(), b.Sentence())
	}
	s.screen.set(nil, nil)
	s.tell(store.Event{Cluster: "demo", Node: "a", State: "Maintenance", Message: "up"})
	if !strings.Contains(out.String(), "Maintenance") || strings.Contains(b.Sentence(), "Maintenance") {
		t.Errorf("without a board: the line %q, the board %q", out.String(), b.Sentence())
	}
}

// What is planned is on the board from the beginning, with what an interrupted run had come to.
func TestThePlanIsOnTheBoard(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	p := provisioner.Plan{Cluster: "demo", Resumes: "r1", Nodes: []provisioner.PlanNode{
		{Cluster: "demo", Node: "a", Action: provisioner.ActionInstall, Until: provisioner.UntilReady, Reason: "would be installed", Vendor: "Dell", Model: "R650"},
		{Cluster: "demo", Node: "b", Action: provisioner.ActionSkip},
		{Cluster: "demo", Node: "c", Action: provisioner.ActionResume, Until: provisioner.UntilMaintenance},
		{Cluster: "demo", Node: "d", Action: provisioner.ActionDone, Until: provisioner.UntilInstalled},
		{Cluster: "demo", Node: "e", Action: provisioner.ActionHold, Cause: provisioner.CauseIdentity, Hint: "correct the serial"},
		{Cluster: "demo", Node: "f", Action: provisioner.ActionFail, Cause: provisioner.CauseNoBMC},
	}}
	rows := plannedRows(p, []store.Node{
		{Cluster: "demo", Name: "a", Run: "r0", State: "Failed"}, // of another run
		{Cluster: "demo", Name: "c", Run: "r1", State: "Booting", Since: since, Attempts: 2},
	})
	want := []struct{ name, state, goal, cause string }{
		{"a", "Pending", "Ready", ""}, {"c", "Booting", "Maintenance", ""}, {"d", "Installed", "Installed", ""},
		{"e", "Held", "", "identity"}, {"f", "Failed", "", "no BMC"},
	}
	if len(rows) != len(want) {
		t.Fatalf("%d rows, want %d", len(rows), len(want))
	}
	for i, w := range want {
		if r := rows[i]; r.Name != w.name || r.State != w.state || r.Goal != w.goal || r.Cause != w.cause {
			t.Errorf("row %d is %+v, want %v", i, r, w)
		}
	}
	if r := rows[1]; !r.Since.Equal(since) || r.Attempts != 2 {
		t.Errorf("the resumed node is %+v", r)
	}
	facts := make([]string, 0, len(rows[0].Facts))
	for _, f := range rows[0].Facts {
		facts = append(facts, f.Label+"="+f.Value)
	}
	if text := strings.Join(facts, " "); !strings.Contains(text, "machine=Dell R650") || !strings.Contains(text, "goal=ready") {
		t.Errorf("the facts are %s", text)
	}
}

// A guard that is told that all is well, or is no terminal's, does nothing.
func TestAGuardWithoutATerminalEnds(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"", "{}\n", "{}\n" + guardDone, "{}\npanic: oh"} {
		var errOut bytes.Buffer
		if err := watchOver(strings.NewReader(in), nil, &errOut); err != nil || errOut.Len() > 0 {
			t.Errorf("after %q: %v, %q", in, err, errOut.String())
		}
	}
	var g *guard
	g.release() // there may be none
	if _, err := newGuard(context.Background(), os.Stdin); err == nil && terminalOf(os.Stdin) == nil {
		t.Error("what is no terminal is guarded")
	}
}
