package upgrade

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// work is one process's part of a run.
type work struct {
	*Runner
	nodes  map[string]*node
	pulled map[string]bool // "host image" that were pulled
}

func (w *work) records() []Record {
	records := make([]Record, 0, len(w.nodes))
	for _, n := range w.nodes {
		records = append(records, n.record)
	}
	slices.SortFunc(records, func(a, b Record) int { return cmp.Compare(a.Node, b.Node) })
	return records
}

// all takes every node to the target: first those that an earlier process left on
// their way, then batch after batch. The cluster is looked at anew before each:
// nodes come and go, and so does the leadership of etcd.
func (w *work) all(ctx context.Context) ([]Finding, error) {
	if err := w.finishBegun(ctx); err != nil {
		return nil, err
	}
	for {
		plan, found, err := w.gate(ctx)
		switch {
		case err != nil:
			return nil, err
		case len(found) > 0:
			return found, fmt.Errorf("upgrade %s: %w: %s", w.o.Cluster, ErrParked, textOf(found))
		case len(plan.batches) == 0:
			return w.conclude(ctx, plan)
		}
		if err := w.prePull(ctx, plan); err != nil {
			return nil, err
		}
		batch, err := w.admit(ctx, plan, plan.batches[0])
		if err != nil {
			return nil, err
		}
		if err := w.drive(ctx, batch); err != nil {
			return nil, err
		}
	}
}

// finishBegun brings the nodes to their end that an earlier process has touched.
func (w *work) finishBegun(ctx context.Context) error {
	var begun []*node
	for _, n := range w.nodes {
		if !n.record.touched() || slices.Contains(w.o.Exclude, n.record.Node) {
			continue // what is left out stays as it is, and is reported
		}
		if n.record.State == Failed {
			if err := n.revive(ctx); err != nil {
				return err
			}
		}
		begun = append(begun, n)
	}
	// Control planes go one at a time, whatever was left behind.
	slices.SortFunc(begun, func(a, b *node) int { return cmp.Compare(a.record.Node, b.record.Node) })
	var workers, controlPlanes []*node
	for _, n := range begun {
		if n.record.Role == ControlPlane {
			controlPlanes = append(controlPlanes, n)
			continue
		}
		workers = append(workers, n)
	}
	if err := w.drive(ctx, workers); err != nil {
		return err
	}
	for _, n := range controlPlanes {
		if err := w.drive(ctx, []*node{n}); err != nil {
			return err
		}
	}
	return nil
}

// admit makes the nodes of a batch ready for their way, and writes that down.
func (w *work) admit(ctx context.Context, plan Plan, names []string) ([]*node, error) {
	if err := w.o.Store.SaveRun(context.WithoutCancel(ctx), w.run); err != nil {
		return nil, err
	}
	batch := make([]*node, 0, len(names))
	for _, name := range names {
		p, _ := plan.node(name)
		old, known := w.nodes[name]
		if known && old.record.State == Upgraded && old.record.Target == p.next() {
			return nil, fmt.Errorf("upgrade %s: %w: %s was upgraded to %s by this run and now runs %s; find out who changes it", w.o.Cluster, ErrParked, name, p.next(), p.Version)
		}
		n := &node{r: w.Runner, record: w.newRecord(plan, p)}
		if err := n.enter(ctx, transition{state: Gated, message: "its turn: from " + p.Version.String() + " to " + p.next().String()}); err != nil {
			return nil, err
		}
		w.nodes[name] = n
		batch = append(batch, n)
	}
	return batch, nil
}

func (w *work) newRecord(plan Plan, p PlanNode) Record {
	record := Record{
		Cluster: w.o.Cluster, Node: p.Node, Run: w.run.ID, Host: p.Host, Role: p.Role, State: Pending, Since: time.Now().UTC(),
		From: p.Version, Target: p.next(), Schematic: p.TargetSchematic, Image: p.Image, API: p.API,
		BootID: p.machine.Running.BootID, UUID: p.machine.Running.Facts.UUID,
	}
	// The pods of a cluster's only node can move nowhere.
	if !w.o.NoDrain && p.machine.Kubernetes != nil && len(plan.Nodes) > 1 {
		record.KubernetesName = p.machine.Kubernetes.Name
	}
	return record
}

// drive takes nodes to their end at the same time. A node that fails does not
// keep those of its batch from theirs.
func (w *work) drive(ctx context.Context, batch []*node) error {
	var group errgroup.Group
	for _, n := range batch {
		group.Go(func() error { return n.live(ctx) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("upgrade %s: interrupted; carry it on with --continue: %w", w.o.Cluster, err)
	}
	for _, n := range batch {
		if n.record.State == Failed {
			return fmt.Errorf("upgrade %s: %w: %s: %s: %s", w.o.Cluster, ErrFailed, n.record.Node, n.record.Message, n.record.Error)
		}
	}
	return nil
}

// conclude is for a cluster in which no node is left that may go.
func (w *work) conclude(ctx context.Context, plan Plan) ([]Finding, error) {
	var found []Finding
	for _, p := range plan.with(ActionHold) {
		reasons := blocking(p.Findings, ScopeNode)
		found = append(found, reasons...)
		n := &node{r: w.Runner, record: w.heldRecord(p)}
		if err := n.enter(ctx, transition{Held, stepNone, textOf(reasons), func(r *Record) { r.Error, r.Hint = reasons[0].Text, reasons[0].Hint }}); err != nil {
			return found, err
		}
		w.nodes[p.Node] = n
	}
	if len(found) > 0 {
		return found, fmt.Errorf("upgrade %s: %w: %s", w.o.Cluster, ErrHeld, textOf(found))
	}
	return nil, nil
}

func (w *work) heldRecord(p PlanNode) Record {
	return Record{
		Cluster: w.o.Cluster, Node: p.Node, Run: w.run.ID, Host: p.Host, Role: p.Role, State: Pending, Since: time.Now().UTC(),
		From: p.Version, Target: w.o.Target, Schematic: p.TargetSchematic,
	}
}
