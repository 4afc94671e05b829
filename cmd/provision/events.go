package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/store"
)

// tell prints an event: a line of JSON for machines, a short line for people.
func (s *session) tell(e store.Event) {
	s.telling.Lock()
	defer s.telling.Unlock()
	if s.asJSON {
		line, err := json.Marshal(e)
		if err == nil {
			say(s.out, "%s\n", line)
		}
		return
	}
	text := e.Message
	if e.Error != "" {
		text += ": " + e.Error
	}
	say(s.out, "%s  %-16s %-12s %s\n", e.Time.Local().Format(time.TimeOnly), e.Node, e.State, text)
}

// conclude tells how the run ended and gives the exit status.
func (s *session) conclude(summary provisioner.Summary, err error) error {
	if !s.asJSON {
		s.printSummary(summary)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return &statusError{exitInterrupted, "interrupted: run the same command again to go on where it stopped"}
	case err != nil:
		return &statusError{exitFailed, err.Error()}
	case len(summary.Failed) > 0:
		return &statusError{status: exitFailed}
	case len(summary.Held) > 0:
		return &statusError{status: exitRefused}
	}
	return nil
}

func (s *session) printSummary(summary provisioner.Summary) {
	say(s.out, "\n%d done, %d failed, %d held, %d skipped", len(summary.Done), len(summary.Failed), len(summary.Held), len(summary.Skipped))
	if n := len(summary.Unfinished); n > 0 {
		say(s.out, ", %d not finished", n)
	}
	say(s.out, "\n")
	for _, n := range append(summary.Failed, summary.Held...) {
		say(s.out, "\n%s %s: %s\n  -> %s\n", n.Name, strings.ToLower(n.State), n.Error, n.Hint)
	}
	for _, n := range summary.Skipped {
		say(s.out, "\n%s skipped: %s\n", n.Node, n.Reason)
	}
}
