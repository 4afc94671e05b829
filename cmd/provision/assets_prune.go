package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/talos-provision/provision/pxe/assets"
)

type pruneFlags struct {
	unusedFor time.Duration
	all       bool
	dryRun    bool
}

func assetsPrune(a *app) *cobra.Command {
	var flags pruneFlags
	c := &cobra.Command{
		Use:   "prune",
		Short: "Remove boot files from the cache that no node of the inventory needs",
		Long: `prune keeps what any node of the whole inventory boots from, installed or not, and
removes the rest; with --unused-for only what was not used for that long. --all does
without the inventory and removes everything that the other flags allow. What is
removed can be fetched or imported again.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.assetsDesk(assets.Options{})
			if err != nil {
				return err
			}
			return d.prune(cmd.Context(), flags)
		},
	}
	f := c.Flags()
	f.DurationVar(&flags.unusedFor, "unused-for", 0, "keep files that were used within this time, such as 720h")
	f.BoolVar(&flags.all, "all", false, "also remove what nodes of the inventory need")
	f.BoolVar(&flags.dryRun, "dry-run", false, "only say what would be removed")
	return c
}

func (d *desk) prune(ctx context.Context, flags pruneFlags) error {
	if flags.unusedFor < 0 {
		return usageError("--unused-for %v: give a time such as 720h", flags.unusedFor)
	}
	o := assets.PruneOptions{UnusedFor: flags.unusedFor, DryRun: flags.dryRun}
	if !flags.all {
		tree, err := d.loadInventory(d.config)
		if err != nil {
			return err
		}
		if len(tree.Nodes) == 0 {
			return usageError("the inventory %s has no nodes, so every file would go; say --all if that is meant", d.config.Inventory)
		}
		keep := map[assets.Ref]bool{}
		for _, ref := range imagesOf(tree.Nodes) {
			keep[ref] = true
		}
		o.Keep = func(ref assets.Ref) bool { return keep[ref] }
	}
	gone, freed, err := d.cache.Prune(ctx, o)
	if err != nil {
		return &statusError{exitFailed, err.Error()}
	}
	files := make([]asset, 0, len(gone))
	for _, e := range gone {
		files = append(files, d.fromEntry(e, flags.dryRun))
	}
	if d.asJSON {
		return d.printJSON(struct {
			Removed []asset `json:"removed"`
			Freed   int64   `json:"freed"`
			DryRun  bool    `json:"dryRun"`
		}{files, freed, flags.dryRun})
	}
	verb, total := "removed", "files removed"
	if flags.dryRun {
		verb, total = "would remove", "files that would be removed"
	}
	for _, e := range gone {
		say(d.out, "%s %s, %s, used %s\n", verb, e.Ref, assets.Bytes(e.Size), e.LastUsed.Format(time.DateOnly))
	}
	say(d.out, "%s: %d, freed: %s\n", total, len(gone), assets.Bytes(freed))
	return nil
}
