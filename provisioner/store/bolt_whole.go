package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// A bbolt file begins with two pages that each describe the file as one of the
// last two transactions left it; the newer one that is whole counts. bbolt maps the
// file and believes them: the pages that a shorter file lacks would end the process.

// The layout of such a page, with the numbers in the byte order of the host.
const (
	pageHeader   = 16
	metaMagic    = 0xED0CDAED
	metaChecksum = 56 // bytes of the description that its checksum is over
	metaPageSize = 8
	metaPages    = 40
	metaTxID     = 48
)

// description is what a meta page says.
type description struct {
	pageSize uint32
	pages    uint64 // how many the file has at least
	txID     uint64
}

// whole makes sure that the file has the pages that it says it has. A file that
// another process is writing to may be read half; it is then left to the lock.
func whole(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	newest, found := describe(f)
	info, err := f.Stat() // after the description: the file grows first
	switch {
	case err != nil:
		return err
	case info.Size() == 0:
		return fmt.Errorf("%w: the file is empty; this program never leaves one", ErrDamaged)
	case !found:
		return nil // no database at all: bbolt says so
	}
	if want := newest.pages * uint64(newest.pageSize); uint64(info.Size()) < want {
		return fmt.Errorf("%w: the file is torn: it has %d bytes of %d", ErrDamaged, info.Size(), want)
	}
	return nil
}

// describe returns the newest whole description of a file.
func describe(f io.ReaderAt) (newest description, found bool) {
	first, ok := readMeta(f, 0)
	if ok {
		newest, found = first, true
	}
	// The second page begins where the first one ends; without the first, try the usual sizes.
	for _, size := range []int64{int64(first.pageSize), 4096, 16384, 65536} {
		second, ok := readMeta(f, size)
		if size > 0 && ok && (!found || second.txID > newest.txID) {
			newest, found = second, true
		}
	}
	return newest, found
}

func readMeta(f io.ReaderAt, at int64) (description, bool) {
	page := make([]byte, metaChecksum+8)
	if _, err := f.ReadAt(page, at+pageHeader); err != nil && !errors.Is(err, io.EOF) {
		return description{}, false
	}
	sum := fnv.New64a()
	_, _ = sum.Write(page[:metaChecksum]) // a hash takes everything
	if binary.NativeEndian.Uint32(page) != metaMagic || binary.NativeEndian.Uint64(page[metaChecksum:]) != sum.Sum64() {
		return description{}, false
	}
	return description{
		pageSize: binary.NativeEndian.Uint32(page[metaPageSize:]),
		pages:    binary.NativeEndian.Uint64(page[metaPages:]),
		txID:     binary.NativeEndian.Uint64(page[metaTxID:]),
	}, true
}
