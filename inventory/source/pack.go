package source

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// unpack takes the objects of a pack into the store. The pack is measured first:
// a few bytes of it can stand for an object that fills the memory.
func (s *store) unpack(pack io.Reader) error {
	f, err := os.CreateTemp(s.folder, "fetched-*")
	if err != nil {
		return err
	}
	defer func() {
		_ = f.Close()
		_ = os.Remove(f.Name())
	}()
	if _, err := io.Copy(f, pack); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := measure(f, s.maxBytes); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return packfile.UpdateObjectStorage(s.objects, f)
}

// measure fails if an object of a pack is larger than a limit, as it says or as it
// turns out.
func measure(pack io.Reader, limit int64) error {
	scanner := packfile.NewScanner(pack)
	_, count, err := scanner.Header()
	if err != nil {
		return fmt.Errorf("read the pack: %w", err)
	}
	for range count {
		header, err := scanner.NextObjectHeader()
		if err != nil {
			return fmt.Errorf("read the pack: %w", err)
		}
		if header.Length > limit {
			return tooLarge("a file that is fetched", limit)
		}
		m := meter{left: header.Length}
		if _, _, err := scanner.NextObject(&m); err != nil {
			return fmt.Errorf("read the pack: %w", err)
		}
		if header.Type == plumbing.OFSDeltaObject || header.Type == plumbing.REFDeltaObject {
			if size := m.deltaSize(); size > uint64(limit) { //nolint:gosec // it is positive
				return tooLarge("a file that is fetched", limit)
			}
		}
	}
	return nil
}

// meter counts what is written to it and keeps the beginning.
type meter struct {
	left  int64
	start []byte
}

var errLonger = errors.New("an object is longer than it says")

// Write counts.
func (m *meter) Write(p []byte) (int, error) {
	if m.left -= int64(len(p)); m.left < 0 {
		return 0, errLonger
	}
	if room := 2*binary.MaxVarintLen64 - len(m.start); room > 0 {
		m.start = append(m.start, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

// deltaSize is how large the object is that a delta makes: the second number in it.
func (m *meter) deltaSize() uint64 {
	_, n := binary.Uvarint(m.start)
	if n <= 0 {
		return 0 // no delta at all: whoever reads it will say so
	}
	size, _ := binary.Uvarint(m.start[n:])
	return size
}
