package assets

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// originSuffix marks the note beside a partial file that says what it is a part of.
const originSuffix = ".origin"

// origin tells whether the rest of a broken download still belongs to its beginning.
type origin struct {
	URL  string `json:"url"`
	ETag string `json:"etag"` // strong, as sent, quotes and all
	Size int64  `json:"size"` // of the whole file, in bytes

	// Boot is the host's boot in which the part was written, and Synced how much
	// of it is on the disk for certain. After a power cut only that much can be
	// trusted: the rest may be zeros, and nobody tells us the right hash.
	Boot   string `json:"boot"`
	Synced int64  `json:"synced"`
}

// download is a partial file that outlives a broken transfer, and this process,
// when the server gave it a strong ETag by which it can be gone on with
// (RFC 9110 13.1.5).
type download struct {
	*partial
	from   origin // zero when it cannot be resumed
	offset int64  // bytes that are there already
	shared bool   // another process writes the same file; this one has a name of its own
}

// openDownload opens the file's partial, or a new one, for this process alone.
func openDownload(final, url string) (*download, error) {
	name := filepath.Join(filepath.Dir(final), partialPrefix+filepath.Base(final))
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return nil, diskError(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, diskError(err)
	}
	if !lockFile(f) {
		_ = f.Close() // another process's; nothing was written
		p, err := createPartial(final)
		if err != nil {
			return nil, err
		}
		return &download{partial: p, shared: true}, nil
	}
	d := &download{partial: &partial{File: f, final: final}}
	if from, size := readOrigin(f); from.URL == url && from.ETag != "" && size > 0 && size < from.Size {
		if err := f.Truncate(size); err != nil {
			return nil, diskError(err)
		}
		d.from, d.offset = from, size
		return d, nil
	}
	return d, d.restart(origin{})
}

// bootID tells one boot of this host from the next; "" where it cannot be told.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// lockFile takes the file for this process. The name must still be this file's:
// the holder before us may have moved it into place meanwhile.
func lockFile(f *os.File) bool {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return false
	}
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(f.Name())
	return err == nil && os.SameFile(opened, named)
}

// readOrigin reads the note beside a partial file, and how much of the file can
// be trusted; without a sound note that is nothing.
func readOrigin(f *os.File) (origin, int64) {
	var from origin
	text, err := os.ReadFile(f.Name() + originSuffix)
	if err != nil || json.Unmarshal(text, &from) != nil {
		return origin{}, 0
	}
	stat, err := f.Stat()
	if err != nil {
		return origin{}, 0
	}
	size := stat.Size()
	if boot := bootID(); boot == "" || boot != from.Boot {
		size = min(size, from.Synced)
	}
	return from, size
}

// restart forgets what is there and notes where the new content comes from.
func (d *download) restart(from origin) error {
	d.offset, d.from = 0, origin{}
	if err := d.Truncate(0); err != nil {
		return diskError(err)
	}
	if _, err := d.Seek(0, io.SeekStart); err != nil {
		return diskError(err)
	}
	if from.ETag == "" || d.shared {
		_ = os.Remove(d.Name() + originSuffix) // not there as a rule
		return nil
	}
	from.Boot, from.Synced = bootID(), 0
	if err := d.note(from); err != nil {
		return diskError(err)
	}
	d.from = from
	return nil
}

func (d *download) note(from origin) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return os.WriteFile(d.Name()+originSuffix, text, 0o600)
}

// leave ends work on the file: kept for the next attempt when that can go on
// with it, removed otherwise. After commit it only removes the note.
func (d *download) leave() {
	stat, err := d.Stat() // an error after commit, which closed it
	if err == nil && d.from.ETag != "" && stat.Size() > 0 && stat.Size() < d.from.Size {
		if d.Sync() == nil {
			d.from.Synced = stat.Size()
			_ = d.note(d.from) // else less of it is used after a power cut
		}
		_ = d.Close()
		return
	}
	d.drop()
}

// drop removes the partial file and its note; after commit only the note is left.
func (d *download) drop() {
	_ = os.Remove(d.Name() + originSuffix) // not there as a rule
	d.discard()
}

// ask adds to a request what makes it go on where the last transfer broke.
func (d *download) ask(header http.Header) {
	header.Del("Range")
	header.Del("If-Range")
	if d.offset > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", d.offset))
		header.Set("If-Range", d.from.ETag)
	}
}

// accept looks at how the server answered and sets the file up for its body.
// false means that the rest cannot be had: ask for the whole file.
func (d *download) accept(resp *http.Response, url string) (bool, error) {
	if d.offset > 0 {
		switch resp.StatusCode {
		case http.StatusPartialContent:
			if !d.continues(resp) {
				return false, d.restart(origin{})
			}
			_, err := d.Seek(0, io.SeekEnd)
			return true, err
		case http.StatusRequestedRangeNotSatisfiable:
			return false, d.restart(origin{})
		case http.StatusOK: // it has no ranges, or the file changed
		default:
			return true, nil // no file at all: what is here may still be of use
		}
	}
	if resp.StatusCode != http.StatusOK {
		return true, nil
	}
	from := origin{URL: url, ETag: strong(resp.Header.Get("ETag")), Size: resp.ContentLength}
	if from.Size <= 0 {
		from = origin{}
	}
	return true, d.restart(from)
}

// continues says whether a 206 is the rest of this very file. Servers and caches
// exist that ignore If-Range, so the ETag must be there again, and the same.
func (d *download) continues(resp *http.Response) bool {
	first, total, err := contentRange(resp.Header.Get("Content-Range"))
	return err == nil && first == d.offset && total == d.from.Size &&
		resp.Header.Get("ETag") == d.from.ETag &&
		(resp.ContentLength < 0 || resp.ContentLength == total-first)
}

// contentRange reads "bytes FIRST-LAST/TOTAL" of a range that goes to the end.
func contentRange(text string) (first, total int64, err error) {
	text, ok := strings.CutPrefix(text, "bytes ")
	span, size, ok2 := strings.Cut(text, "/")
	from, to, ok3 := strings.Cut(span, "-")
	if !ok || !ok2 || !ok3 {
		return 0, 0, fmt.Errorf("Content-Range %s is not of the form bytes 1-2/3", clip(text))
	}
	var last int64
	var errs [3]error
	first, errs[0] = strconv.ParseInt(from, 10, 64)
	last, errs[1] = strconv.ParseInt(to, 10, 64)
	total, errs[2] = strconv.ParseInt(size, 10, 64)
	if err := errors.Join(errs[:]...); err != nil {
		return 0, 0, err
	}
	if first < 0 || last != total-1 || first > last {
		return 0, 0, fmt.Errorf("Content-Range %s does not go to the end", clip(text))
	}
	return first, total, nil
}

// strong is the ETag when it is one that vouches for every byte, else "".
func strong(etag string) string {
	if len(etag) > 2 && len(etag) < 1024 && etag[0] == '"' && etag[len(etag)-1] == '"' {
		return etag
	}
	return ""
}
