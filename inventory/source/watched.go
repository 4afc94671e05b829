package source

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// watched are the folders that are watched for changes: all of the tree, and on
// the way to it each folder that holds a part of the path.
type watched struct {
	log     *slog.Logger
	watcher *fsnotify.Watcher

	mu      sync.Mutex
	folders map[string]fs.FileInfo // with a watch, by path
	tree    map[string]bool        // of the last walk: every name in them counts
	way     map[string]bool        // paths on the way to the tree: only these names count
	seen    map[string]bool        // in this walk
	failed  bool                   // a watch could not be set: it is told once
}

func newWatched(log *slog.Logger) (*watched, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	return &watched{log: log, watcher: watcher, folders: map[string]fs.FileInfo{}}, nil
}

func (w *watched) close() { _ = w.watcher.Close() }

// begin begins a walk of a tree and gives where it really is. The way there is
// watched first, so that an exchange during the walk is seen.
func (w *watched) begin(folder string) string {
	way, real := wayTo(folder)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.way, w.tree, w.seen = map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, path := range way {
		w.way[path] = true
		w.add(filepath.Dir(path), false)
	}
	return real
}

// folder is told each folder of the tree.
func (w *watched) folder(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tree[path] = true
	w.add(path, true)
}

// end ends a walk: what it did not meet is watched no longer.
func (w *watched) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for path := range w.folders {
		if !w.seen[path] {
			w.remove(path)
		}
	}
}

// add sets a watch unless there is one on this very folder.
func (w *watched) add(path string, needed bool) {
	w.seen[path] = true
	info, err := os.Lstat(path)
	if err != nil {
		return // it is gone: the folder above tells
	}
	if last, there := w.folders[path]; there {
		if os.SameFile(last, info) {
			return
		}
		w.remove(path)
	}
	err = w.watcher.Add(path)
	switch {
	case err == nil:
		w.folders[path] = info
	case needed && !w.failed:
		w.failed = true
		w.log.Warn("a folder of the inventory cannot be watched and is scanned only; raise fs.inotify.max_user_watches", "folder", path, "error", err)
	}
}

func (w *watched) remove(path string) {
	_ = w.watcher.Remove(path) // the system may have removed it with the folder
	delete(w.folders, path)
}

// wait calls poke for each change, until the context ends.
func (w *watched) wait(ctx context.Context, poke func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-w.watcher.Events:
			if !open {
				return
			}
			if w.counts(event) {
				poke()
			}
		case err, open := <-w.watcher.Errors:
			if !open {
				return
			}
			w.log.Debug("events of the inventory's folders were lost", "error", err)
			poke()
		}
	}
}

// counts also forgets the watch of a folder that went, which the system removed.
func (w *watched) counts(event fsnotify.Event) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if event.Has(fsnotify.Remove) || event.Has(fsnotify.Rename) {
		if _, there := w.folders[event.Name]; there {
			w.remove(event.Name)
		}
	}
	return w.tree[event.Name] || w.tree[filepath.Dir(event.Name)] || w.way[event.Name]
}

// maxLinks bounds the symbolic links on the way to a folder, as the kernel does.
const maxLinks = 40

// wayTo gives every path that decides what an absolute path leads to, and where it
// leads to; as far as it leads anywhere now.
func wayTo(path string) (way []string, end string) {
	const root = string(filepath.Separator)
	split := func(p string) []string { return strings.Split(filepath.Clean(p), root) }
	here, rest := root, split(path)
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			here = filepath.Dir(here)
			continue
		}
		next := filepath.Join(here, name)
		way = append(way, next)
		target, err := os.Readlink(next)
		if err != nil { // no link, or not there
			here = next
			continue
		}
		if links++; links > maxLinks {
			return way, path
		}
		if filepath.IsAbs(target) {
			here = root
		}
		rest = append(split(target), rest...)
	}
	return way, here
}
