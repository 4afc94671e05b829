package main

import (
	"bufio"
	"context"
	"strings"
)

// askYes waits for a person's answer to a question that is already on the
// screen. Only "yes" is nil; Ctrl-C is an answer too.
func (a *app) askYes(ctx context.Context) error {
	answer := make(chan string, 1)
	go func() { // a read cannot be interrupted; what is open must be closed all the same
		line, _ := bufio.NewReader(a.in).ReadString('\n')
		answer <- strings.TrimSpace(line)
	}()
	select {
	case line := <-answer:
		if line == "yes" {
			return nil
		}
		return &statusError{exitRefused, "not confirmed: nothing was touched"}
	case <-ctx.Done():
		return &statusError{exitInterrupted, "interrupted: nothing was touched"}
	}
}
