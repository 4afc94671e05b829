package machineconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// The files of a cluster, as talosctl calls them, and our patch.
const (
	SecretsFile      = "secrets.yaml"
	TalosconfigFile  = "talosconfig"
	ControlPlaneFile = "controlplane.yaml"
	WorkerFile       = "worker.yaml"
	NodePatchFile    = "node.yaml.tmpl"
)

// Files are the generated files of a cluster. They hold its keys, and show
// nothing of them however they are printed.
type Files struct {
	KubernetesVersion string // without "v"
	held              *held
}

// held is behind a pointer so that no way of formatting what holds Files reaches it.
type held struct{ content map[string][]byte }

// Names are the names of the files, sorted.
func (f Files) Names() []string { return slices.Sorted(maps.Keys(f.all())) }

// all makes the zero value usable.
func (f Files) all() map[string][]byte {
	if f.held == nil {
		return nil
	}
	return f.held.content
}

// Format writes the names.
func (f Files) Format(state fmt.State, _ rune) { _, _ = fmt.Fprintf(state, "files %q", f.Names()) }

// LogValue is the names.
func (f Files) LogValue() slog.Value { return slog.AnyValue(f.Names()) }

// MarshalText is the names.
func (f Files) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "files %q", f.Names()), nil }

// Write puts the files into a folder, which is made when it is missing, readable
// for their owner alone (0600). No file is overwritten, and there are all of
// them or none: each is written whole under another name and then linked to its
// own, which fails where something has that name.
func (f Files) Write(dir string) error {
	if err := f.absentFrom(dir); err != nil {
		return err
	}
	const ownerOnly = 0o700
	if err := os.MkdirAll(dir, ownerOnly); err != nil {
		return fmt.Errorf("make the folder of the configs: %w", err)
	}
	staging, err := os.MkdirTemp(dir, ".init-")
	if err != nil {
		return fmt.Errorf("write the configs to %s: %w", dir, err)
	}
	defer func() { _ = os.RemoveAll(staging) }()
	for name, content := range f.all() {
		if err := writeWhole(filepath.Join(staging, name), content); err != nil {
			return fmt.Errorf("write %s: %w", filepath.Join(dir, name), err)
		}
	}
	return f.publish(staging, dir)
}

// absentFrom makes sure that nothing would be overwritten.
func (f Files) absentFrom(dir string) error {
	names := f.Names()
	if slices.Contains(names, SecretsFile) {
		names = append([]string{SecretsFile}, names...) // of several, the one that says most
	}
	for _, name := range names {
		file := filepath.Join(dir, name)
		if _, err := os.Lstat(file); err == nil {
			return existing(file)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("look for %s: %w", file, err)
		}
	}
	return nil
}

// ErrExists says that a file is there already, and that nothing was written.
var ErrExists = errors.New("nothing was written")

func existing(file string) error {
	if filepath.Base(file) == SecretsFile {
		return fmt.Errorf("%w: %s exists, and without it a cluster cannot be reached or grown: give it with --secrets to make configs from it, or write to another folder", ErrExists, file)
	}
	return fmt.Errorf("%w: %s exists: move it away, or write to another folder", ErrExists, file)
}

// publish gives the files their names; what was named is taken back when one fails.
func (f Files) publish(staging, dir string) error {
	var named []string
	for _, name := range f.Names() {
		file := filepath.Join(dir, name)
		if err := os.Link(filepath.Join(staging, name), file); err != nil {
			for _, done := range named {
				_ = os.Remove(done)
			}
			if errors.Is(err, fs.ErrExist) {
				return existing(file)
			}
			return fmt.Errorf("write %s: %w", file, err)
		}
		named = append(named, file)
	}
	return syncDir(dir)
}

// writeWhole writes a file that only its owner can read, and waits until it is
// on disk: keys of a cluster that runs already must not be lost with the power.
func writeWhole(file string, content []byte) error {
	const ownerOnly = 0o600
	w, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, ownerOnly)
	if err != nil {
		return err
	}
	_, err = w.Write(content)
	return errors.Join(err, w.Sync(), w.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("write the configs to %s: %w", dir, err)
	}
	return errors.Join(d.Sync(), d.Close())
}
