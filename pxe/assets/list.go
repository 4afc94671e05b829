package assets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Entry is a file that the cache holds.
type Entry struct {
	Ref Ref
	// Size is in bytes; SHA256 is the recorded one, "" when the record is missing.
	Size   int64
	SHA256 string
	// Fetched is when the content came, LastUsed when it was last asked for, to
	// the hour.
	Fetched, LastUsed time.Time
	// Names is how many references share the content on disk, 1 or more.
	Names int
}

// Entries lists what the cache holds, sorted by reference. It reads no content.
func (c *Cache) Entries(ctx context.Context) ([]Entry, error) {
	paths, err := fs.Glob(os.DirFS(c.opts.Dir), "*/v*/*")
	if err != nil {
		return nil, fmt.Errorf("list the cache %s: %w", c.opts.Dir, err)
	}
	entries := make([]Entry, 0, len(paths))
	for _, path := range paths {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if e, ok := c.entry(filepath.Join(c.opts.Dir, path)); ok {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Ref.String(), b.Ref.String()) })
	return entries, nil
}

// Entry looks one file up; false when the cache does not hold it.
func (c *Cache) Entry(ref Ref) (Entry, bool) {
	if ref.Validate() != nil {
		return Entry{}, false
	}
	return c.entry(ref.path(c.opts.Dir))
}

func (c *Cache) entry(path string) (Entry, bool) {
	tail, err := filepath.Rel(c.opts.Dir, path)
	if err != nil {
		return Entry{}, false
	}
	ref, err := ParseRef(filepath.ToSlash(tail))
	if err != nil {
		return Entry{}, false // a record, a partial file, or not ours
	}
	stat, err := os.Stat(path)
	if err != nil || !stat.Mode().IsRegular() {
		return Entry{}, false
	}
	e := Entry{Ref: ref, Size: stat.Size(), Fetched: stat.ModTime(), LastUsed: stat.ModTime(), Names: 1}
	if sys, ok := stat.Sys().(*syscall.Stat_t); ok && sys.Nlink > 1 {
		e.Names = int(sys.Nlink) - 1 // one is the blob's
	}
	if sum, err := readRecord(path + recordSuffix); err == nil {
		e.SHA256 = sum
	}
	if record, err := os.Stat(path + recordSuffix); err == nil && record.ModTime().After(e.LastUsed) {
		e.LastUsed = record.ModTime()
	}
	return e, true
}

// Verify reads every file again and compares it with its recorded SHA-256.
// report is called for each, with what is wrong or nil. It returns how many are
// damaged; those are never served, and fetched anew when they are next needed.
func (c *Cache) Verify(ctx context.Context, report func(Entry, error)) (damaged int, err error) {
	entries, err := c.Entries(ctx)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		c.forget(e.Ref) // verify what is on the disk now
		err := c.verify(ctx, e.Ref)
		if ctx.Err() != nil {
			return damaged, ctx.Err()
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // pruned meanwhile
		}
		if err != nil {
			damaged++
		}
		report(e, err)
	}
	return damaged, nil
}

func (c *Cache) forget(ref Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.verified, ref)
}

// PruneOptions choose what goes. Without Keep and UnusedFor everything does.
type PruneOptions struct {
	// Keep says of a file that it stays, whatever its age.
	Keep func(Ref) bool
	// UnusedFor keeps files that were used within it.
	UnusedFor time.Duration
	// DryRun only says what would go.
	DryRun bool
	// Now is the time to count from; zero means the present.
	Now time.Time
}

// Prune removes files from the cache and returns them with the bytes that this
// frees: content that a kept file shares frees none. A file that is being sent
// goes on being sent.
func (c *Cache) Prune(ctx context.Context, o PruneOptions) (gone []Entry, freed int64, err error) {
	entries, err := c.Entries(ctx)
	if err != nil {
		return nil, 0, err
	}
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	before, _, err := c.Usage(ctx)
	if err != nil {
		return nil, 0, err
	}
	left := map[inode]int{} // names of each content that stay
	for _, e := range entries {
		if (o.Keep != nil && o.Keep(e.Ref)) || (o.UnusedFor > 0 && o.Now.Sub(e.LastUsed) < o.UnusedFor) {
			left[c.inode(e.Ref)]++
			continue
		}
		gone = append(gone, e)
	}
	if o.DryRun {
		return gone, c.wouldFree(gone, left), nil
	}
	for _, e := range gone {
		if err := ctx.Err(); err != nil {
			return gone, 0, err
		}
		if err := c.remove(e.Ref); err != nil {
			return gone, 0, err
		}
	}
	if err := c.sweep(); err != nil {
		return gone, 0, err
	}
	after, _, err := c.Usage(ctx)
	return gone, before - after, err
}

func (c *Cache) inode(ref Ref) inode {
	stat, err := os.Stat(ref.path(c.opts.Dir))
	if err != nil {
		return inode{}
	}
	sys, ok := stat.Sys().(*syscall.Stat_t)
	if !ok {
		return inode{}
	}
	return inode{uint64(sys.Dev), sys.Ino} //nolint:unconvert // Dev is not uint64 everywhere
}

func (c *Cache) wouldFree(gone []Entry, left map[inode]int) (freed int64) {
	for _, e := range gone {
		if id := c.inode(e.Ref); left[id] == 0 {
			left[id]++ // counted once
			freed += e.Size
		}
	}
	return freed
}

// remove takes one file out: first its name, so that nothing without a record
// is ever found.
func (c *Cache) remove(ref Ref) error {
	c.forget(ref)
	path := ref.path(c.opts.Dir)
	for _, name := range []string{path, path + recordSuffix} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return diskError(err)
		}
	}
	// These fail while something is left in them, which is as it should be.
	_ = os.Remove(filepath.Dir(path))
	_ = os.Remove(filepath.Dir(filepath.Dir(path)))
	return nil
}

// sweep removes content that has no other name left, and old partial files.
func (c *Cache) sweep() error {
	c.removePartials()
	blobs, err := os.ReadDir(filepath.Join(c.opts.Dir, blobDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return diskError(err)
	}
	for _, b := range blobs {
		stat, err := b.Info()
		if err != nil || strings.HasSuffix(b.Name(), ".link") {
			continue
		}
		if sys, ok := stat.Sys().(*syscall.Stat_t); !ok || sys.Nlink > 1 {
			continue
		}
		if err := os.Remove(c.blob(b.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return diskError(err)
		}
	}
	return nil
}
