package provisioner

import (
	"fmt"
	"strings"
)

// move is one arrow of the state machine: seen in a state, it makes the handler of
// that state act and move on.
type move struct {
	from State
	seen string
	does string
	to   State
}

// moves is the whole state machine. The handlers make the observations; live
// refuses any move that is not listed, and the diagram in docs/architecture.md is
// made from it. Besides, every state can end in Failed or Held.
func moves() []move {
	return []move{
		{Pending, "the BMC is this node's and nobody else's, no configured Talos answers", "log in to the BMC", Identified},

		{Identified, "the reboot interval is not over", "wait", Identified},
		{Identified, "may be powered, has a place among those prepared", "set the one-time network boot, read it back", Armed},

		{Armed, "the reboot interval is not over", "wait", Armed},
		{Armed, "the power window has a place for it", "power off, arm again, power on: a step each", Armed},
		{Armed, "the BMC took the power-on", "log out of the BMC", PowerCycled},

		{PowerCycled, "a request of its firmware or iPXE", "serve it", Booting},
		{PowerCycled, "Talos in maintenance, and it is this machine", "confirm it, disarm it for good", Maintenance},
		{PowerCycled, "its machine config was handed out", "look for its installation", Configured},
		{PowerCycled, "Talos runs from the network over its installation", "confirm it", Installed},
		{PowerCycled, "the boot timeout is over, and attempts are left", "begin anew", Pending},
		{PowerCycled, "a problem that DHCP reports", "tell of it", PowerCycled},

		{Booting, "a later request, or progress of a download", "serve it", Booting},
		{Booting, "Talos in maintenance, and it is this machine", "confirm it, disarm it for good", Maintenance},
		{Booting, "its machine config was handed out", "look for its installation", Configured},
		{Booting, "Talos runs from the network over its installation", "confirm it", Installed},
		{Booting, "the boot timeout is over, and attempts are left", "begin anew", Pending},

		{Maintenance, "the override is gone, the disk is there, a dry run passes", "write down that the config is sent", Maintenance},
		{Maintenance, "the node took its config, or may have", "look for its installation", Configured},

		{Configured, "it boots from the network again", "offer its own disk", Configured},
		{Configured, "still in maintenance, and its answer was lost", "send the config once more", Maintenance},
		{Configured, "answers to the cluster's certificate, installed as asked", "take back a kept override", Installed},

		{Installed, "every control plane waits, and it is the one to begin", "bootstrap etcd", Installed},
		{Installed, "Talos is running, and Kubernetes says Ready", "done", Ready},
	}
}

// arrows are the moves that there are, by from and to.
type arrows map[[2]State]bool

func newArrows() arrows {
	all := arrows{}
	for _, m := range moves() {
		all[[2]State{m.from, m.to}] = true
	}
	return all
}

// check refuses a move that the table does not list. A handler that asks for one
// is a bug, and must not power anything.
func (a arrows) check(from State, t transition) error {
	if a[[2]State{from, t.state}] {
		return nil
	}
	return failed(CauseInternal, "the handler of %s asked for %q, which the state machine does not allow", from, t.state)
}

// Diagram is the state machine as a Mermaid state diagram.
func Diagram() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n    [*] --> Pending\n")
	labels := map[[2]State][]string{}
	var order [][2]State
	for _, m := range moves() {
		arrow := [2]State{m.from, m.to}
		if labels[arrow] == nil {
			order = append(order, arrow)
		}
		labels[arrow] = append(labels[arrow], m.seen)
	}
	for _, arrow := range order {
		fmt.Fprintf(&b, "    %s --> %s: %s\n", arrow[0], arrow[1], strings.Join(labels[arrow], "; or "))
	}
	b.WriteString("    note right of Pending: every state can end in Failed (why, and what to do) or Held (not safe to touch)\n")
	for _, end := range []State{Maintenance, Configured, Installed, Ready} {
		fmt.Fprintf(&b, "    %s --> [*]: the run's goal\n", end)
	}
	return b.String()
}

// MovesTable is the state machine as a Markdown table.
func MovesTable() string {
	var b strings.Builder
	b.WriteString("| state | what is seen | what is done | next |\n| --- | --- | --- | --- |\n")
	for _, m := range moves() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", m.from, m.seen, m.does, m.to)
	}
	return b.String()
}
