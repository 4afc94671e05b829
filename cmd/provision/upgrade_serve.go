package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/talos-provision/provision/inventory/source"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/daemon"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/upgrade"
	"github.com/talos-provision/provision/provisioner/web"
)

// servedUpgrade is an upgrade that the daemon carries out for somebody.
type servedUpgrade struct {
	u    *upgrader
	lost context.CancelCauseFunc
	ctx  context.Context // of its whole life: it ends when the cluster's Lease is lost
	work upgradeWork
	id   string
}

var _ daemon.Upgrade = (*servedUpgrade)(nil)

// Upgrade makes an upgrade of the nodes of a generation.
func (h *host) Upgrade(ctx context.Context, r web.UpgradeRequest, g source.Generation, c *provisioner.Controller, publish func(store.Event)) (daemon.Upgrade, error) {
	f, err := flagsOf(r)
	if err != nil {
		return nil, web.Invalid(err, "")
	}
	// A session of its own: its flags are the asker's, its inventory is this generation's.
	s := &session{
		app:  &app{out: io.Discard, errOut: io.Discard, flags: flags{cluster: r.Cluster, nodes: r.Nodes, selector: r.Selector, exclude: r.Exclude, yes: true}},
		log:  h.log.With("cluster", r.Cluster),
		tree: g.Tree, config: h.config, mayWork: h.mayWork, mayServe: h.mayServe,
	}
	s.config.Inventory = g.Folder
	u, err := newUpgrader(s, f)
	if err != nil {
		return nil, apiError(err)
	}
	u.state, u.publish, u.turns = h.state, publish, &h.turns
	u.serving = &networkBoots{u: u, controller: c, cache: h.cache}
	ctx, lost := context.WithCancelCause(ctx)
	return &servedUpgrade{u: u, ctx: ctx, lost: lost}, nil
}

// Plan implements daemon.Upgrade.
func (s *servedUpgrade) Plan(ctx context.Context) (upgrade.Plan, error) {
	if err := s.u.chooseTarget(ctx); err != nil {
		return upgrade.Plan{}, apiError(err)
	}
	var err error
	if s.work, err = s.u.prepare(ctx, s.lost); err != nil {
		return upgrade.Plan{}, apiError(err)
	}
	plan, err := s.u.planUpgrade(ctx, s.work)
	s.id = plan.Continues
	if s.id == "" {
		s.id = s.work.runner.RunID()
	}
	return plan, err
}

// Run implements daemon.Upgrade.
func (s *servedUpgrade) Run(ctx context.Context, plan upgrade.Plan) (upgrade.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	if err := s.u.admit(plan); err != nil {
		return upgrade.Result{Cluster: plan.Cluster, Target: plan.Target}, fmt.Errorf("%w: %w", upgrade.ErrParked, err)
	}
	result, err := s.work.run(ctx, plan)
	if cause := context.Cause(s.ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		err = fmt.Errorf("stopped: %w", cause)
	}
	return result, err
}

// Abandon implements daemon.Upgrade.
func (s *servedUpgrade) Abandon(ctx context.Context) (upgrade.Result, error) {
	runner, err := s.u.abandoner()
	if err != nil {
		return upgrade.Result{}, err
	}
	return runner.Abandon(ctx)
}

// RunID implements daemon.Upgrade.
func (s *servedUpgrade) RunID() string { return s.id }

// apiError gives an error of what was asked for its form in the API.
func apiError(err error) error {
	var status *statusError
	if errors.As(err, &status) && status.status == exitUsage {
		return web.Invalid(errors.New(status.message), "")
	}
	return err
}

// upgradeTimes are the flags that are times, with their places in a request.
func upgradeTimes(f *upgradeFlags, r *web.UpgradeRequest) []struct {
	flag *time.Duration
	text *string
} {
	return []struct {
		flag *time.Duration
		text *string
	}{
		{&f.gate, &r.GateTimeout}, {&f.pull, &r.PullTimeout}, {&f.drain, &r.DrainTimeout},
		{&f.install, &r.InstallTimeout}, {&f.reboot, &r.RebootTimeout}, {&f.verify, &r.VerifyTimeout},
	}
}

// flagsOf are the flags of `provision upgrade` that a request stands for.
func flagsOf(r web.UpgradeRequest) (upgradeFlags, error) {
	f := upgradeFlags{
		to: r.To, method: orElse(r.Method, methodDisk), api: r.API, maxUnavailable: r.MaxUnavailable, canary: r.Canary, order: r.Order,
		kubernetesVersion: r.KubernetesVersion, stops: r.Stops, noDrain: r.NoDrain, noHealth: r.NoHealth, singleNode: r.SingleNode,
		bmcRescue: r.BMCRescue, powerCycle: r.PowerCycle, evictBare: r.EvictBarePods, keepEmptyDir: r.KeepEmptyDir, resume: r.Continue,
	}
	for _, t := range upgradeTimes(&f, &r) {
		if *t.text == "" {
			continue
		}
		d, err := time.ParseDuration(*t.text)
		if err != nil || d <= 0 {
			return f, fmt.Errorf("the time %q: write it as 15m", *t.text)
		}
		*t.flag = d
	}
	return f, nil
}

// request is what the flags ask of a daemon.
func (f upgradeFlags) request(shared flags) (web.UpgradeRequest, error) {
	if f.kubeconfig != "" {
		return web.UpgradeRequest{}, usageError("--kubeconfig is a file of this host, and the daemon does the work: leave it out (a control plane node gives one), or stop the daemon for as long as this takes")
	}
	r := web.UpgradeRequest{
		Cluster: shared.cluster, Nodes: shared.nodes, Selector: shared.selector, Exclude: shared.exclude,
		To: f.to, Method: strings.TrimSpace(f.method), API: f.api, MaxUnavailable: f.maxUnavailable, Canary: f.canary, Order: f.order,
		KubernetesVersion: f.kubernetesVersion, Stops: f.stops, NoDrain: f.noDrain, NoHealth: f.noHealth, SingleNode: f.singleNode,
		BMCRescue: f.bmcRescue, PowerCycle: f.powerCycle, EvictBarePods: f.evictBare, KeepEmptyDir: f.keepEmptyDir, Continue: f.resume,
	}
	for _, t := range upgradeTimes(&f, &r) {
		if *t.flag != 0 {
			*t.text = t.flag.String()
		}
	}
	return r, nil
}
