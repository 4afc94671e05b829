package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/talos-provision/provision/provisioner/upgrade"
	"github.com/talos-provision/provision/provisioner/web"
)

// upgradeThrough has a daemon plan and carry out the upgrade, and shows it here.
func (s *session) upgradeThrough(ctx context.Context, daemon *web.Client, f upgradeFlags) error {
	defer daemon.Close()
	u := &upgrader{session: s, f: f}
	if s.flags.cluster == "" {
		return usageError("name the cluster: --cluster NAME")
	}
	request, err := f.request(s.flags)
	if err != nil {
		return err
	}
	if f.abandon {
		info, err := daemon.AbandonUpgrade(ctx, s.flags.cluster)
		if err != nil {
			return webStatus(err)
		}
		return u.tellGivenUp(resultOf(info))
	}
	say(s.errOut, "the daemon looks at the nodes of %s ...\n", s.flags.cluster)
	answer, err := daemon.PlanUpgrade(ctx, request)
	if err != nil {
		return webStatus(err)
	}
	plan, err := planOf(answer)
	if err != nil {
		return err
	}
	if err := u.tellPlan(plan); err != nil {
		return err
	}
	if s.flags.dryRun {
		return dryRunStatus(plan)
	}
	if err := u.admit(plan); err != nil {
		return err
	}
	if err := u.confirmPlan(ctx, plan); err != nil {
		return err
	}
	request.Digest = answer.Digest
	info, err := daemon.StartUpgrade(ctx, request)
	if err != nil {
		return webStatus(err)
	}
	return u.watch(ctx, daemon, plan, info)
}

func planOf(answer web.UpgradePlanAnswer) (plan upgrade.Plan, err error) {
	raw, err := json.Marshal(answer.Plan)
	if err == nil {
		err = json.Unmarshal(raw, &plan)
	}
	if err != nil {
		return plan, fmt.Errorf("read the daemon's plan: %w; command and daemon may be of different versions", err)
	}
	return plan, nil
}

// watch shows the events of an upgrade until it ends, and tells how. Ctrl-C ends the
// watching, not the upgrade.
func (u *upgrader) watch(ctx context.Context, daemon *web.Client, plan upgrade.Plan, info web.UpgradeInfo) error {
	w := remoteWork{name: "the upgrade " + info.ID, id: info.ID, cluster: info.Cluster, after: info.After}
	v := view{title: "upgrade " + info.ID + " of " + info.Cluster + ", in the daemon", began: time.Now(), nodes: upgradeRows(plan), lookup: lookupBy(daemon)}
	var ended web.UpgradeInfo
	err := u.showing(ctx, v, func(ctx context.Context) error {
		return u.watchWork(ctx, daemon, w, func(ctx context.Context) (err error) {
			ended, err = daemon.WaitUpgrade(ctx, info.Cluster, info.ID)
			return err
		})
	})
	if err != nil {
		return err
	}
	return u.concludeServed(ended)
}

// concludeServed tells how the upgrade ended in the daemon, and gives the exit status.
func (u *upgrader) concludeServed(ended web.UpgradeInfo) error {
	if !u.asJSON {
		u.tellResult(resultOf(ended))
		for _, f := range ended.Findings {
			say(u.out, "\n%s\n", f)
		}
	}
	switch ended.Outcome {
	case web.UpgradeDone:
		return nil
	case web.UpgradeRefused:
		return &statusError{exitRefused, ended.Error}
	case web.UpgradeFailed:
		return &statusError{exitFailed, ended.Error}
	}
	return &statusError{exitInterrupted, "interrupted: carry the upgrade on with --continue"}
}

// resultOf is an upgrade of a daemon as this program tells one.
func resultOf(info web.UpgradeInfo) upgrade.Result {
	result := upgrade.Result{Run: info.ID, Cluster: info.Cluster, Complete: info.Outcome == web.UpgradeDone}
	_ = result.Target.UnmarshalText([]byte(info.Target)) // it is only shown
	for _, n := range info.Nodes {
		result.Nodes = append(result.Nodes, upgrade.Record{
			Cluster: info.Cluster, Node: n.Node, Run: info.ID, Role: n.Role, State: upgrade.State(n.State), Since: n.Since,
			Message: n.Message, Error: n.Error, Hint: n.Hint, Cordoned: n.Cordoned, KubernetesName: n.KubernetesName,
		})
	}
	return result
}
