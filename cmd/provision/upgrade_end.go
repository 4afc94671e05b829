package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/talos-provision/provision/provisioner/upgrade"
)

// planError is for a cluster that could not even be looked at.
func (u *upgrader) planError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &statusError{exitInterrupted, "interrupted: nothing was touched"}
	}
	return &statusError{exitFailed, err.Error()}
}

// endings are the errors of a run with their exit status, tried in this order.
var upgradeEndings = []struct {
	err    error
	status int
}{
	{upgrade.ErrNothingToContinue, exitUsage},
	{upgrade.ErrUnfinished, exitRefused},
	{upgrade.ErrLocked, exitRefused},
	{upgrade.ErrPull, exitFailed},
	{upgrade.ErrParked, exitRefused},
	{upgrade.ErrFailed, exitFailed},
	{upgrade.ErrHeld, exitRefused},
}

// concludeUpgrade tells how the run ended and gives the exit status.
func (u *upgrader) concludeUpgrade(ctx context.Context, result upgrade.Result, err error) error {
	if !u.asJSON {
		u.tellResult(result)
	}
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return &statusError{exitFailed, fmt.Sprintf("stopped: %v", cause)}
	}
	if ctx.Err() != nil || errors.Is(err, context.Canceled) { // the latter by Ctrl-C on the board
		return &statusError{exitInterrupted, "interrupted: carry the upgrade on with --continue"}
	}
	for _, ending := range upgradeEndings {
		if errors.Is(err, ending.err) {
			return &statusError{ending.status, err.Error()}
		}
	}
	return &statusError{exitFailed, err.Error()}
}

// tellResult tells a person how each node ended.
func (u *upgrader) tellResult(result upgrade.Result) {
	counts := map[upgrade.State]int{}
	for _, n := range result.Nodes {
		counts[n.State]++
	}
	ended := counts[upgrade.Upgraded] + counts[upgrade.Failed] + counts[upgrade.Held]
	say(u.out, "\n%d upgraded, %d failed, %d held", counts[upgrade.Upgraded], counts[upgrade.Failed], counts[upgrade.Held])
	if open := len(result.Nodes) - ended; open > 0 {
		say(u.out, ", %d on their way", open)
	}
	say(u.out, "\n")
	for _, n := range result.Nodes {
		if n.State != upgrade.Failed && n.State != upgrade.Held {
			continue
		}
		say(u.out, "\n%s %s: %s: %s\n  -> %s\n", n.Node, strings.ToLower(string(n.State)), n.Message, n.Error, n.Hint)
	}
	for _, f := range result.Findings {
		say(u.out, "\n%s\n", f)
	}
	if names := result.Cordoned(); len(names) > 0 {
		say(u.out, "\nleft cordoned: %s\n", strings.Join(names, ", "))
	}
}

// abandoner ends an unfinished upgrade.
func (u *upgrader) abandoner() (*upgrade.Runner, error) {
	return upgrade.New(upgrade.Options{
		Cluster: u.flags.cluster, Target: upgrade.Version{Major: 1}, NoDrain: true, // neither is used to give up
		Members: u.listMembers, Talos: upgradeTalos{u}, Store: u.runs(), Holder: u.holder(), Log: u.log,
	})
}

// giveUp ends the unfinished upgrade.
func (u *upgrader) giveUp(ctx context.Context) error {
	runner, err := u.abandoner()
	if err != nil {
		return usageError("%v", err)
	}
	result, err := runner.Abandon(ctx)
	switch {
	case errors.Is(err, upgrade.ErrNothingToContinue):
		return usageError("%v", err)
	case err != nil:
		return &statusError{exitFailed, err.Error()}
	}
	return u.tellGivenUp(result)
}

// tellGivenUp tells how an abandoned upgrade leaves its nodes.
func (u *upgrader) tellGivenUp(result upgrade.Result) error {
	if u.asJSON {
		return u.printJSON(result)
	}
	say(u.out, "The upgrade %s of %s to Talos %s is ended.\n", result.Run, result.Cluster, result.Target)
	for _, n := range result.Nodes {
		if n.State != upgrade.Upgraded && n.State != upgrade.Held {
			say(u.out, "%s was left in state %s (%s); look at it\n", n.Node, n.State, n.Message)
		}
		if n.Cordoned {
			say(u.out, "%s stays cordoned: uncordon it by `kubectl uncordon %s`\n", n.Node, n.KubernetesName)
		}
	}
	return nil
}
