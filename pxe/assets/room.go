package assets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxFile bounds one boot file, in bytes. The largest real ones, ISOs with many
// extensions, are near 1 GB.
const maxFile = 8 << 30

// reserve makes sure that a file of size bytes, of which have are there already,
// fits into the quota and the disk, before a byte is written. size is -1 when
// the server did not say. It returns how many bytes the file may have, and a
// function that ends the reservation.
func (c *Cache) reserve(d *download, size int64) (allowed int64, release func(), err error) {
	if size > maxFile {
		return 0, nil, localError{fmt.Errorf("it has %s, no boot file has more than %s; is this an Image Factory?", Bytes(size), Bytes(maxFile))}
	}
	c.roomMu.Lock()
	defer c.roomMu.Unlock()
	name := d.Name()
	c.growing[name] = 0 // what of it is there already must not count twice
	defer func() {
		if err != nil {
			delete(c.growing, name)
		}
	}()
	allowed = maxFile
	if c.opts.Quota > 0 {
		used, err := c.used()
		if err != nil {
			return 0, nil, err
		}
		allowed = min(allowed, c.opts.Quota-used)
		if allowed < max(size, 1) {
			return 0, nil, quotaError(c.opts.Quota, used, size)
		}
	}
	if free, err := freeSpace(filepath.Dir(d.final)); err == nil {
		if rest := size - d.offset; free < max(rest, 1) {
			return 0, nil, diskError(fmt.Errorf("the file needs %s, the disk has %s left: %w", Bytes(rest), Bytes(free), syscall.ENOSPC))
		}
		allowed = min(allowed, d.offset+free)
	}
	c.growing[name] = max(size, 0)
	return allowed, func() {
		c.roomMu.Lock()
		defer c.roomMu.Unlock()
		delete(c.growing, name)
	}, nil
}

func quotaError(quota, used, size int64) error {
	need := "the file"
	if size > 0 {
		need = "this file of " + Bytes(size)
	}
	return localError{fmt.Errorf("%s does not fit into the cache: assets.quota is %s and %s are used; run `provision assets prune --unused-for 720h`, or raise assets.quota", need, Bytes(quota), Bytes(used))}
}

// used counts the bytes of the cache on disk: a file with several names once,
// and a file that is just being fetched as large as it will be.
func (c *Cache) used() (int64, error) {
	used, err := diskUsage(c.opts.Dir, func(path string) bool { _, ok := c.growing[path]; return ok })
	if err != nil {
		return 0, diskError(err)
	}
	for _, size := range c.growing {
		used += size
	}
	return used, nil
}

// Usage is how many bytes the cache takes on disk, and its quota; 0 for none.
func (c *Cache) Usage(context.Context) (used, quota int64, err error) {
	c.roomMu.Lock()
	defer c.roomMu.Unlock()
	used, err = c.used()
	return used, c.opts.Quota, err
}

// Free is how many bytes the disk of the cache has left.
func (c *Cache) Free() (int64, error) {
	free, err := freeSpace(c.opts.Dir)
	if err != nil {
		return 0, diskError(err)
	}
	return free, nil
}

// inode tells files apart whatever their names.
type inode struct{ dev, ino uint64 }

func diskUsage(dir string, skip func(path string) bool) (int64, error) {
	var used int64
	seen := map[inode]bool{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed while we look
		}
		if err != nil || !d.Type().IsRegular() || skip(path) {
			return err
		}
		stat, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if sys, ok := stat.Sys().(*syscall.Stat_t); ok {
			id := inode{uint64(sys.Dev), sys.Ino} //nolint:unconvert // Dev is not uint64 everywhere
			if seen[id] {
				return nil
			}
			seen[id] = true
		}
		used += stat.Size()
		return nil
	})
	return used, err
}

func freeSpace(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	free := s.Bavail * uint64(s.Bsize) //nolint:gosec // block sizes are positive
	return int64(min(free, math.MaxInt64/2)), nil
}

// Bytes is a size for people, such as 98.3 MiB.
func Bytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n), -1
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}

const units = "KMGTPE"

// ParseBytes reads a size such as 50GiB, 800 MB or 1048576.
func ParseBytes(text string) (int64, error) {
	bad := fmt.Errorf("%q is not a size; write it as 50GiB, 800MB or a number of bytes", text)
	s := strings.TrimSpace(text)
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	unit := strings.ToUpper(strings.TrimSpace(s[len(digits):]))
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || strings.Trim(digits, "0123456789.") != "" {
		return 0, bad
	}
	factor := 1.0
	if unit != "" && unit != "B" {
		power := strings.IndexByte(units, unit[0]) + 1
		step, known := map[string]float64{"": 1024, "IB": 1024, "B": 1000}[unit[1:]]
		if power == 0 || !known {
			return 0, bad
		}
		for range power {
			factor *= step
		}
	}
	if n *= factor; n < 0 || n >= math.MaxInt64/2 {
		return 0, bad
	}
	return int64(n), nil
}
