package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/talos-provision/provision/inventory/schematic"
	"github.com/talos-provision/provision/pxe/assets"
)

// imageFlags name one image that is in no inventory.
type imageFlags struct {
	schematic, version, arch string
	secureBoot               bool
}

func (i *imageFlags) register(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&i.schematic, "schematic", "", "in place of a cluster: id of a schematic, or YAML file with one")
	f.StringVar(&i.version, "talos-version", "", "Talos version of that image, such as v1.13.9")
	f.StringVar(&i.arch, "arch", "amd64", "architecture of that image: amd64 or arm64")
	f.BoolVar(&i.secureBoot, "secure-boot", false, "that image as a signed UKI")
}

func (i *imageFlags) given() bool { return i.schematic != "" || i.version != "" }

// id is the schematic's id; one that is read from a file is made known to the
// cache, which registers it when the factory lacks it.
func (i *imageFlags) id(cache *assets.Cache) (string, error) {
	if _, err := os.Stat(i.schematic); err != nil && !strings.ContainsAny(i.schematic, "./") {
		return i.schematic, nil
	}
	text, err := os.ReadFile(i.schematic)
	if err != nil {
		return "", usageError("--schematic: %v", err)
	}
	s, err := schematic.Parse(text)
	if err != nil {
		return "", usageError("--schematic %s: %v", i.schematic, err)
	}
	id, err := cache.Know(s)
	if err != nil {
		return "", usageError("--schematic %s: %v", i.schematic, err)
	}
	return id, nil
}

func (i *imageFlags) refs(cache *assets.Cache) ([]assets.Ref, error) {
	if i.schematic == "" || i.version == "" {
		return nil, usageError("--schematic and --talos-version go together")
	}
	id, err := i.id(cache)
	if err != nil {
		return nil, err
	}
	refs := assets.Image{Schematic: id, Version: i.version, Arch: i.arch, SecureBoot: i.secureBoot}.Refs()
	for _, ref := range refs {
		if err := ref.Validate(); err != nil {
			return nil, usageError("%v", err)
		}
	}
	return refs, nil
}

func assetsPull(a *app) *cobra.Command {
	var image imageFlags
	c := &cobra.Command{
		Use:   "pull --cluster NAME",
		Short: "Fetch the boot files that a cluster's nodes need from the Image Factory, each once",
		Long: `pull fetches what the nodes marked install: true of a cluster boot from, so that a
run finds it in the cache. A run does the same before it touches a machine. A file
that is there is checked and not fetched again; a download that was cut goes on where
it stopped.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.flags.cluster == "" && !image.given() {
				return usageError("name the cluster: provision assets pull --cluster NAME")
			}
			p := &pull{states: map[assets.Ref]time.Time{}}
			d, err := a.assetsDesk(assets.Options{OnProgress: p.progress})
			if err != nil {
				return err
			}
			p.desk = d
			return p.run(cmd.Context(), image)
		},
	}
	image.register(c)
	return c
}

// progressEvery is the time between two lines about one file.
const progressEvery = 5 * time.Second

// pull fetches files and tells how it goes.
type pull struct {
	*desk

	mu     sync.Mutex
	states map[assets.Ref]time.Time // when a file's progress was last told
}

func (p *pull) progress(ref assets.Ref, done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, seen := p.states[ref]; seen && time.Since(last) < progressEvery {
		return
	} else if !seen {
		p.states[ref] = time.Now() // the first line comes when it takes long
		return
	}
	p.states[ref] = time.Now()
	of := ""
	if total >= 0 {
		of = " of " + assets.Bytes(total)
	}
	say(p.errOut, "%s: %s%s\n", short(ref), assets.Bytes(done), of)
}

func (p *pull) run(ctx context.Context, image imageFlags) error {
	refs, err := p.wanted(image)
	if err != nil {
		return err
	}
	files := make([]asset, len(refs))
	var group errgroup.Group
	group.SetLimit(pullParallel)
	for i, ref := range refs {
		group.Go(func() error {
			_, before := p.cache.Entry(ref)
			_, err := p.cache.Ensure(ctx, ref)
			files[i] = p.asset(ref)
			if err != nil {
				files[i].Error, files[i].Cached = err.Error(), false
				return err
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if _, progressed := p.states[ref]; progressed || !before {
				say(p.errOut, "%s: fetched, %s\n", short(ref), assets.Bytes(files[i].Size))
			}
			return nil
		})
	}
	_ = group.Wait() // every file says what became of it
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return p.conclude(files)
}

// conclude tells the result of all files; one that failed makes it a failure.
func (p *pull) conclude(files []asset) error {
	var failed []error
	rows := make([][]string, 0, len(files))
	for _, f := range files {
		row := f.row()
		if f.Error != "" {
			failed = append(failed, errors.New(f.Error))
			row[len(row)-1] = "FAILED"
		} else {
			row[len(row)-1] = "cached"
		}
		rows = append(rows, row)
	}
	var err error
	if p.asJSON {
		err = p.printJSON(files)
	} else {
		err = table(p.out, assetHeading, rows)
	}
	if err != nil {
		return err
	}
	if len(failed) > 0 {
		return &statusError{exitFailed, errors.Join(failed...).Error()}
	}
	return nil
}

func assetsImport(a *app) *cobra.Command {
	var image imageFlags
	var replace bool
	c := &cobra.Command{
		Use:   "import PATH...",
		Short: "Take boot files from files or folders into the cache, for sites without a way to the Image Factory",
		Long: `A folder may be another host's cache, or what wget made of ` + "`provision assets list --urls`" + `:
files at <schematic>/<version>/<name>. For others, such as those of a Talos release,
say what they are with --schematic and --talos-version. Hashes in <file>.sha256,
sha256sum.txt or SHA256SUMS beside a file are compared.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, paths []string) error {
			d, err := a.assetsDesk(assets.Options{})
			if err != nil {
				return err
			}
			o := assets.ImportOptions{Version: image.version, Replace: replace}
			if image.schematic != "" {
				if o.Schematic, err = image.id(d.cache); err != nil {
					return err
				}
			}
			return d.takeIn(cmd.Context(), paths, o)
		},
	}
	f := c.Flags()
	f.StringVar(&image.schematic, "schematic", "", "id of the files' schematic, or YAML file with it")
	f.StringVar(&image.version, "talos-version", "", "Talos version of the files, such as v1.13.9")
	f.BoolVar(&replace, "replace", false, "take a file although the cache holds another one under its name")
	return c
}

// imported is one file of an import for machines.
type imported struct {
	Path   string `json:"path"`
	Ref    string `json:"ref,omitempty"`
	Size   int64  `json:"size,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Result string `json:"result"` // imported, present, skipped or failed
	Error  string `json:"error,omitempty"`
}

func (d *desk) takeIn(ctx context.Context, paths []string, o assets.ImportOptions) error {
	files := []imported{}
	count := map[string]int{}
	for _, path := range paths {
		err := d.cache.Import(ctx, path, o, func(i assets.Imported) {
			f := imported{Path: i.Path, Size: i.Info.Size, SHA256: i.Info.SHA256, Result: "imported"}
			if i.Ref.Name != "" {
				f.Ref = i.Ref.String()
			}
			switch {
			case i.Err != nil:
				f.Result, f.Error = "failed", i.Err.Error()
			case i.Skipped != "":
				f.Result, f.Error = "skipped", i.Skipped
			case i.Present:
				f.Result = "present"
			}
			count[f.Result]++
			files = append(files, f)
			if !d.asJSON {
				say(d.out, "%s\n", f.line())
			}
		})
		if err != nil {
			return err
		}
	}
	if d.asJSON {
		if err := d.printJSON(files); err != nil {
			return err
		}
	} else {
		say(d.out, "imported: %d, already there: %d, skipped: %d, failed: %d\n", count["imported"], count["present"], count["skipped"], count["failed"])
	}
	if count["failed"] > 0 || count["imported"]+count["present"] == 0 {
		return &statusError{exitFailed, "not everything was imported, see above"}
	}
	return nil
}

func (f imported) line() string {
	if f.Error != "" {
		return f.Result + ": " + filepath.Clean(f.Path) + ": " + f.Error
	}
	return f.Result + ": " + filepath.Clean(f.Path) + " as " + f.Ref + ", " + assets.Bytes(f.Size)
}
