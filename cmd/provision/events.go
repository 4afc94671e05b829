package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/store"
)

// tell shows an event: a line of JSON for machines; for people on the board, or a short line.
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
	if s.screen.shows(e) {
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
		printSummary(s.out, summary)
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
