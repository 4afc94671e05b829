package upgrade

import (
	"context"
	"errors"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
)

// node is one node while a run works on it. One goroutine drives it.
type node struct {
	r      *Runner
	record Record
	// resumed: nothing was done to it yet by this process, so that a step that was written may or may not have had its effect.
	resumed bool
}

// transition is what a handler asks for.
type transition struct {
	state   State
	step    step
	message string
	// change changes the record together with the state; it may be nil.
	change func(*Record)
}

// handler does what a state asks for. An error ends the node's way. When ctx ends
// a handler returns its error: the record then says where to go on.
type handler func(ctx context.Context, n *node) (transition, error)

// handlers is the state machine: each state that does not end the way has one handler.
func handlers() map[State]handler {
	return map[State]handler{
		Gated:      cordon,
		Cordoned:   drain,
		Drained:    install,
		Upgrading:  orderReboot,
		Rebooting:  awaitReboot,
		Verifying:  verify,
		Uncordoned: settle,
	}
}

// live takes the node from state to state until its end, or until ctx ends. The
// error is of the state store only: without it nothing may go on.
func (n *node) live(ctx context.Context) error {
	handle := handlers()
	for !n.record.ended() {
		next, err := handle[n.record.State](ctx, n)
		switch stopped := ctx.Err() != nil; {
		case err == nil:
			err = n.enter(ctx, next)
		case stopped:
			return nil //nolint:nilerr // the record says where to go on
		case !errors.As(err, new(*storeError)):
			err = n.fail(ctx, err)
		}
		if err != nil {
			return err
		}
		n.resumed = false
	}
	return nil
}

// enter moves the node on.
func (n *node) enter(ctx context.Context, t transition) error {
	return n.update(ctx, func(r *Record) {
		r.State, r.Step, r.Message = t.state, string(t.step), t.message
		if t.change != nil {
			t.change(r)
		}
	})
}

// mark writes a step of the state that the node is in, before its effect.
func (n *node) mark(ctx context.Context, s step, message string, change func(*Record)) error {
	return n.enter(ctx, transition{n.record.State, s, message, change})
}

// fail ends the node's way: it stays cordoned if it was, with the reason.
func (n *node) fail(ctx context.Context, err error) error {
	f := &failure{verdict: VerdictUnfit, err: err}
	_ = errors.As(err, &f)
	failed := n.update(ctx, func(r *Record) {
		r.FailedIn, r.FailedStep = r.State, r.Step
		r.State, r.Step, r.Message = Failed, "", string(f.verdict)
		r.Verdict, r.Error, r.Hint = f.verdict, f.err.Error(), endings[f.verdict].hint
	})
	if failed != nil || !n.record.Cordoned || n.r.o.Kubernetes == nil {
		return failed
	}
	// The reason on the Node object is for those who look there; the record has it in any case.
	if _, err := n.r.o.Kubernetes.Cordon(ctx, n.record.KubernetesName, n.record.Run, string(f.verdict)); err != nil {
		n.r.o.Log.Warn("cannot write the reason on the Node object", "node", n.record.Node, "error", err)
	}
	return nil
}

// revive takes a failed node to where --continue goes on with it.
func (n *node) revive(ctx context.Context) error {
	r := n.record
	state, at := r.FailedIn, step(r.FailedStep)
	if resume := endings[r.Verdict].resume; resume != "" {
		state, at = resume, stepNone
	}
	switch {
	case r.Verdict == VerdictNeverRebooted && r.API == Legacy:
		state = Drained // its order ended with it: only a new one installs
	case state == Rebooting:
		at = stepOrdered
	}
	return n.enter(ctx, transition{state, at, "the run goes on", func(r *Record) {
		r.FailedIn, r.FailedStep, r.Rescued = "", "", false
		// Whether it still runs what it was booted with from the network is not known: it is booted anew.
		r.NetBooted = r.NetBooted && state != Drained
	}})
}

// storeError is of the state store.
type storeError struct{ err error }

func (e *storeError) Error() string { return e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

// update changes the record: stored together with its event first, relied on and
// told after.
func (n *node) update(ctx context.Context, change func(*Record)) error {
	before, record := n.record, n.record
	record.Error, record.Hint, record.Verdict = "", "", ""
	change(&record)
	now := time.Now()
	if record.State != before.State {
		record.Since = now
	}
	event := store.Event{
		Time: now.UTC(), Run: record.Run, Cluster: record.Cluster, Node: record.Node,
		State: string(record.State), Previous: string(before.State), Message: record.Message, Error: record.Error, Hint: record.Hint,
	}
	if err := n.r.o.Store.Record(context.WithoutCancel(ctx), record, event); err != nil {
		return &storeError{err}
	}
	n.record = record
	n.r.setTouched(record)
	n.r.o.Publish(event)
	return nil
}
