package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/source"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
)

// A plan that was shown can be started for planAge, as long as the inventory is the
// same; the newest maxPlans are remembered.
const (
	planAge  = 15 * time.Minute
	maxPlans = 16
)

// planned is a plan that was shown to somebody.
type planned struct {
	digest     string
	plan       provisioner.Plan
	generation string
	at         time.Time
}

// job is a run of this daemon.
type job struct {
	id      string
	cluster string
	plan    provisioner.Plan
	started time.Time
	cancel  context.CancelFunc
	ended   chan struct{} // closed at its end
	// enlisted is closed by its first event: its nodes are known to the boot services then.
	enlisted     chan struct{}
	enlistedOnce sync.Once
	stopped      bool              // a person stopped it
	by           string            // who asked for it
	after        uint64            // the newest event from before it
	marks        map[string]string // of nodes that nobody asked for by hand: written before any machine is touched

	// The rest is there once ended is closed.
	finished time.Time
	summary  provisioner.Summary
	err      error
}

// leader is the leadership, while there is one.
func (d *Daemon) leader() (*leading, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.leading == nil {
		return nil, web.Unavailable(errors.New("this controller does not work on nodes now: it "+d.standing), "ask the one that leads the site, or wait until this one does")
	}
	return d.leading, nil
}

// Plan says what a run would do, and remembers it under its digest.
func (d *Daemon) Plan(ctx context.Context, r web.RunRequest) (web.PlanAnswer, error) {
	l, err := d.leader()
	if err != nil {
		return web.PlanAnswer{}, err
	}
	settings, g := d.now()
	request, err := d.request(g, settings, r)
	if err != nil {
		return web.PlanAnswer{}, err
	}
	plan, err := l.controller.Plan(ctx, request)
	if err != nil {
		return web.PlanAnswer{}, err
	}
	return web.PlanAnswer{Digest: d.remember(plan, g), Plan: plan}, nil
}

// request is what a person typed, on the nodes of a generation.
func (d *Daemon) request(g source.Generation, settings Settings, r web.RunRequest) (provisioner.Request, error) {
	until, err := provisioner.ParseGoal(r.Until)
	if err != nil {
		return provisioner.Request{}, web.Invalid(fmt.Errorf("until: %w", err), "")
	}
	limit, err := provisioner.ParseLimit(r.MaxFailures)
	if err != nil {
		return provisioner.Request{}, web.Invalid(fmt.Errorf("max-failures: %w", err), "")
	}
	if r.MaxFailures == "" {
		limit = settings.MaxFailures
	}
	selected, err := selectNodes(g.Tree, r, r.Nodes)
	if err != nil {
		return provisioner.Request{}, err
	}
	wiped := map[string]bool{}
	if r.Reinstall != "" {
		named, err := selectNodes(g.Tree, r, r.Reinstall)
		if err != nil {
			return provisioner.Request{}, err
		}
		for _, n := range named {
			wiped[n.ID()] = true
		}
	}
	return provisioner.Request{Cluster: r.Cluster, Selected: selected, Reinstall: wiped, Until: until, MaxFailures: limit, Daemon: true}, nil
}

func selectNodes(tree *inventory.Tree, r web.RunRequest, hostlist string) ([]inventory.Node, error) {
	s := inventory.Selection{Cluster: r.Cluster, Selector: r.Selector}
	if hostlist != "" {
		s.Nodes = []string{hostlist}
	}
	if r.Exclude != "" {
		s.Exclude = []string{r.Exclude}
	}
	nodes, err := tree.Select(s)
	if err != nil {
		return nil, web.Invalid(err, "")
	}
	return nodes, nil
}

func (d *Daemon) remember(plan provisioner.Plan, g source.Generation) string {
	p := planned{digest: plan.Digest(), plan: plan, generation: g.ID, at: time.Now()}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.plans = append(d.plans, p)
	if len(d.plans) > maxPlans {
		d.plans = d.plans[len(d.plans)-maxPlans:]
	}
	return p.digest
}

// recall finds a plan that was shown, newest first, if it still holds.
func (d *Daemon) recall(digest string) (provisioner.Plan, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := len(d.plans) - 1; i >= 0; i-- {
		p := d.plans[i]
		if p.digest == digest && p.generation == d.generation.ID && time.Since(p.at) < planAge {
			return p.plan, true
		}
	}
	return provisioner.Plan{}, false
}

// Start carries out the plan with the digest that somebody has seen and confirmed.
// When it does not hold any more nothing is started, and the error has the new one.
func (d *Daemon) Start(ctx context.Context, r web.RunRequest) (web.RunInfo, error) {
	l, err := d.leader()
	if err != nil {
		return web.RunInfo{}, err
	}
	plan, holds := d.recall(r.Digest)
	if !holds {
		answer, err := d.Plan(ctx, r)
		if err != nil {
			return web.RunInfo{}, err
		}
		if answer.Digest != r.Digest {
			return web.RunInfo{}, web.PlanChanged(answer)
		}
		plan = answer.Plan
	}
	j, err := d.launch(l, plan, web.Caller(ctx), nil)
	if err != nil {
		return web.RunInfo{}, err
	}
	return d.info(j)
}

// launch begins a run that outlives the request for it.
func (d *Daemon) launch(l *leading, plan provisioner.Plan, by string, marks map[string]string) (*job, error) {
	after, err := d.opts.Store.LastEvent()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(l.ctx)
	j := &job{
		id: plan.RunID(), cluster: plan.Cluster, plan: plan, by: by, after: after, marks: marks,
		started: time.Now(), cancel: cancel, ended: make(chan struct{}), enlisted: make(chan struct{}),
	}
	d.mu.Lock()
	other := d.jobs[plan.Cluster]
	if other == nil && d.leading == l {
		d.jobs[plan.Cluster] = j
		if before := d.ended[plan.Cluster]; before != nil && before.id == j.id {
			delete(d.ended, plan.Cluster) // it goes on
		}
		// What others were shown before this run is not what there is after it.
		d.plans = slices.DeleteFunc(d.plans, func(p planned) bool { return p.plan.Cluster == plan.Cluster })
		l.jobs.Add(1)
	}
	gone := d.leading != l
	d.mu.Unlock()
	switch {
	case other != nil:
		cancel()
		return nil, web.BusyWith(other.busy())
	case gone:
		cancel()
		return nil, web.Unavailable(errLost, "run it again in some seconds")
	}
	go func() {
		defer l.jobs.Done()
		defer cancel()
		d.carryOut(ctx, l, j)
	}()
	return j, nil
}

// carryOut is the life of a job.
func (d *Daemon) carryOut(ctx context.Context, l *leading, j *job) {
	err := d.opts.Host.Prepare(ctx, j.plan)
	if err == nil {
		err = d.opts.Store.SetMarks(j.marks)
	}
	var summary provisioner.Summary
	if err == nil {
		summary, err = l.controller.Run(ctx, j.plan)
	}
	if err != nil && ctx.Err() == nil {
		d.opts.Log.Error("a run ended before its time", "run", j.id, "cluster", j.cluster, "error", err)
	}
	d.conclude(j, summary, err, err != nil && ctx.Err() == nil)
	d.told(store.Event{})
	l.wake()
}

// conclude makes a job one that has ended.
func (d *Daemon) conclude(j *job, summary provisioner.Summary, err error, failed bool) {
	d.mu.Lock()
	stopped := j.stopped
	d.mu.Unlock()
	if stopped { // it may have come to the store after Stop looked there
		if errMark := d.markStopped(j); errMark != nil {
			d.opts.Log.Error("a run was stopped, and may be carried on by itself all the same", "run", j.id, "error", errMark)
		}
	}
	d.mu.Lock()
	j.finished, j.summary, j.err = time.Now(), summary, err
	if err == nil || failed || j.stopped { // else it was cut short, and goes on: here, or elsewhere
		d.ended[j.cluster] = j
	}
	delete(d.jobs, j.cluster)
	d.rests.note(j.cluster, failed)
	d.mu.Unlock()
	close(j.ended)
}

// Stop ends a run at a point from which it can be carried on, and returns when
// it has ended. The daemon does not go on with it by itself.
func (d *Daemon) Stop(ctx context.Context, cluster string) error {
	d.mu.Lock()
	j := d.jobs[cluster]
	if j != nil {
		j.stopped = true
	}
	d.mu.Unlock()
	if j == nil {
		return web.NotFound("no run of %s goes on", cluster)
	}
	if err := d.markStopped(j); err != nil {
		return err
	}
	j.cancel()
	select {
	case <-j.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// markStopped has no daemon begin or go on with the run by itself. One that is not in
// the store yet, or has ended there, needs no mark.
func (d *Daemon) markStopped(j *job) error {
	if err := d.opts.Store.SetMarks(j.marks); err != nil {
		return err
	}
	err := d.opts.Store.StopRun(j.cluster, d.opts.Site, j.id)
	if errors.Is(err, store.ErrNoRun) {
		return nil
	}
	return err
}

func (d *Daemon) busy(cluster string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.jobs[cluster] != nil
}
