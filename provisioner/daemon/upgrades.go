package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/upgrade"
	"github.com/talos-provision/provision/provisioner/web"
)

// upgradeJob is a rolling upgrade of this daemon. A daemon that is started anew does
// not go on with one by itself: a person looks at the cluster first, and says so.
type upgradeJob struct {
	id      string
	cluster string
	by      string
	after   uint64
	cancel  context.CancelFunc
	ended   chan struct{} // closed at its end

	// The rest is there once ended is closed.
	outcome  string
	err      error
	findings []upgrade.Finding
}

// PlanUpgrade says what an upgrade would do.
func (d *Daemon) PlanUpgrade(ctx context.Context, r web.UpgradeRequest) (web.UpgradePlanAnswer, error) {
	_, plan, err := d.planUpgrade(ctx, r)
	if err != nil {
		return web.UpgradePlanAnswer{}, err
	}
	raw, err := json.Marshal(plan)
	if err != nil {
		return web.UpgradePlanAnswer{}, err
	}
	answer := web.UpgradePlanAnswer{Digest: upgradeDigest(plan)}
	return answer, json.Unmarshal(raw, &answer.Plan)
}

func (d *Daemon) planUpgrade(ctx context.Context, r web.UpgradeRequest) (Upgrade, upgrade.Plan, error) {
	l, err := d.leader()
	if err != nil {
		return nil, upgrade.Plan{}, err
	}
	_, g := d.now()
	u, err := d.opts.Host.Upgrade(ctx, r, g, l.controller, d.told)
	if err != nil {
		return nil, upgrade.Plan{}, err
	}
	plan, err := u.Plan(ctx)
	return u, plan, err
}

// upgradeDigest is the same for two plans that would do the same to the same nodes
// in the same order; the words of findings do not count.
func upgradeDigest(p upgrade.Plan) string {
	sum := sha256.New()
	line := func(values ...any) { _, _ = fmt.Fprintf(sum, "%q\n", values) } // a hash takes everything
	line(p.Cluster, p.Target, p.Stops, p.Continues)
	for _, n := range p.Nodes {
		line(n.Node, n.Host, n.Action, n.Version, n.Stops, n.TargetSchematic, n.SecureBoot, n.Image, n.API, n.Position, n.Batch)
	}
	for _, f := range p.All() {
		line(f.Code, f.Blocks, f.Node)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// StartUpgrade carries out the plan that somebody has seen and confirmed. It is made
// anew: when it is another one by now, nothing is started.
func (d *Daemon) StartUpgrade(ctx context.Context, r web.UpgradeRequest) (web.UpgradeInfo, error) {
	l, err := d.leader()
	if err != nil {
		return web.UpgradeInfo{}, err
	}
	running, cancel := context.WithCancel(l.ctx) // not of ctx: it outlives the request
	begun := false
	defer func() {
		if !begun {
			cancel()
		}
	}()
	defer context.AfterFunc(ctx, func() {
		cancel()
	})()
	u, plan, err := d.planUpgrade(running, r)
	switch {
	case ctx.Err() != nil:
		return web.UpgradeInfo{}, ctx.Err()
	case err != nil:
		return web.UpgradeInfo{}, err
	case upgradeDigest(plan) != r.Digest:
		return web.UpgradeInfo{}, &web.Error{Code: web.CodePlanChanged, Message: "the plan is not the confirmed one any more, and nothing was touched", Hint: "look at the plan again"}
	}
	after, err := d.opts.Store.LastEvent()
	if err != nil {
		return web.UpgradeInfo{}, err
	}
	j := &upgradeJob{id: u.RunID(), cluster: r.Cluster, by: web.Caller(ctx), after: after, cancel: cancel, ended: make(chan struct{})}
	if err := d.enlist(l, j); err != nil {
		return web.UpgradeInfo{}, err
	}
	begun = true
	go func() {
		defer l.jobs.Done()
		defer cancel()
		result, err := u.Run(running, plan)
		d.concludeUpgrade(j, result, err)
	}()
	return web.UpgradeInfo{
		ID: j.id, Cluster: j.cluster, Target: plan.Target.String(), Active: true, By: j.by, After: j.after, Nodes: []web.UpgradeNode{},
	}, nil
}

// enlist makes a job the cluster's, if it has no other.
func (d *Daemon) enlist(l *leading, j *upgradeJob) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if other := d.upgrades[j.cluster]; other.active() {
		return web.BusyWith(web.Busy{Run: other.id, Cluster: other.cluster})
	}
	if d.leading != l {
		return web.Unavailable(errLost, "run it again in some seconds")
	}
	d.upgrades[j.cluster] = j
	l.jobs.Add(1)
	return nil
}

// active says whether it goes on. There may be none.
func (j *upgradeJob) active() bool {
	if j == nil {
		return false
	}
	select {
	case <-j.ended:
		return false
	default:
		return true
	}
}

func (d *Daemon) concludeUpgrade(j *upgradeJob, result upgrade.Result, err error) {
	refused := errors.Is(err, upgrade.ErrUnfinished) || errors.Is(err, upgrade.ErrLocked) || errors.Is(err, upgrade.ErrParked) || errors.Is(err, upgrade.ErrHeld)
	j.outcome = web.UpgradeFailed
	switch {
	case err == nil:
		j.outcome = web.UpgradeDone
	case errors.Is(err, context.Canceled):
		j.outcome = "" // it can be carried on
	case refused:
		j.outcome = web.UpgradeRefused
	}
	if err != nil {
		d.opts.Log.Error("an upgrade ended before its time", "run", j.id, "cluster", j.cluster, "error", err)
	}
	j.err, j.findings = err, result.Findings
	close(j.ended)
}

// StopUpgrade interrupts an upgrade where it can be carried on, and returns when it has ended.
func (d *Daemon) StopUpgrade(ctx context.Context, cluster string) error {
	d.mu.Lock()
	j := d.upgrades[cluster]
	d.mu.Unlock()
	if !j.active() {
		return web.NotFound("no upgrade of %s goes on", cluster)
	}
	j.cancel()
	select {
	case <-j.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// AbandonUpgrade ends an unfinished upgrade that nobody works on.
func (d *Daemon) AbandonUpgrade(ctx context.Context, cluster string) (web.UpgradeInfo, error) {
	l, err := d.leader()
	if err != nil {
		return web.UpgradeInfo{}, err
	}
	d.mu.Lock()
	j := d.upgrades[cluster]
	d.mu.Unlock()
	if j.active() {
		return web.UpgradeInfo{}, web.BusyWith(web.Busy{Run: j.id, Cluster: cluster})
	}
	_, g := d.now()
	u, err := d.opts.Host.Upgrade(ctx, web.UpgradeRequest{Cluster: cluster}, g, l.controller, d.told)
	if err != nil {
		return web.UpgradeInfo{}, err
	}
	if _, err := u.Abandon(ctx); errors.Is(err, upgrade.ErrNothingToContinue) {
		return web.UpgradeInfo{}, web.NotFound("%v", err)
	} else if err != nil {
		return web.UpgradeInfo{}, err
	}
	all, err := d.Upgrades(ctx)
	for _, info := range all {
		if info.Cluster == cluster {
			return info, err
		}
	}
	return web.UpgradeInfo{}, err
}

// Upgrades are the newest rolling upgrade of each cluster, those that this daemon
// works on among them.
func (d *Daemon) Upgrades(context.Context) ([]web.UpgradeInfo, error) {
	all, err := web.UpgradesOf(d.opts.Store)
	if err != nil {
		return nil, err
	}
	holders, err := d.opts.Store.Holders()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	told := map[string]bool{}
	for i := range all {
		if j := d.upgrades[all[i].Cluster]; j != nil && j.id == all[i].ID {
			told[j.cluster] = true
			j.tell(&all[i])
		}
		if u := &all[i]; !u.Active && u.Finished.IsZero() && u.Stopped == "" && !worksOn(holders, u.Cluster) {
			u.Stopped = "whoever worked on it has ended: carry it on with `provision upgrade --cluster " + u.Cluster + " --continue`"
		}
	}
	for cluster, j := range d.upgrades {
		if !told[cluster] { // one that has not touched a node is not in the store
			info := web.UpgradeInfo{ID: j.id, Cluster: cluster, Nodes: []web.UpgradeNode{}}
			j.tell(&info)
			all = append(all, info)
		}
	}
	return all, nil
}

// worksOn says whether anybody has the nodes of a cluster, this controller or another.
func worksOn(holders []store.Holder, cluster string) bool {
	return slices.ContainsFunc(holders, func(h store.Holder) bool { return strings.HasPrefix(h.Key, cluster+"/") })
}

// tell adds what this process knows of its upgrade.
func (j *upgradeJob) tell(info *web.UpgradeInfo) {
	info.By, info.After, info.Active = j.by, j.after, j.active()
	if info.Active {
		info.Stopped = "" // of the process before
		return
	}
	info.Outcome = j.outcome
	if j.err != nil {
		info.Error = j.err.Error()
	}
	for _, f := range j.findings {
		info.Findings = append(info.Findings, f.String())
	}
}
