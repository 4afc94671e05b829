package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/talos-provision/provision/cmd/provision/board"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/upgrade"
	"github.com/talos-provision/provision/provisioner/web"
)

// goalState is the state that ends a node's part of a run with that goal.
func goalState(g provisioner.Goal) string {
	return string(map[provisioner.Goal]provisioner.State{
		provisioner.UntilMaintenance: provisioner.Maintenance, provisioner.UntilConfigured: provisioner.Configured,
		provisioner.UntilInstalled: provisioner.Installed, provisioner.UntilReady: provisioner.Ready,
	}[g])
}

// plannedRows are the nodes that a plan works on, before anything has happened. Records
// tell how far those are that an interrupted run had begun with.
func plannedRows(p provisioner.Plan, records []store.Node) []board.Node {
	known := make(map[string]store.Node, len(records))
	for _, r := range records {
		if p.Resumes != "" && r.Run == p.Resumes {
			known[r.Name] = r
		}
	}
	rows := make([]board.Node, 0, len(p.Nodes))
	for _, n := range p.Nodes {
		if n.Action == provisioner.ActionSkip {
			continue
		}
		row := board.Node{
			Cluster: n.Cluster, Name: n.Node, State: string(provisioner.Pending), Goal: goalState(n.Until),
			Message: n.Reason, Facts: planFacts(n),
		}
		r, begun := known[n.Node]
		switch {
		case n.Action == provisioner.ActionDone:
			row.State = row.Goal
		case n.Action == provisioner.ActionHold:
			row.State, row.Cause, row.Hint = string(provisioner.Held), string(n.Cause), n.Hint
		case n.Action == provisioner.ActionFail:
			row.State, row.Cause, row.Hint = string(provisioner.Failed), string(n.Cause), n.Hint
		case begun:
			row.State, row.Since, row.Attempts, row.Message = r.State, r.Since, r.Attempts, r.Message
		}
		rows = append(rows, row)
	}
	return rows
}

// upgradeRows are the nodes that an upgrade works on, before anything has happened.
func upgradeRows(p upgrade.Plan) []board.Node {
	rows := make([]board.Node, 0, len(p.Nodes))
	for _, n := range p.Nodes {
		row := board.Node{
			Cluster: p.Cluster, Name: n.Node, State: string(upgrade.Pending), Goal: string(upgrade.Upgraded),
			Message: "from Talos " + n.Version.String() + " to " + stopsText(n.Stops),
			Facts: []board.Fact{
				{Label: "role", Value: n.Role}, {Label: "address", Value: n.Host}, {Label: "plan", Value: string(n.Action)},
				{Label: "Talos", Value: n.Version.String()}, {Label: "image", Value: n.Image}, {Label: "reasons", Value: codesOf(n.Findings)},
			},
		}
		switch n.Action {
		case upgrade.ActionExclude:
			continue
		case upgrade.ActionDone:
			row.State, row.Message = string(upgrade.Upgraded), "runs Talos "+n.Version.String()+" already"
		case upgrade.ActionHold:
			row.State, row.Message = string(upgrade.Held), codesOf(n.Findings)
		case upgrade.ActionResume:
			row.Message = "an unfinished upgrade has touched it: it comes first"
		case upgrade.ActionUpgrade:
		}
		rows = append(rows, row)
	}
	return rows
}

func planFacts(n provisioner.PlanNode) []board.Fact {
	facts := []board.Fact{
		{Label: "goal", Value: string(n.Until)},
		{Label: "plan", Value: string(n.Action) + ": " + n.Reason},
		{Label: "BMC", Value: n.BMC},
		{Label: "machine", Value: strings.TrimSpace(n.Vendor + " " + n.Model)},
		{Label: "identified by", Value: string(n.IdentifiedBy)},
		{Label: "serial", Value: n.Facts.Serial},
		{Label: "board serial", Value: n.Facts.BoardSerial},
		{Label: "UUID", Value: n.Facts.UUID},
		{Label: "MACs", Value: strings.Join(n.Facts.MACs, ", ")},
		{Label: "Talos", Value: strings.TrimSpace(n.TalosVersion + " " + n.Arch)},
		{Label: "schematic", Value: n.SchematicID},
		{Label: "kernel arguments", Value: n.KernelArgs},
	}
	if n.SecureBoot {
		facts = append(facts, board.Fact{Label: "Secure Boot", Value: "the signed image"})
	}
	return facts
}

// recordedRow is a node by its last known state.
func recordedRow(r store.Node) board.Node {
	return board.Node{
		Cluster: r.Cluster, Name: r.Name, State: r.State, Since: r.Since, Attempts: r.Attempts,
		Message: r.Message, Error: r.Error, Hint: r.Hint, Cause: r.Cause,
		Facts: []board.Fact{
			{Label: "address", Value: r.Address},
			{Label: "machine", Value: strings.TrimSpace(r.Vendor + " " + r.Model)},
			{Label: "serial", Value: r.Facts.Serial},
			{Label: "board serial", Value: r.Facts.BoardSerial},
			{Label: "UUID", Value: r.Facts.UUID},
			{Label: "MACs", Value: strings.Join(r.Facts.MACs, ", ")},
			{Label: "Talos", Value: r.TalosVersion},
			{Label: "install disk", Value: r.InstallDisk},
		},
	}
}

// lookupBy asks a daemon, or a run, for what is known of a node.
func lookupBy(client *web.Client) func(ctx context.Context, cluster, node string) ([]board.Fact, error) {
	return func(ctx context.Context, cluster, node string) ([]board.Fact, error) {
		d, err := client.Detail(ctx, cluster, node)
		if err != nil {
			return nil, err
		}
		return detailFacts(d), nil
	}
}

// detailFacts are the facts of a node by the state and the inventory.
func detailFacts(d web.NodeDetail) []board.Fact {
	facts := []board.Fact{{Label: "conflict", Value: d.Conflict}}
	if h := d.Hold; h != nil {
		facts = append(facts, board.Fact{Label: "held by", Value: fmt.Sprintf("%s: %s", h.By, h.Reason)})
	}
	if r := d.Record; r != nil {
		facts = append(facts, recordedRow(*r).Facts...)
	}
	i := d.Inventory
	if i == nil {
		return facts
	}
	labels := make([]string, 0, len(i.Labels))
	for _, key := range slices.Sorted(maps.Keys(i.Labels)) {
		labels = append(labels, key+"="+i.Labels[key])
	}
	return append(facts,
		board.Fact{Label: "file", Value: i.File},
		board.Fact{Label: "install", Value: fmt.Sprint(i.Install)},
		board.Fact{Label: "address", Value: i.IP},
		board.Fact{Label: "BMC", Value: i.BMC},
		board.Fact{Label: "wanted", Value: strings.TrimSpace(i.TalosVersion + " " + i.Arch)},
		board.Fact{Label: "schematic", Value: i.SchematicID},
		board.Fact{Label: "labels", Value: strings.Join(labels, " ")},
	)
}
