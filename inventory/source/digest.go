package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// What a tree may be at most, beside its bytes: more is no inventory.
const (
	maxEntries = 200_000
	maxDepth   = 64
)

// settling is more than a tick of any file system's clock: a file that was written
// within it could be written again without a trace.
const settling = 2 * time.Second

// digester computes what a tree of files is, again and again: it reads only the
// files that changed. It is not safe for concurrent use.
type digester struct {
	maxBytes int64
	hidden   bool // also what begins with a dot
	known    map[string]fingerprint
}

// fingerprint is what is remembered of a file.
type fingerprint struct {
	stamp   stamp
	settled bool
	sum     [sha256.Size]byte
}

// stamp tells whether a file is still the one that was read.
type stamp struct {
	size, modified, changed int64
	device, inode           uint64
}

func stampOf(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), modified: info.ModTime().UnixNano()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.changed = time.Unix(sys.Ctim.Unix()).UnixNano()
		s.device, s.inode = uint64(sys.Dev), sys.Ino //nolint:unconvert // 32 bits on some systems
	}
	return s
}

// digest gives "sha256:…" of the names, kinds and contents below a folder. Each
// folder is shown to visit before it is listed, so that a watch on it misses
// nothing. What a name beginning with a dot holds is left out, as the inventory
// leaves it out, but a link that leads there counts with its content.
func (d *digester) digest(ctx context.Context, folder string, visit func(folder string)) (string, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return "", fmt.Errorf("open the inventory's folder %s: %w; create it, or correct the path", folder, err)
	}
	defer func() { _ = root.Close() }()
	w := digestWalk{digester: d, root: root, folder: folder, visit: visit, sum: sha256.New(), seen: make(map[string]fingerprint, len(d.known))}
	if err := w.list(ctx, ".", 0); err != nil {
		return "", err
	}
	d.known = w.seen
	return "sha256:" + hex.EncodeToString(w.sum.Sum(nil)), nil
}

// digestWalk is one walk of a digester.
type digestWalk struct {
	*digester
	root    *os.Root
	folder  string
	visit   func(string)
	sum     hash.Hash
	seen    map[string]fingerprint
	entries int
	bytes   int64
}

func (w *digestWalk) list(ctx context.Context, name string, depth int) error {
	if depth > maxDepth {
		return &Refusal{Reason: TooLarge, Err: fmt.Errorf("%s: folders are nested deeper than %d: remove them from the inventory", w.place(name), maxDepth)}
	}
	if w.visit != nil {
		w.visit(w.place(name))
	}
	entries, err := fs.ReadDir(w.root.FS(), name) // sorted
	if err != nil {
		return fmt.Errorf("list %s: %w; see whether it may be read", w.place(name), cause(err))
	}
	for _, entry := range entries {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read %s: %w; see whether its disk answers", w.folder, err)
		}
		if strings.HasPrefix(entry.Name(), ".") && !w.hidden {
			continue
		}
		if w.entries++; w.entries > maxEntries {
			return &Refusal{Reason: TooLarge, Err: fmt.Errorf("%s has more than %d files: give the folder of the node files only", w.folder, maxEntries)}
		}
		if err := w.entry(ctx, path.Join(name, entry.Name()), entry, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *digestWalk) entry(ctx context.Context, name string, entry fs.DirEntry, depth int) error {
	switch {
	case entry.IsDir():
		w.add("folder", name, "")
		return w.list(ctx, name, depth+1)
	case entry.Type() == fs.ModeSymlink:
		target, err := w.root.Readlink(name)
		if err != nil {
			return w.gone(name, err)
		}
		w.add("link", name, target)
		if info, err := w.root.Stat(name); err == nil && info.Mode().IsRegular() {
			return w.file(name)
		}
		return nil // that is for the inventory to judge
	case entry.Type().IsRegular():
		return w.file(name)
	default: // opening a named pipe would wait for ever
		w.add("other", name, entry.Type().String())
		return nil
	}
}

// add writes a field at a time, each with its length, so that no two trees look
// alike.
func (w *digestWalk) add(fields ...string) {
	for _, field := range fields {
		_, _ = fmt.Fprintf(w.sum, "%d:%s", len(field), field)
	}
}

func (w *digestWalk) file(name string) error {
	f, err := w.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrPermission): // that is for the inventory to judge
		w.add("unreadable", name)
		return nil
	case err != nil:
		return w.gone(name, err)
	}
	defer func() { _ = f.Close() }()
	before := time.Now()
	info, err := f.Stat()
	if err != nil {
		return w.gone(name, err)
	}
	if !info.Mode().IsRegular() {
		return errUnsettled
	}
	if w.bytes += info.Size(); w.bytes > w.maxBytes {
		return tooLarge(w.folder, w.maxBytes)
	}
	now := fingerprint{stamp: stampOf(info)}
	if last := w.known[name]; last.settled && last.stamp == now.stamp {
		now = last
	} else {
		sum := sha256.New()
		n, err := io.Copy(sum, io.LimitReader(f, w.maxBytes+1))
		if err != nil {
			return w.gone(name, err)
		}
		if n != info.Size() {
			return errUnsettled
		}
		sum.Sum(now.sum[:0])
		old := before.Add(-settling).UnixNano()
		now.settled = now.stamp.modified < old && now.stamp.changed < old
	}
	w.seen[name] = now
	w.add("file", name, string(now.sum[:]))
	return nil
}

// gone is an error about a file that was there a moment ago.
func (w *digestWalk) gone(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errUnsettled
	}
	return fmt.Errorf("read %s: %w; see whether it may be read", w.place(name), cause(err))
}

func (w *digestWalk) place(name string) string {
	return filepath.Join(w.folder, filepath.FromSlash(name))
}

// cause is the error without the path, which the message names already.
func cause(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}

func tooLarge(what string, limit int64) error {
	return &Refusal{Reason: TooLarge, Err: fmt.Errorf("%s is larger than %d bytes: remove what is no inventory from it, or raise maxBytes", what, limit)}
}
