package source

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/talos-provision/provision/inventory"
)

// DirectoryOptions say which folder is watched.
type DirectoryOptions struct {
	Options
	// Path is the folder of the inventory. It, and every folder above it, may be a
	// symbolic link that is exchanged, as with ConfigMaps and git-sync.
	Path string
	// Quiet is how long nothing must change before a look, and MaxQuiet how long a
	// change waits for that at most; 500 ms and 5 s by default.
	Quiet, MaxQuiet time.Duration
	// Rescan is how often the folder is looked at without a change being told, since
	// network file systems and overlays tell none; 1 m by default.
	Rescan time.Duration
}

// NewDirectory makes the source of an inventory in a folder. Nothing is read yet,
// and the folder need not be there yet.
//
// The digest of a generation holds every file of the folder, so that a changed
// machine config inside it makes a new generation too. Files elsewhere, and what
// begins with a dot, are not looked at.
func NewDirectory(o DirectoryOptions) (*Source, error) {
	if o.Path == "" {
		return nil, errors.New("inventory source: no folder is given: set its path")
	}
	folder, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("inventory source %s: %w; give an absolute path", o.Path, err)
	}
	if o.Quiet < 0 || o.MaxQuiet < 0 || o.Rescan < 0 {
		return nil, fmt.Errorf("inventory source %s: quiet, maxQuiet and rescan must not be negative: leave them out for the defaults", o.Path)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	o.Options = o.withDefaults()
	orElse(&o.MaxBytes, DefaultMaxBytesOfFolder)
	orElse(&o.Quiet, DefaultQuiet)
	orElse(&o.MaxQuiet, DefaultMaxQuiet)
	orElse(&o.Rescan, DefaultRescan)
	d := &directory{options: o, folder: folder, digester: digester{maxBytes: o.MaxBytes}, loader: inventory.NewLoader(folder)}
	return newSource(folder, o.Options, d), nil
}

// directory is a folder as an origin.
type directory struct {
	options  DirectoryOptions
	folder   string
	digester digester
	loader   *inventory.Loader

	mu      sync.Mutex
	watched *watched // nil unless Run runs
}

func (d *directory) head(ctx context.Context) (*candidate, error) {
	watched := d.current()
	id, err := d.digest(ctx, watched)
	if err != nil {
		return nil, err
	}
	return &candidate{id: id, open: func(context.Context) (opened, error) {
		return opened{
			folder: d.folder,
			load: func() (*inventory.Tree, inventory.Findings, error) {
				tree, findings, _, err := d.loader.Reload()
				return tree, findings, err
			},
			confirm: func(ctx context.Context) error {
				now, err := d.digest(ctx, watched)
				if err == nil && now != id {
					err = errUnsettled
				}
				return err
			},
		}, nil
	}}, nil
}

// digest sets watches on what it walks through.
func (d *directory) digest(ctx context.Context, watched *watched) (string, error) {
	real := d.folder
	var visit func(string)
	if watched != nil {
		real = watched.begin(d.folder)
		visit = watched.folder
		defer watched.end()
	}
	id, err := d.digester.digest(ctx, real, visit)
	if errors.Is(err, errUnsettled) {
		return "", fmt.Errorf("read the inventory %s: %w; wait for whoever writes them", d.folder, errUnsettled)
	}
	return id, err
}

func (d *directory) current() *watched {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.watched
}

// kept: a folder is its own last state.
func (d *directory) kept(context.Context) *candidate { return nil }

func (d *directory) delay(int) time.Duration { return d.options.Rescan }

func (d *directory) settle() (quiet, longest time.Duration) {
	return d.options.Quiet, d.options.MaxQuiet
}

// lasting: what a node refers to may be elsewhere and be corrected there.
func (d *directory) lasting() bool { return false }

// watch waits for changes. Where the system gives no events, the scans remain.
func (d *directory) watch(ctx context.Context, poke func()) error {
	w, err := newWatched(d.options.Log)
	if err != nil {
		d.options.Log.Warn("changes of the inventory are seen by scanning only", "folder", d.folder, "every", d.options.Rescan, "error", err)
		<-ctx.Done()
		return nil
	}
	defer w.close()
	d.set(w)
	defer d.set(nil)
	poke() // the watches are set by the next look
	w.wait(ctx, poke)
	return nil
}

func (d *directory) set(w *watched) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watched = w
}
