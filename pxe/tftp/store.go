package tftp

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/talos-provision/provision/pxe/bootfile"
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
	netascii []byte // content in that form, made when first asked for
	content  []byte // never written
	size     int64
	changed  time.Time
}

// read returns the content for a name of the table.
func (s *store) read(name string, netascii bool) ([]byte, error) {
	for _, candidate := range bootfile.Files(name) {
		kept, err := s.readFile(filepath.Join(s.dir, candidate), netascii)
		if !errors.Is(err, fs.ErrNotExist) {
			if netascii {
				return kept.netascii, err
			}
			return kept.content, err
		}
	}
	return nil, errMissing
}

func (s *store) readFile(path string, netascii bool) (keptFile, error) {
	info, err := os.Stat(path)
	if err != nil {
		return keptFile{}, fmt.Errorf("read iPXE binary: %w; check the folder of iPXE binaries", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, ok := s.kept[path]; ok && k.size == info.Size() && k.changed.Equal(info.ModTime()) {
		if netascii && k.netascii == nil {
			k.netascii = toNetascii(k.content)
			s.kept[path] = k
		}
		return k, nil
	}
	if !info.Mode().IsRegular() || info.Size() > largestFile {
		return keptFile{}, fmt.Errorf("read iPXE binary %s: it is no regular file of at most %d bytes; install the package ipxe again", path, largestFile)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return keptFile{}, fmt.Errorf("read iPXE binary: %w; check the folder of iPXE binaries", err)
	}
	if s.kept == nil {
		s.kept = map[string]keptFile{}
	}
	k := keptFile{content: content, size: int64(len(content)), changed: info.ModTime()}
	if netascii {
		k.netascii = toNetascii(content)
	}
	s.kept[path] = k
	return k, nil
}

// toNetascii ends lines as RFC 764 does: LF becomes CR LF, a lone CR gets a NUL.
func toNetascii(content []byte) []byte {
	text := bytes.ReplaceAll(content, []byte("\r"), []byte("\r\x00"))
	return bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))
}
