package provisioner

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/pxe/httpboot"
)

// Direct tells what a machine that asks for a boot script gets (I3): an
// install only when its facts point to one armed node and to no other; a
// bounded wait when that node is just being armed; its own disk otherwise.
func (c *Controller) Direct(_ context.Context, r httpboot.Request) httpboot.Answer {
	answer := c.direct(r)
	c.opts.Log.Info("a machine asked for a boot script", "node", answer.Node, "boots", answer.Kind.String(), "reason", answer.Reason,
		"source", r.Source, "serial", r.Facts.Serial, "boardSerial", r.Facts.BoardSerial, "uuid", r.Facts.UUID, "macs", r.Facts.MACs)
	return answer
}

func (c *Controller) direct(r httpboot.Request) httpboot.Answer {
	verdict := c.fleet.Match(r.Facts)
	switch verdict.Outcome {
	case identity.Match:
	case identity.Conflict:
		if !r.Head {
			c.blame(verdict)
		}
		return local("", verdict.Reason)
	case identity.Nobody:
		return local("", verdict.Reason)
	}
	n := c.lookup(verdict.Name)
	if n == nil && c.interrupted(verdict.Name, r) {
		return httpboot.Answer{Kind: httpboot.Wait, Node: verdict.Name, Reason: "the run that booted it was cut short, and may go on in a moment"}
	}
	if n == nil {
		answer := local(verdict.Name, "no run works on it")
		answer.LocalBoot = c.fleet.localBoot(verdict.Name)
		return answer
	}
	answer := n.direct(r)
	answer.LocalBoot = n.LocalBoot
	return answer
}

// interruptedWaits is how often in a row a machine is told to wait for a run that was
// cut short: two minutes, in which a daemon is back and has planned it anew.
const interruptedWaits = 24

// interrupted says whether the node was being booted by a run that was cut short and
// that nobody stopped. Sent to its own disk now, it would have to be power cycled
// once more. It gets no install script before the run has it again (I3).
func (c *Controller) interrupted(id string, r httpboot.Request) bool {
	if c.opts.Store == nil || r.Waits >= interruptedWaits {
		return false
	}
	cluster, name, _ := strings.Cut(id, "/")
	record, found, err := c.opts.Store.Node(cluster, name)
	booting := State(record.State).InFlight() || State(record.State) == Armed && step(record.Step) == stepPoweringOn
	if err != nil || !found || !booting {
		return false
	}
	run, unfinished, err := c.opts.Store.UnfinishedRun(cluster, c.opts.Site)
	return err == nil && unfinished && !run.Stopped && run.ID == record.Run
}

func local(node, reason string) httpboot.Answer {
	return httpboot.Answer{Kind: httpboot.LocalBoot, Node: node, Reason: reason}
}

func (n *node) direct(r httpboot.Request) httpboot.Answer {
	id, record := n.ID(), n.snapshot()
	switch {
	case n.armed():
	case State(record.State).settled():
		if !r.Head {
			n.landed(State(record.State), r.Source)
		}
		return local(id, "it is "+record.State)
	default:
		return httpboot.Answer{Kind: httpboot.Wait, Node: id, Reason: "it is being prepared: " + record.State}
	}
	if r.Arch != n.Arch {
		reason := fmt.Sprintf("its architecture is %q and the inventory says %q", r.Arch, n.Arch)
		if !r.Head {
			n.refuse(reason)
		}
		return local(id, reason)
	}
	if s := n.c.opts.Store; s != nil {
		// A controller that was cut off or paused may have lost the node to another, which answers it then.
		if err := s.MayWork(id); err != nil {
			return httpboot.Answer{Kind: httpboot.Wait, Node: id, Reason: err.Error()}
		}
	}
	if !r.Head { // a HEAD asks what there is, and is no boot
		n.c.remember(r.Source, n)
		n.see(stageOf(r), r.Source)
	}
	return httpboot.Answer{
		Kind: httpboot.Install, Node: id, Schematic: n.SchematicID, Version: n.TalosVersion, Args: n.args, SecureBoot: n.SecureBoot,
		ConfigToken: n.currentToken(), Reason: "it is armed: " + record.State,
	}
}

// armed says whether the node was powered on to boot from the network, or may
// have been: the machine can be faster than its BMC's answer.
func (n *node) armed() bool {
	record := n.snapshot()
	return State(record.State).InFlight() || (State(record.State) == Armed && step(record.Step) == stepPoweringOn)
}

// blame tells the armed nodes of a conflict why a machine, which may be theirs,
// got no install script.
func (c *Controller) blame(verdict identity.Verdict) {
	for _, name := range verdict.Names {
		if n := c.lookup(name); n != nil && n.armed() {
			n.refuse(verdict.Reason)
		}
	}
}

// remember joins an address to the node whose request came from it, so that
// downloads, which name nobody, can be told apart.
func (c *Controller) remember(source netip.Addr, n *node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sources[source] = n
}

func (c *Controller) bySource(source netip.Addr) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sources[source]
}
