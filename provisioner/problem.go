package provisioner

import (
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/pxe/dhcp"
)

// ObserveProblem makes what DHCP reports of a node's machine, such as a boot
// loop, an event of the node that is being booted. What concerns nobody, or a
// machine that the run does not work on, is left to the log.
func (c *Controller) ObserveProblem(p dhcp.Problem) {
	verdict := c.fleet.Match(identity.Facts{MACs: []string{p.MAC}})
	if p.MAC == "" || verdict.Outcome != identity.Match {
		return
	}
	if n := c.lookup(verdict.Name); n != nil && n.armed() {
		n.report(string(p.Kind) + ": " + p.Message)
	}
}

// report has a problem become an event of the node.
func (n *node) report(problem string) {
	n.mu.Lock()
	n.seen.problem = problem
	n.mu.Unlock()
	n.wake()
}

// followProblem turns a problem that was not told yet into an event of the state
// that the node is in.
func (n *node) followProblem() (transition, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	problem := n.seen.problem
	n.seen.problem = ""
	if problem == "" {
		return transition{}, false
	}
	return transition{state: State(n.record.State), step: step(n.record.Step), message: problem}, true
}
