package main

import (
	"io"
	"strings"

	"github.com/talos-provision/provision/cmd/provision/board"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/store"
)

// ending is how nodes ended that ended alike.
type ending struct{ state, cause, message, err, hint string }

// printSummary tells how a run ended: the numbers, then what a person has to look at.
// Nodes of which there is the same to say are one line.
func printSummary(w io.Writer, s provisioner.Summary) {
	say(w, "\n%d done, %d failed, %d held, %d skipped", len(s.Done), len(s.Failed), len(s.Held), len(s.Skipped))
	if n := len(s.Unfinished); n > 0 {
		say(w, ", %d not finished", n)
	}
	say(w, "\n")
	for _, nodes := range [][]store.Node{s.Failed, s.Held} {
		for _, g := range grouped(nodes, endingOf, func(n store.Node) string { return n.Name }) {
			printEnding(w, g)
		}
	}
	printUnfinished(w, s.Unfinished)
	printSkipped(w, s.Skipped)
}

func endingOf(n store.Node) ending {
	return ending{state: strings.ToLower(n.State), cause: n.Cause, message: n.Message, err: n.Error, hint: n.Hint}
}

// printEnding is one thing that went wrong: where, the word that the documentation
// knows it by, the error, and what to do.
func printEnding(w io.Writer, g alike[ending]) {
	say(w, "\n%s", foldNames(g.names))
	if len(g.names) > 1 {
		say(w, " (%d nodes)", len(g.names))
	}
	say(w, " %s", g.key.state)
	if g.key.cause != "" {
		say(w, ", %s", g.key.cause)
	}
	say(w, ": %s\n", board.Clean(orElse(g.key.err, g.key.message)))
	if g.key.hint != "" {
		say(w, "  -> %s\n", board.Clean(g.key.hint))
	}
}

func printUnfinished(w io.Writer, nodes []store.Node) {
	groups := grouped(nodes, func(n store.Node) string { return n.State }, func(n store.Node) string { return n.Name })
	for i, g := range groups {
		if i == 0 {
			say(w, "\n")
		}
		say(w, "%d not finished, %s: %s\n", len(g.names), g.key, foldNames(g.names))
	}
}

func printSkipped(w io.Writer, nodes []provisioner.PlanNode) {
	type why struct{ reason, hint string }
	groups := grouped(nodes, func(n provisioner.PlanNode) why { return why{n.Reason, n.Hint} }, func(n provisioner.PlanNode) string { return n.Node })
	for i, g := range groups {
		if i == 0 {
			say(w, "\n")
		}
		say(w, "%d skipped: %s: %s\n", len(g.names), board.Clean(g.key.reason), foldNames(g.names))
		if g.key.hint != "" {
			say(w, "  -> %s\n", board.Clean(g.key.hint))
		}
	}
}
