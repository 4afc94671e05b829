package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/upgrade"
)

// codeWrongMachine is found here and not by the core: it needs the whole inventory.
const codeWrongMachine upgrade.Code = "wrong-machine"

// identify learns what BMCs reported of the cluster's machines: from the state,
// and from the BMCs of those that the inventory and the state do not tell from
// others. What a BMC does not tell shows when its node is confirmed.
func (u *upgrader) identify(ctx context.Context) error {
	if u.state != nil {
		nodes, err := u.state.Nodes("")
		if err != nil {
			return &statusError{exitFailed, err.Error()}
		}
		for _, n := range nodes {
			u.learn(n.Cluster+"/"+n.Name, n.Facts)
		}
	}
	const parallel, patience = 8, 30 * time.Second
	var group errgroup.Group
	group.SetLimit(parallel)
	for _, n := range u.members() {
		if n.BMC.Address == "" || slices.Contains(u.exclude, n.Name) || u.distinct(n) {
			continue
		}
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			if _, err := u.askBMC(ctx, n); err != nil {
				u.log.WarnContext(ctx, "the BMC does not tell which machine it has", "node", n.ID(), "error", err)
			}
			return nil
		})
	}
	_ = group.Wait() // none of them fails
	return ctx.Err()
}

// learn adds what a BMC reported.
func (u *upgrader) learn(id string, facts identity.Facts) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reported[id] = facts
	u.fleet.Learn(id, facts)
}

// distinct says whether a machine of which the files say this, and the state, is told from all others.
func (u *upgrader) distinct(n inventory.Node) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	facts, known := u.reported[n.ID()]
	if !known {
		facts = n.Facts()
	}
	verdict := u.fleet.Match(facts)
	return verdict.Outcome == identity.Match && verdict.Name == n.ID()
}

// askBMC has a node's BMC tell its machine, and makes sure that it is the node's (I1).
func (u *upgrader) askBMC(ctx context.Context, n inventory.Node) (power string, err error) {
	giveBack, err := u.turns.take(ctx, n.BMC.Address)
	if err != nil {
		return "", err
	}
	defer giveBack()
	client, err := u.dial(ctx, n)
	if err != nil {
		return "", err
	}
	defer func() { _ = client.Close(context.WithoutCancel(ctx)) }()
	seen, err := client.Identify(ctx)
	if err != nil {
		return "", err
	}
	return string(seen.PowerState), u.verifyBMC(n, seen.Facts)
}

// verifyBMC makes sure that the machine behind a node's BMC is the node's (I1).
func (u *upgrader) verifyBMC(n inventory.Node, facts identity.Facts) error {
	u.learn(n.ID(), facts)
	u.mu.Lock()
	fleet := u.fleet
	u.mu.Unlock()
	if _, refusal := fleet.Verify(n, facts); refusal != nil {
		return fmt.Errorf("%w: correct the serials or bmc.address in the inventory, or the cabling", refusal.Err)
	}
	return nil
}

// confirmMachine says why the machine that answers is not proven to be the node: the
// certificate proves its cluster only (I5).
func (u *upgrader) confirmMachine(n inventory.Node, facts identity.Facts) error {
	u.mu.Lock()
	fleet := u.fleet
	u.mu.Unlock()
	switch verdict := fleet.Match(facts); {
	case verdict.Outcome == identity.Match && verdict.Name == n.ID():
		return nil
	case verdict.Outcome == identity.Match:
		return fmt.Errorf("the machine at %s is %s and not %s: %s", n.IP, verdict.Name, n.ID(), verdict.Reason)
	case verdict.Outcome == identity.Conflict:
		return fmt.Errorf("the machine at %s cannot be told from others: %s", n.IP, verdict.Reason)
	}
	return fmt.Errorf("the machine at %s has serial %q, UUID %q and MACs %v, which are no node's of the inventory", n.IP, facts.Serial, facts.UUID, facts.MACs)
}

// addIdentities adds to a plan the nodes that are not proven to be who they should be.
func (u *upgrader) addIdentities(plan *upgrade.Plan) {
	for i := range plan.Nodes {
		p := &plan.Nodes[i]
		if p.Action != upgrade.ActionUpgrade {
			continue
		}
		n, known := u.nodeAt(func(n inventory.Node) bool { return n.Name == p.Node })
		u.mu.Lock()
		facts, seen := u.seen[p.Host]
		u.mu.Unlock()
		if !known || !seen {
			continue // that it does not answer is found already
		}
		if err := u.confirmMachine(n, facts); err != nil {
			p.Findings = append(p.Findings, upgrade.Finding{
				Code: codeWrongMachine, Blocks: upgrade.ScopeRun, Node: n.Name, Text: err.Error(),
				Hint: "correct ip, serial, uuid or mac of the node in the inventory; `provision inventory list` shows by what nodes are told apart",
			})
		}
	}
}
