package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/talos-provision/provision/provisioner/upgrade"
)

// upgradeFlags are those of `provision upgrade` alone.
type upgradeFlags struct {
	to, method, api, maxUnavailable, canary, order, kubeconfig, kubernetesVersion string

	stops, noDrain, noHealth, singleNode, bmcRescue, powerCycle bool
	evictBare, keepEmptyDir, resume, abandon                    bool

	gate, pull, drain, install, reboot, verify time.Duration
}

func upgradeCommand(a *app) *cobra.Command {
	var f upgradeFlags
	c := &cobra.Command{
		Use:   "upgrade --cluster NAME [--to vX.Y.Z]",
		Short: "Take a running cluster to another version of Talos, node by node, without losing quorum",
		Long: `upgrade takes the nodes of a cluster to a version of Talos, and to the schematic that
the inventory names: one node after the other, workers first, the etcd leader last.
It shows a plan with every reason not to go, has each node pull its installer before
the first one is touched, cordons and drains a node, installs, reboots, reads back
what runs, and looks at etcd and Kubernetes before and after each. The first failure
stops the run; --continue carries it on, also after this program was killed: give
the other flags again with it, the target is kept.

Exit status: 0 done; 1 a node failed; 2 usage, configuration or inventory error;
3 refused for safety; 130 interrupted (--continue carries the run on).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.upgrade(cmd.Context(), f) },
	}
	f.register(c)
	c.Flags().BoolVar(&a.flags.yes, "yes", false, "do not ask before nodes are rebooted")
	c.Flags().BoolVar(&a.flags.dryRun, "dry-run", false, "only show the plan; nothing is touched")
	c.MarkFlagsMutuallyExclusive("abandon", "dry-run")
	return c
}

func (f *upgradeFlags) register(c *cobra.Command) {
	p := c.Flags()
	p.StringVar(&f.to, "to", "", "version to upgrade to (default the inventory's talosVersion)")
	p.StringVar(&f.method, "method", methodDisk, "disk: the node writes the new version and reboots; pxe: the new version is booted from the network once, over the installation, and writes itself, for nodes whose old version cannot")
	p.BoolVar(&f.stops, "stops", false, "take all minor versions on the way, one after the other")
	p.StringVar(&f.maxUnavailable, "max-unavailable", "", "workers that may be away at the same time, 2 or 25% (default upgrade.maxUnavailable)")
	p.StringVar(&f.canary, "canary", "", "nodes that go first, each alone, in this order")
	p.StringVar(&f.order, "order", "", "label by whose value nodes are ordered")
	p.BoolVar(&f.noDrain, "no-drain", false, "without cordon and drain, and without the Kubernetes API")
	p.BoolVar(&f.evictBare, "evict-bare-pods", false, "evict pods without a controller too; nobody makes them again")
	p.BoolVar(&f.keepEmptyDir, "keep-emptydir", false, "do not evict pods with emptyDir volumes, which are lost with them")
	p.BoolVar(&f.noHealth, "no-health", false, "without the cluster's own health check")
	p.BoolVar(&f.singleNode, "single-node", false, "accept that the cluster is away while its only control plane reboots")
	p.BoolVar(&f.bmcRescue, "bmc-rescue", false, "power cycle a node that does not come back, once, by its BMC")
	p.BoolVar(&f.powerCycle, "powercycle", false, "reboot through the firmware, and not by kexec")
	p.StringVar(&f.api, "api", "", "way of upgrading: lifecycle or legacy (default the right one for each node)")
	p.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig to use (default one that a control plane node gives)")
	p.StringVar(&f.kubernetesVersion, "kubernetes-version", "", "version of Kubernetes, where no Kubernetes API tells it")
	p.BoolVar(&f.resume, "continue", false, "carry the unfinished upgrade on")
	p.BoolVar(&f.abandon, "abandon", false, "end the unfinished upgrade without going on; what is cordoned stays so")
	for _, d := range []struct {
		target *time.Duration
		name   string
		what   string
	}{
		{&f.gate, "gate-timeout", "how long the cluster may take to become fit"},
		{&f.pull, "pull-timeout", "how long a node may take to pull one installer"},
		{&f.drain, "drain-timeout", "how long a node may take to be drained"},
		{&f.install, "install-timeout", "how long an installer may run"},
		{&f.reboot, "reboot-timeout", "how long a node may take to its new boot"},
		{&f.verify, "verify-timeout", "how long a node may take from its new boot until it is as it should be"},
	} {
		p.DurationVar(d.target, d.name, 0, d.what+" (default that of provision.yaml)")
	}
	c.MarkFlagsMutuallyExclusive("continue", "abandon")
	c.MarkFlagsMutuallyExclusive("no-drain", "kubeconfig")
}

// upgrade plans an upgrade and, unless --dry-run is given, carries it out.
func (a *app) upgrade(ctx context.Context, f upgradeFlags) (err error) {
	s, err := a.open()
	if err != nil {
		return err
	}
	daemon, err := s.config.daemon(ctx)
	if err != nil {
		return err
	}
	if daemon != nil {
		return s.upgradeThrough(ctx, daemon, f)
	}
	u, err := a.beginUpgrade(f)
	if err != nil {
		return err
	}
	if err := u.openState(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, u.closeState()) }()
	if u.state != nil && !a.flags.dryRun {
		defer u.answerStatus(ctx, u.state)()
	}
	if f.abandon {
		return u.giveUp(ctx)
	}
	if err := u.chooseTarget(ctx); err != nil {
		return err
	}
	return u.work(ctx)
}

// upgradeWork is an upgrade whose way to its nodes is known.
type upgradeWork struct {
	runner  *upgrade.Runner
	network *networkBoots // nil for an upgrade by the disk
}

// prepare learns who the nodes are, and how they are reached; lost ends the run when
// the cluster's Lease is another's.
func (u *upgrader) prepare(ctx context.Context, lost context.CancelCauseFunc) (w upgradeWork, err error) {
	if err := u.identify(ctx); err != nil {
		return w, err
	}
	options, err := u.options(ctx, lost)
	if err != nil {
		return w, err
	}
	if w.network, err = u.networkMethod(); err != nil {
		return w, err
	}
	if w.network != nil {
		options.NetBoot = w.network
	}
	if w.runner, err = upgrade.New(options); err != nil {
		return w, usageError("%v", err)
	}
	return w, nil
}

// plan says what a run would do, and which nodes are not who they should be.
func (u *upgrader) planUpgrade(ctx context.Context, w upgradeWork) (upgrade.Plan, error) {
	plan, err := w.runner.Plan(ctx)
	if err == nil {
		u.addIdentities(&plan)
	}
	return plan, err
}

// run carries out a plan.
func (w upgradeWork) run(ctx context.Context, plan upgrade.Plan) (result upgrade.Result, err error) {
	if w.network == nil {
		return w.runner.Run(ctx)
	}
	err = w.network.serve(ctx, plan, func(ctx context.Context) (err error) {
		result, err = w.runner.Run(ctx)
		return err
	})
	return result, err
}

// work is a plan, and then a run.
func (u *upgrader) work(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	say(u.errOut, "looking at the nodes of %s ...\n", u.flags.cluster)
	w, err := u.prepare(ctx, stop)
	if err != nil {
		return err
	}
	plan, err := u.planUpgrade(ctx, w)
	if err != nil {
		return u.planError(ctx, err)
	}
	if err := u.tellPlan(plan); err != nil {
		return err
	}
	if u.flags.dryRun {
		return dryRunStatus(plan)
	}
	if err := u.admit(plan); err != nil {
		return err
	}
	if err := u.confirmPlan(ctx, plan); err != nil {
		return err
	}
	var result upgrade.Result
	v := view{title: "upgrade of " + plan.Cluster + " to Talos " + plan.Target.String(), began: time.Now(), nodes: upgradeRows(plan), own: true}
	err = u.showing(ctx, v, func(ctx context.Context) (err error) {
		result, err = w.run(ctx, plan)
		return err
	})
	return u.concludeUpgrade(ctx, result, err)
}

// admit refuses a run that the plan speaks against. A run that is carried on may
// have a node away, and looks for itself.
func (u *upgrader) admit(plan upgrade.Plan) error {
	switch blocked := plan.Blocked(); {
	case plan.Continues != "" && !u.f.resume:
		return &statusError{exitRefused, "the upgrade " + plan.Continues + " of " + plan.Cluster + " is unfinished: carry it on with --continue, or end it with --abandon"}
	case u.f.resume && plan.Continues == "":
		return usageError("there is no unfinished upgrade of %s: begin one without --continue", plan.Cluster)
	case u.f.resume && !slices.ContainsFunc(blocked, func(f upgrade.Finding) bool { return f.Code == codeWrongMachine }):
		return nil
	case len(blocked) > 0:
		return &statusError{exitRefused, "refused, and nothing was touched: " + codesOf(blocked)}
	case count(plan, upgrade.ActionUpgrade) == 0 && count(plan, upgrade.ActionHold) > 0:
		return &statusError{exitRefused, "every node that is left is held, and nothing was touched: see the plan"}
	}
	return nil
}
