package provisioner

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner/machineconfig"
	"github.com/talos-provision/provision/provisioner/store"
)

// node is one node while a run works on it. Its life is driven by one
// goroutine (live), the only one that changes its record; the boot services
// report what they saw from others.
type node struct {
	inventory.Node
	c   *Controller
	run *run
	// args is the kernel command line of its install script.
	args string
	// goal is where the run ends for the node; config and admin are what lies beyond maintenance needs.
	goal Goal
	// reinstall says that a configured Talos on it may be wiped (I2).
	reinstall bool
	// over says that the node is booted over its installation, which stays: no config is sent.
	over   bool
	config machineconfig.Config
	admin  Admin
	// resumed: an earlier controller worked on it in this run.
	resumed bool

	mu     sync.Mutex
	record store.Node
	seen   sighted
	token  string // which its config may be fetched with at the next boot; "" when it is not fetched
	// notify has room for one: seen has changed.
	notify chan struct{}

	// The rest is of live alone.
	client   BMC    // the open session, if any
	prepared bool   // it has a place among those that are armed and power cycled
	wasOn    bool   // the machine was on when the session was opened
	left     step   // of its power cycle, in which an earlier controller left it; until that was compared with the machine
	lastMiss string // why the latest probe did not confirm the node
	applies  int    // how often its config was sent
	// elsewhere counts the looks in a row that found it at another address than its own, silent
	// those at its own in vain since its kernel could be up.
	elsewhere, silent int
	// bootstrapped says that etcd of its cluster runs, or was told to; bootstrapWaits why it was not yet.
	bootstrapped   bool
	bootstrapWaits string
	bootstrapClaim *store.Claim // the right to bootstrap, while this node has it
}

// newNode takes the plan's decision for a node over into the run. Nothing is
// stored yet.
func (c *Controller) newNode(r *run, p PlanNode) (*node, error) {
	n := &node{
		Node: p.node, c: c, run: r, reinstall: p.Reinstall, args: p.KernelArgs, goal: p.Until, config: p.config, notify: make(chan struct{}, 1),
		admin: c.adminOf(p.node),
	}
	n.renewToken()
	if n.reinstall {
		n.args += " " + wipeArg
	}
	if p.Action == ActionResume {
		n.record, n.resumed = p.record, true
		n.record.LastPowerOn, n.record.Since = past(p.record.LastPowerOn), past(p.record.Since)
		n.seen.stage = bootStage(p.record.Step)
		if n.state() == Armed {
			n.left = step(p.record.Step)
		}
		return n, nil
	}
	old, found, err := c.opts.Store.Node(p.Cluster, p.Node)
	if err != nil {
		return nil, err
	}
	n.record = store.Node{
		Cluster: p.Cluster, Name: p.Node, Run: r.ID, State: string(Pending), Since: time.Now(),
		Facts: p.Facts, IdentifiedBy: p.IdentifiedBy, Vendor: p.Vendor, Model: p.Model,
	}
	if found {
		// What is on its disk, and the reboot interval, hold over all runs, the attempts within one (I7).
		n.record.LastPowerOn, n.record.ConfiguredBy, n.record.Address = past(old.LastPowerOn), old.ConfiguredBy, old.Address
		if old.Run == r.ID {
			n.record.Attempts = old.Attempts
		}
	}
	return n, nil
}

// begin writes down what the plan decided, before anything is done to any node.
func (n *node) begin(p PlanNode) error {
	switch p.Action {
	case ActionDone, ActionConfigure, ActionFollow:
		return n.update(func(r *store.Node) {
			r.State, r.Message = string(p.found), p.Reason
			r.Address, r.TalosVersion, r.TalosFacts = p.host, n.TalosVersion, p.talosFacts
			r.SeenInMaintenance = p.found == Maintenance
		})
	case ActionHold, ActionFail:
		return n.writeOff(p.failure) // the person who confirmed the plan saw it: it stops no run
	case ActionResume:
		return n.update(func(r *store.Node) { r.Message = "the run goes on: " + r.Message })
	case ActionInstall, ActionSkip:
	}
	return n.enter(transition{state: Pending, message: p.Reason})
}

// transition is what a handler asks for: the next state, how far inside it,
// and what to tell.
type transition struct {
	state    State
	step     step
	message  string
	progress *store.Progress // of a download, if that is what is told
}

// handler does what a state asks for. An error gives the node up. When ctx
// ends a handler returns the zero transition and ctx's error: the record then
// says where to go on (I8).
type handler func(ctx context.Context, n *node) (transition, error)

// handlers is the state machine: each state that does not end a run has one handler.
func handlers() map[State]handler {
	return map[State]handler{
		Pending:     identify,
		Identified:  arm,
		Armed:       powerCycle,
		PowerCycled: awaitMaintenance,
		Booting:     awaitMaintenance,
		Maintenance: configure,
		Configured:  awaitInstall,
		Installed:   awaitReady,
	}
}

// live takes the node from state to state until one that ends the run for it,
// or until ctx ends. The error is of the state store only: without it nothing
// may go on.
func (n *node) live(ctx context.Context) error {
	defer n.unprepare()
	defer n.yieldBootstrap(ctx)
	defer n.hangUp(ctx)
	handle := handlers()
	for !n.ended() {
		from := n.state()
		next, err := handle[from](ctx, n)
		if err == nil {
			err = n.c.allowed.check(from, next)
		}
		var state *stateError
		switch {
		case err == nil:
			err = n.enter(next)
		case errors.As(err, &state), errors.Is(err, store.ErrOutOfReach), errors.Is(err, store.ErrFenced):
			return err
		case ctx.Err() != nil:
			return nil
		default:
			n.eject(ctx)
			err = n.giveUp(classify(err))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ended says whether the run has nothing more to do for the node.
func (n *node) ended() bool {
	state := n.state()
	return state.GivenUp() || n.goal.reached(state)
}

func (n *node) state() State {
	n.mu.Lock()
	defer n.mu.Unlock()
	return State(n.record.State)
}

// snapshot returns the node's record as it stands.
func (n *node) snapshot() store.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.record
}

// enter moves the node on.
func (n *node) enter(t transition) error {
	return n.update(func(r *store.Node) {
		r.State, r.Step, r.Message, r.Progress = string(t.state), string(t.step), t.message, t.progress
	})
}

// giveUp ends the node's run with the reason and what to do about it.
func (n *node) giveUp(f *Failure) error {
	if !f.Hold {
		n.run.failures.Add(1)
	}
	return n.writeOff(f)
}

func (n *node) writeOff(f *Failure) error {
	n.remember(n.noteSource)
	return n.update(func(r *store.Node) {
		r.State = string(Failed)
		if step(r.Step) != stepBootstrapping { // the others must know that etcd may run there
			r.Step = ""
		}
		if f.Hold {
			r.State = string(Held)
		}
		r.Message, r.Cause, r.Error, r.Hint = string(f.Cause), string(f.Cause), f.Err.Error(), f.Advice()
	})
}

// update changes the record: stored together with its event first, relied on
// and told after (I8).
func (n *node) update(change func(*store.Node)) error {
	before := n.snapshot()
	record := before
	record.Error, record.Hint, record.Cause, record.Progress = "", "", "", nil
	change(&record)
	now := time.Now()
	if record.State != before.State {
		record.Since = now
	}
	switch state := State(record.State); {
	case state == Maintenance:
		record.ConfiguredBy = ""
	case state.rank() >= Configured.rank() && record.ConfiguredBy == "":
		record.ConfiguredBy = record.Run
	}
	event := store.Event{
		Time: now.UTC(), Run: record.Run, Cluster: record.Cluster, Node: record.Name,
		State: record.State, Previous: before.State, Message: record.Message, Error: record.Error, Hint: record.Hint, Cause: record.Cause,
		Progress: record.Progress,
	}
	if err := n.c.write(record, event); err != nil {
		return err
	}
	n.mu.Lock()
	n.record = record
	n.mu.Unlock()
	n.c.publish(event)
	return nil
}
