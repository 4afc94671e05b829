package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/talos-provision/provision/provisioner/upgrade"
)

// tellPlan prints the plan. In a run whose output machines read, it is told by
// events, and only what speaks against it is told here.
func (u *upgrader) tellPlan(plan upgrade.Plan) error {
	switch {
	case u.asJSON && u.flags.dryRun:
		return u.printJSON(plan)
	case u.asJSON:
		for _, f := range plan.Blocked() {
			say(u.errOut, "%s\n", f)
		}
		return nil
	}
	if plan.Continues != "" {
		say(u.out, "The upgrade %s of %s is unfinished.\n\n", plan.Continues, plan.Cluster)
	}
	rows := make([][]string, 0, len(plan.Nodes))
	for _, n := range inOrder(plan) {
		order := "-"
		if n.Batch > 0 {
			order = strconv.Itoa(n.Batch)
		}
		rows = append(rows, []string{
			order, n.Node, orDash(n.Role), string(n.Action), orDash(n.Version.String()), orDash(stopsText(n.Stops)),
			orDash(shortImage(n.Image)), orDash(string(n.API)), orDash(reasonsOf(n)),
		})
	}
	if err := table(u.out, []string{"ORDER", "NODE", "ROLE", "ACTION", "FROM", "TO", "IMAGE", "API", "REASONS"}, rows); err != nil {
		return err
	}
	for _, f := range plan.All() {
		say(u.out, "\n%s\n", f)
	}
	_, err := fmt.Fprintf(u.out, "\n%s to Talos %s: %d to upgrade, %d to go on with, %d done, %d held, %d left out\n", plan.Cluster, plan.Target,
		count(plan, upgrade.ActionUpgrade), count(plan, upgrade.ActionResume), count(plan, upgrade.ActionDone),
		count(plan, upgrade.ActionHold), count(plan, upgrade.ActionExclude))
	return err
}

// inOrder are the nodes as they would go, and then the others.
func inOrder(plan upgrade.Plan) []upgrade.PlanNode {
	const last = 1 << 30
	return slices.SortedStableFunc(slices.Values(plan.Nodes), func(a, b upgrade.PlanNode) int {
		return cmp.Compare(cmp.Or(a.Position, last), cmp.Or(b.Position, last))
	})
}

func count(plan upgrade.Plan, action upgrade.Action) int {
	n := 0
	for _, node := range plan.Nodes {
		if node.Action == action {
			n++
		}
	}
	return n
}

// stopsText is the way to the target.
func stopsText(stops []upgrade.Version) string {
	texts := make([]string, 0, len(stops))
	for _, s := range stops {
		texts = append(texts, s.String())
	}
	return strings.Join(texts, " -> ")
}

// shortImage leaves out the registry, and most of the schematic.
func shortImage(name string) string {
	image, err := upgrade.ParseImage(name)
	if err != nil {
		return name
	}
	image.Registry = ""
	if image.Schematic != "" {
		image.Schematic = image.Schematic[:8] + "…"
	}
	return strings.TrimPrefix(image.String(), "/")
}

// reasonsOf are the codes of a node's findings, which stand below in full.
func reasonsOf(n upgrade.PlanNode) string {
	codes := codesOf(n.Findings)
	if n.Leader {
		codes = strings.TrimPrefix(codes+", leads etcd", ", ")
	}
	return codes
}

func codesOf(found []upgrade.Finding) string {
	var codes []string
	for _, f := range found {
		if !slices.Contains(codes, string(f.Code)) {
			codes = append(codes, string(f.Code))
		}
	}
	return strings.Join(codes, ", ")
}

// dryRunStatus is the exit status that a run would begin with.
func dryRunStatus(plan upgrade.Plan) error {
	if len(plan.Blocked()) > 0 || count(plan, upgrade.ActionHold) > 0 {
		return &statusError{status: exitRefused}
	}
	return nil
}

// confirmPlan asks a person, naming nodes and order.
func (u *upgrader) confirmPlan(ctx context.Context, plan upgrade.Plan) error {
	nodes := slices.DeleteFunc(inOrder(plan), func(n upgrade.PlanNode) bool {
		return n.Action != upgrade.ActionUpgrade && n.Action != upgrade.ActionResume
	})
	if len(nodes) == 0 || u.flags.yes {
		return nil
	}
	if !u.terminal {
		return &statusError{exitRefused, fmt.Sprintf("%d nodes of %s would be upgraded and rebooted, and nobody is here to ask: give --yes", len(nodes), plan.Cluster)}
	}
	say(u.errOut, "\nThese nodes of %s (%d) will be UPGRADED to Talos %s and REBOOTED, in this order:\n", plan.Cluster, len(nodes), plan.Target)
	for i := 0; i < len(nodes); {
		end := i + 1
		for end < len(nodes) && nodes[end].Batch == nodes[i].Batch {
			end++
		}
		names := make([]string, 0, end-i)
		for _, n := range nodes[i:end] {
			names = append(names, n.Node)
		}
		when := "  later: "
		if nodes[i].Batch > 0 {
			when = fmt.Sprintf("  %d. ", nodes[i].Batch)
		}
		say(u.errOut, "%s%s\n", when, strings.Join(names, " and "))
		i = end
	}
	say(u.errOut, "Go on? Type yes: ")
	return u.askYes(ctx)
}
