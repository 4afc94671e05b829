package inventory

import (
	"io/fs"
	"syscall"
	"time"
)

// stamp tells whether a file is still the one that was read. The time of the
// inode's change is in it because the other times can be set at will (`cp -p`,
// `git checkout` of some tools, `touch -r`).
type stamp struct {
	modified, changed time.Time
	size              int64
	device, inode     uint64
	// settled says that the file was at rest when it was read: one that was
	// written in the same tick of the file system's clock could be written again
	// without a trace.
	settled bool
}

// settling is more than a tick of any file system's clock (FAT has 2 s).
const settling = 2 * time.Second

func stampOf(info fs.FileInfo) stamp {
	s := stamp{modified: info.ModTime(), size: info.Size()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.changed = time.Unix(sys.Ctim.Unix())
		s.device, s.inode = uint64(sys.Dev), sys.Ino //nolint:unconvert // 32 bits on some systems
	}
	return s
}

// olderThan tells whether the file had been at rest at a moment.
func (s stamp) olderThan(moment time.Time) bool {
	return s.modified.Before(moment) && s.changed.Before(moment)
}

// same compares with what the file system says now.
func (s stamp) same(now stamp) bool {
	return s.settled && s.modified.Equal(now.modified) && s.changed.Equal(now.changed) &&
		s.size == now.size && s.device == now.device && s.inode == now.inode
}
