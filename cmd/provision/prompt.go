package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/talos-provision/provision/provisioner"
)

// confirm asks the person whether the machines may be power cycled and written to.
func (s *session) confirm(ctx context.Context, plan provisioner.Plan) error {
	cycled, installed := s.affected(plan)
	if len(cycled)+len(installed) == 0 || s.flags.yes {
		return nil
	}
	if !s.terminal {
		return &statusError{exitRefused, fmt.Sprintf("%d machines would be power cycled, and Talos be installed on the disks of %d, and nobody is here to ask: give --yes", len(cycled), len(installed))}
	}
	say(s.errOut, "\n")
	if len(cycled) > 0 {
		say(s.errOut, "These %d machines will be POWER CYCLED and booted from the network:\n  %s\n", len(cycled), strings.Join(cycled, ", "))
	}
	if len(installed) > 0 {
		say(s.errOut, "Talos will be INSTALLED on a disk of these %d, by their machine configs:\n  %s\n", len(installed), strings.Join(installed, ", "))
	}
	say(s.errOut, "Go on? Type yes: ")
	return s.askYes(ctx)
}

// affected are the machines that the plan would power cycle, and those that it would write to.
func (s *session) affected(plan provisioner.Plan) (cycled, installed []string) {
	for _, n := range plan.Nodes {
		install := n.Action == provisioner.ActionInstall
		if install {
			name := n.Node
			if n.Reinstall {
				name += " (WIPED)"
			}
			cycled = append(cycled, name)
		}
		if n.Until.Installs() && (install || n.Action == provisioner.ActionConfigure) {
			installed = append(installed, n.Node)
		}
	}
	return cycled, installed
}

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
