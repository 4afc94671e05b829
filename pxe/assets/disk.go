package assets

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// partialPrefix marks files that are not complete. No name of the closed table
// begins with it.
const partialPrefix = ".partial-"

const recordSuffix = ".sha256"

// verify hashes the file and compares it with the record beside it. A missing
// file is fs.ErrNotExist.
func (c *Cache) verify(ctx context.Context, ref Ref) error {
	path := ref.path(c.opts.Dir)
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	want, err := readRecord(path + recordSuffix)
	if err != nil {
		// Without a record nothing can be said of the file.
		return fmt.Errorf("read its recorded SHA-256: %v", err) //nolint:errorlint // must not look like a missing file
	}
	stat, err := f.Stat()
	if err != nil {
		return err
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, reading{ctx, f}); err != nil {
		return err
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != want {
		return fmt.Errorf("its SHA-256 is %s, recorded was %s", got, want)
	}
	c.remember(ref, Info{Size: stat.Size(), SHA256: want}, stat)
	return nil
}

// reading stops a long read when ctx ends.
type reading struct {
	ctx context.Context
	r   io.Reader
}

func (r reading) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// readRecord reads a line of sha256sum: "<hex>  <name>".
func readRecord(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum, _, _ := strings.Cut(string(text), " ")
	if len(sum) != 2*sha256.Size || strings.Trim(sum, "0123456789abcdef") != "" {
		return "", fmt.Errorf("%s does not begin with a SHA-256", path)
	}
	return sum, nil
}

// partial is a file being written, in the directory where it will stay, so that
// the rename at its end is atomic.
type partial struct {
	*os.File
	final string
	gone  bool // its temporary name is not this file's any more
}

func createPartial(final string) (*partial, error) {
	dir := filepath.Dir(final)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, diskError(err)
	}
	f, err := os.CreateTemp(dir, partialPrefix+filepath.Base(final)+"-*")
	if err != nil {
		return nil, diskError(err)
	}
	return &partial{File: f, final: final}, nil
}

// discard removes the partial file; after commit it does nothing. The name goes
// before the lock does.
func (p *partial) discard() {
	if p.gone {
		return
	}
	p.gone = true
	_ = os.Remove(p.Name()) // already renamed after commit
	_ = p.Close()           // already closed after commit
}

// commit makes the file durable under its final name: content first, then the
// name, then the directory, so that a power cut leaves all of it or none. It is
// closed last: closing gives up the lock of a download, and who takes it next
// must find that the name is gone.
func (p *partial) commit() error {
	if err := p.Chmod(0o644); err != nil {
		return diskError(err)
	}
	if err := p.Sync(); err != nil {
		return diskError(err)
	}
	if err := os.Rename(p.Name(), p.final); err != nil {
		return diskError(err)
	}
	p.gone = true
	if err := p.Close(); err != nil {
		return diskError(err)
	}
	return syncDir(filepath.Dir(p.final))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return diskError(err)
	}
	defer func() { _ = d.Close() }()
	if err := d.Sync(); err != nil {
		return diskError(err)
	}
	return nil
}

// writeRecord stores the hash before the file itself is renamed into place: a
// record without its file is harmless, a file without its record is refused.
func writeRecord(path, sum string) error {
	p, err := createPartial(path + recordSuffix)
	if err != nil {
		return err
	}
	defer p.discard()
	if _, err := fmt.Fprintf(p, "%s  %s\n", sum, filepath.Base(path)); err != nil {
		return diskError(err)
	}
	return p.commit()
}

// diskError tells a person what to do about the disk, which is never the factory's fault.
func diskError(err error) error {
	hint := "check that the cache directory can be written, or choose another with assets.cache"
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		hint = "make room in the cache directory, or choose another with assets.cache"
	}
	return localError{fmt.Errorf("%w; %s", err, hint)}
}

// localError marks failures of this host, which another attempt will not cure.
type localError struct{ error }

func (e localError) Unwrap() error { return e.error }
