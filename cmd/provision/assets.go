package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/pxe/assets"
)

func assetsCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "assets",
		Short: "Look after the boot files that the Image Factory makes: fetch, list, check, import, remove",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(assetsPull(a), assetsList(a), assetsVerify(a), assetsImport(a), assetsPrune(a))
	return c
}

// desk is an assets command at work.
type desk struct {
	*app
	asJSON bool
	config config
	cache  *assets.Cache
}

func (a *app) assetsDesk(o assets.Options) (*desk, error) {
	d := &desk{app: a}
	var err error
	if d.asJSON, err = a.json(); err != nil {
		return nil, err
	}
	if o.Log, err = a.logger(); err != nil {
		return nil, err
	}
	if d.config, err = a.loadConfig(); err != nil {
		return nil, err
	}
	d.cache, err = d.config.assetCache(o)
	return d, err
}

// asset is one boot file for machines.
type asset struct {
	Schematic string    `json:"schematic"`
	Version   string    `json:"version"`
	Name      string    `json:"name"`
	URL       string    `json:"url"`
	Cached    bool      `json:"cached"`
	Size      int64     `json:"size,omitempty"`
	SHA256    string    `json:"sha256,omitempty"`
	Fetched   time.Time `json:"fetched,omitzero"`
	LastUsed  time.Time `json:"lastUsed,omitzero"`
	Names     int       `json:"names,omitempty"` // references that share the content on disk
	Error     string    `json:"error,omitempty"`
}

func (d *desk) asset(ref assets.Ref) asset {
	e, cached := d.cache.Entry(ref)
	e.Ref = ref
	return d.fromEntry(e, cached)
}

func (d *desk) fromEntry(e assets.Entry, cached bool) asset {
	return asset{
		Schematic: e.Ref.Schematic, Version: e.Ref.Version, Name: e.Ref.Name, URL: d.cache.URL(e.Ref), Cached: cached,
		Size: e.Size, SHA256: e.SHA256, Fetched: e.Fetched, LastUsed: e.LastUsed, Names: e.Names,
	}
}

func (a asset) row() []string {
	state, size := "not cached", ""
	if a.Cached {
		state, size = "used "+a.LastUsed.Format(time.DateOnly), assets.Bytes(a.Size)
	}
	return []string{a.Name, a.Version, a.Schematic, size, state}
}

var assetHeading = []string{"FILE", "VERSION", "SCHEMATIC", "SIZE", "STATE"}

func assetsList(a *app) *cobra.Command {
	var urls bool
	var image imageFlags
	c := &cobra.Command{
		Use:   "list [--cluster NAME]",
		Short: "List the boot files in the cache, or those that a cluster needs and where they are",
		Long: `Without --cluster: every file in the cache. With it: every file that the cluster's
nodes marked install: true boot from, cached or not. With --urls only the addresses
of those, one a line: fetch them on a host that reaches the Image Factory, and carry
them to one that does not (docs/assets.md).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.assetsDesk(assets.Options{})
			if err != nil {
				return err
			}
			return d.list(cmd.Context(), image, urls)
		},
	}
	c.Flags().BoolVar(&urls, "urls", false, "print only the URLs of the files, one a line")
	image.register(c)
	return c
}

func (d *desk) list(ctx context.Context, image imageFlags, urls bool) error {
	files := []asset{}
	if d.flags.cluster == "" && !image.given() {
		entries, err := d.cache.Entries(ctx)
		if err != nil {
			return &statusError{exitFailed, err.Error()}
		}
		for _, e := range entries {
			files = append(files, d.fromEntry(e, true))
		}
	} else {
		refs, err := d.wanted(image)
		if err != nil {
			return err
		}
		for _, ref := range refs {
			files = append(files, d.asset(ref))
		}
	}
	if urls {
		for _, f := range files {
			say(d.out, "%s\n", f.URL)
		}
		return nil
	}
	used, quota, err := d.cache.Usage(ctx)
	if err != nil {
		return &statusError{exitFailed, err.Error()}
	}
	if d.asJSON {
		return d.printJSON(struct {
			Files []asset `json:"files"`
			Used  int64   `json:"used"`
			Quota int64   `json:"quota,omitempty"`
		}{files, used, quota})
	}
	rows := make([][]string, 0, len(files))
	for _, f := range files {
		rows = append(rows, f.row())
	}
	if err := table(d.out, assetHeading, rows); err != nil {
		return err
	}
	limit := "no quota"
	if quota > 0 {
		limit = "quota " + assets.Bytes(quota)
	}
	say(d.out, "\n%s in %s, %s\n", assets.Bytes(used), d.config.Assets.Cache, limit)
	return nil
}

// wanted are the files that flags ask for: those of one image, or those of the
// selected nodes.
func (d *desk) wanted(image imageFlags) ([]assets.Ref, error) {
	if image.given() {
		return image.refs(d.cache)
	}
	tree, err := d.loadInventory(d.config)
	if err != nil {
		return nil, err
	}
	nodes, err := d.chosen(tree)
	if err != nil {
		return nil, err
	}
	nodes = slices.DeleteFunc(nodes, func(n inventory.Node) bool { return !n.Install })
	if len(nodes) == 0 {
		return nil, usageError("no node of this selection is marked install: true, so no boot file is needed")
	}
	if err := know(d.cache, nodes); err != nil {
		return nil, err
	}
	refs := imagesOf(nodes)
	for _, ref := range refs {
		if err := ref.Validate(); err != nil {
			return nil, &statusError{exitUsage, err.Error()}
		}
	}
	return refs, nil
}

// know tells the cache what the schematics of nodes consist of, so that it can
// register those that the factory lacks.
func know(cache *assets.Cache, nodes []inventory.Node) error {
	for _, n := range nodes {
		if n.Schematic == nil {
			continue
		}
		if _, err := cache.Know(*n.Schematic); err != nil {
			return usageError("schematic of %s (%s): %v", n.ID(), n.Origin("schematic"), err)
		}
	}
	return nil
}

// imagesOf are the boot files of nodes, each once, sorted.
func imagesOf(nodes []inventory.Node) []assets.Ref {
	refs := make([]assets.Ref, 0, 2*len(nodes))
	for _, n := range nodes {
		refs = append(refs, provisioner.ImagesOf(n)...)
	}
	return eachOnce(refs)
}

func assetsVerify(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Read every file in the cache and compare it with its recorded SHA-256; exits 1 when one is damaged",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.assetsDesk(assets.Options{})
			if err != nil {
				return err
			}
			return d.verify(cmd.Context())
		},
	}
}

func (d *desk) verify(ctx context.Context) error {
	files := []asset{}
	damaged, err := d.cache.Verify(ctx, func(e assets.Entry, err error) {
		f := d.fromEntry(e, true)
		result := "ok"
		if err != nil {
			f.Error, result = err.Error(), "DAMAGED: "+err.Error()
		}
		files = append(files, f)
		if !d.asJSON {
			say(d.out, "%s: %s\n", e.Ref, result)
		}
	})
	if err != nil {
		return err
	}
	if d.asJSON {
		if err := d.printJSON(files); err != nil {
			return err
		}
	} else {
		say(d.out, "files: %d, damaged: %d\n", len(files), damaged)
	}
	if damaged > 0 {
		return &statusError{exitFailed, fmt.Sprintf("%d damaged files: they are never served; fetch them again with `provision assets pull`, and look after the disk", damaged)}
	}
	return nil
}

// short is a schematic for a line of text.
func short(ref assets.Ref) string {
	schematic := ref.Schematic
	if len(schematic) > 8 {
		schematic = schematic[:8] + "…"
	}
	return strings.Join([]string{ref.Name, ref.Version, schematic}, " ")
}
