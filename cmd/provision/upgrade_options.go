package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/talos-provision/provision/provisioner/upgrade"
)

// options are those of a run; lost ends it when the cluster's Lease is another's.
func (u *upgrader) options(ctx context.Context, lost context.CancelCauseFunc) (upgrade.Options, error) {
	share, err := upgrade.ParseShare(cmp.Or(u.f.maxUnavailable, u.config.Upgrade.MaxUnavailable))
	if err != nil {
		return upgrade.Options{}, usageError("%v", err)
	}
	api := upgrade.API(u.f.api)
	if !slices.Contains([]upgrade.API{"", upgrade.Lifecycle, upgrade.Legacy}, api) {
		return upgrade.Options{}, usageError("--api %s: it can be %s or %s", u.f.api, upgrade.Lifecycle, upgrade.Legacy)
	}
	o := upgrade.Options{
		Cluster: u.flags.cluster, Target: u.target, Stops: u.f.stops, Releases: u.releases(ctx), Registry: u.config.Upgrade.Registry,
		API: api, KubernetesVersion: u.f.kubernetesVersion,
		MaxUnavailable: share, Canary: u.canary, OrderLabel: u.f.order, Exclude: u.exclude,
		NoDrain: u.f.noDrain, SingleNode: u.f.singleNode, NoHealth: u.f.noHealth, PowerCycle: u.f.powerCycle, BMCRescue: u.f.bmcRescue,
		Continue: u.f.resume, Timeouts: u.timeouts(),
		Members: u.listMembers, Talos: upgradeTalos{u}, BMC: upgradeBMC{u}, Store: u.runs(),
		Holder: u.holder(), RunID: newUpgradeID(time.Now()), Publish: u.publish, Line: u.line, Log: u.log,
	}
	if o.NoDrain {
		return o, nil
	}
	return o, u.reachKubernetes(ctx, &o, lost)
}

// timeouts are those of the configuration, where no flag says otherwise.
func (u *upgrader) timeouts() upgrade.Timeouts {
	t := u.config.Upgrade.timeouts()
	t.Gate, t.Pull, t.Drain = cmp.Or(u.f.gate, t.Gate), cmp.Or(u.f.pull, t.Pull), cmp.Or(u.f.drain, t.Drain)
	t.Install, t.Reboot, t.Verify = cmp.Or(u.f.install, t.Install), cmp.Or(u.f.reboot, t.Reboot), cmp.Or(u.f.verify, t.Verify)
	return t
}

// line is a word of a pull, a drain or an installer. They are many, so a person
// who wants them asks for the log.
func (u *upgrader) line(node, line string) { u.log.Info(line, "node", node) }
