package provisioner

import (
	"fmt"
	"strings"
)

// Goal is how far a run takes a node: --until.
type Goal string

// The goals, in the order of a node's life.
const (
	UntilMaintenance Goal = "maintenance" // Talos is up in maintenance and is this machine's
	UntilConfigured  Goal = "configured"  // it took its machine config
	UntilInstalled   Goal = "installed"   // it boots its own disk, and is what the inventory says
	UntilReady       Goal = "ready"       // it is a Ready node of its Kubernetes cluster
)

// goalStates are the goals and the states that end a run for a node with that goal.
var goalStates = []struct {
	goal  Goal
	state State
}{
	{UntilMaintenance, Maintenance},
	{UntilConfigured, Configured},
	{UntilInstalled, Installed},
	{UntilReady, Ready},
}

// ParseGoal reads the value of --until; "" stays "", which leaves it to each node.
func ParseGoal(text string) (Goal, error) {
	if text == "" {
		return "", nil
	}
	names := make([]string, 0, len(goalStates))
	for _, g := range goalStates {
		if string(g.goal) == text {
			return g.goal, nil
		}
		names = append(names, string(g.goal))
	}
	return "", fmt.Errorf("%q is no goal: use %s", text, strings.Join(names, ", "))
}

// state is the state in which a node has reached the goal.
func (g Goal) state() State {
	for _, s := range goalStates {
		if s.goal == g {
			return s.state
		}
	}
	return Maintenance
}

// reached says whether a node in this state has nothing more to do for the goal.
func (g Goal) reached(s State) bool {
	return s.rank() >= g.state().rank()
}

// Installs says whether a node with this goal gets a machine config, and so an
// installation on its disk.
func (g Goal) Installs() bool { return g != "" && g != UntilMaintenance }

// needsAccess says whether the goal can be seen only with the cluster's talosconfig.
func (g Goal) needsAccess() bool { return g == UntilInstalled || g == UntilReady }
