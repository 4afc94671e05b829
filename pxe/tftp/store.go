package tftp

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// errMissing is what a client reads when a file is not there. It names no path
// of this host.
var errMissing = errors.New("file not found")

// largestFile bounds what one name may occupy in memory; iPXE binaries have 1 MB.
const largestFile = 32 << 20

// store keeps the few binaries in memory, shared by all transfers, and reads
// one again when it was replaced on disk.
type store struct {
	dir string

	mu   sync.Mutex
	kept map[string]keptFile
}

type keptFile struct {
	content []byte // never written
	size    int64
	changed time.Time
}

// read returns the content for a name of the table.
func (s *store) read(name string) ([]byte, error) {
	for _, candidate := range files[name] {
		content, err := s.readFile(filepath.Join(s.dir, candidate))
		if !errors.Is(err, fs.ErrNotExist) {
			return content, err
		}
	}
	return nil, errMissing
}

func (s *store) readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read iPXE binary: %w; check the folder of iPXE binaries", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, ok := s.kept[path]; ok && k.size == info.Size() && k.changed.Equal(info.ModTime()) {
		return k.content, nil
	}
	if !info.Mode().IsRegular() || info.Size() > largestFile {
		return nil, fmt.Errorf("read iPXE binary %s: it is no regular file of at most %d bytes; install the package ipxe again", path, largestFile)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read iPXE binary: %w; check the folder of iPXE binaries", err)
	}
	if s.kept == nil {
		s.kept = map[string]keptFile{}
	}
	s.kept[path] = keptFile{content, int64(len(content)), info.ModTime()}
	return content, nil
}
