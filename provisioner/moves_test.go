package provisioner

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const (
	movesBegin = "<!-- moves:begin -->\n"
	movesEnd   = "<!-- moves:end -->\n"
)

// The documentation shows the state machine as it is: UPDATE=1 writes it.
func TestDocumentationShowsTheStateMachine(t *testing.T) {
	t.Parallel()
	const file = "../docs/architecture.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), movesBegin)
	was, after, ended := strings.Cut(rest, movesEnd)
	if !found || !ended {
		t.Fatalf("%s has no place for the state machine, between %q and %q", file, movesBegin, movesEnd)
	}
	want := fmt.Sprintf("\n%s\n```mermaid\n%s```\n\n", MovesTable(), Diagram())
	if was == want {
		return
	}
	if os.Getenv("UPDATE") == "" {
		t.Fatalf("%s is not what the table of moves gives: run UPDATE=1 go test ./provisioner -run Documentation", file)
	}
	if err := os.WriteFile(file, []byte(before+movesBegin+want+movesEnd+after), 0o644); err != nil { //nolint:gosec // documentation
		t.Fatal(err)
	}
}

// Every state that does not end a run has one handler, and can be left.
func TestEveryStateHasAHandlerAndAWayOut(t *testing.T) {
	t.Parallel()
	left := map[State]bool{}
	for _, m := range moves() {
		if m.to != m.from {
			left[m.from] = true
		}
	}
	handled := handlers()
	for state := range ranks {
		if state == Ready {
			continue
		}
		if handled[state] == nil || !left[state] {
			t.Errorf("%s has a handler: %t; a way out: %t", state, handled[state] != nil, left[state])
		}
	}
	if len(handled) != len(ranks)-1 {
		t.Errorf("%d handlers for %d states", len(handled), len(ranks)-1)
	}
}

// A handler that asks for what the table does not list is refused: no power is touched by it.
func TestAMoveThatTheTableDoesNotListIsRefused(t *testing.T) {
	t.Parallel()
	allowed := newArrows()
	for _, tt := range []struct {
		from, to State
		refused  bool
	}{
		{Pending, Identified, false},
		{Pending, Armed, true},
		{Identified, PowerCycled, true},
		{Maintenance, PowerCycled, true},
		{Maintenance, Pending, true},
		{Ready, Pending, true},
		{Booting, Maintenance, false},
		{Pending, "", true},
	} {
		if err := allowed.check(tt.from, transition{state: tt.to}); (err != nil) != tt.refused {
			t.Errorf("%s to %q: %v, want it refused: %t", tt.from, tt.to, err, tt.refused)
		}
	}
}
