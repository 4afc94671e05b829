package dhcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// journal is the lease file: JSON lines, appended before the ACK they stand
// for is sent, so that a killed server knows every lease it confirmed. A line
// that a crash tore is dropped when the file is opened.
type journal struct {
	path string
	lock *os.File
	log  *slog.Logger

	mu    sync.Mutex // sync runs beside append
	file  *os.File
	size  int64 // up to here the file holds whole lines
	lines int
	dirty bool
}

// line is the written form of a record.
type line struct {
	MAC   string     `json:"mac,omitempty"`
	IP    netip.Addr `json:"ip"`
	Until int64      `json:"until"`
	Bad   bool       `json:"bad,omitempty"`
}

// openJournal opens or creates the lease file and reads it. A lock beside the
// file keeps a second server from giving out the same addresses.
func openJournal(path string, log *slog.Logger) (*journal, []record, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, nil, fmt.Errorf("create the folder of the lease file: %w; choose another lease file or correct the folder's owner", err)
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, nil, fmt.Errorf("lock the lease file: %w; choose another lease file or correct the folder's owner", err)
	}
	j := &journal{path: path, lock: lock, log: log}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, nil, fmt.Errorf("lock lease file %s: %w; another server uses it: find it with `fuser %s.lock`, stop it or choose another lease file", path, err, path)
	}
	records, err := j.load()
	if err != nil {
		_ = j.close()
		return nil, nil, err
	}
	return j, records, nil
}

func (j *journal) load() ([]record, error) {
	file, err := os.OpenFile(j.path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the lease file: %w; correct its owner or choose another", err)
	}
	j.file = file
	content, err := os.ReadFile(j.path)
	if err != nil {
		return nil, fmt.Errorf("read the lease file: %w; correct its owner or choose another", err)
	}
	whole := content[:bytes.LastIndexByte(content, '\n')+1]
	if torn := len(content) - len(whole); torn > 0 {
		j.log.Warn("the lease file ends in a torn line, which is dropped", "file", j.path, "bytes", torn)
		if err := file.Truncate(int64(len(whole))); err != nil {
			return nil, fmt.Errorf("cut the torn last line off the lease file: %w; move the file %s away to start without leases", err, j.path)
		}
	}
	j.size = int64(len(whole))
	return j.parse(whole), nil
}

func (j *journal) parse(content []byte) []record {
	var records []record
	for text := range bytes.Lines(content) {
		j.lines++
		r, err := decodeLine(text)
		if err != nil {
			j.log.Warn("a line of the lease file is not readable and is left out", "file", j.path, "line", j.lines, "error", err)
			continue
		}
		records = append(records, r)
	}
	return records
}

func decodeLine(text []byte) (record, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return record{}, fmt.Errorf("decode: %w", err)
	}
	if !l.IP.Is4() {
		return record{}, errors.New("no IPv4 address")
	}
	if l.Bad {
		return record{IP: l.IP, Until: l.Until, Bad: true}, nil
	}
	mac, err := decodeMAC(l.MAC)
	if err != nil {
		return record{}, err
	}
	return record{MAC: mac, IP: l.IP, Until: l.Until}, nil
}

func encodeLines(records []record) []byte {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	for _, r := range records {
		// Encoding these plain values into memory cannot fail.
		_ = out.Encode(line{MAC: net.HardwareAddr(r.MAC).String(), IP: r.IP, Until: r.Until, Bad: r.Bad})
	}
	return b.Bytes()
}

// decodeMAC reads colon-separated bytes of any length that DHCP knows (1-16);
// net.ParseMAC takes some lengths only.
func decodeMAC(text string) (string, error) {
	mac := make([]byte, 0, 16)
	for part := range bytes.SplitSeq([]byte(text), []byte{':'}) {
		var b byte
		if len(part) != 2 {
			return "", fmt.Errorf("hardware address %q is malformed", text)
		}
		if _, err := fmt.Sscanf(string(part), "%02x", &b); err != nil {
			return "", fmt.Errorf("hardware address %q is malformed: %w", text, err)
		}
		mac = append(mac, b)
	}
	if len(mac) > 16 {
		return "", fmt.Errorf("hardware address %q is too long", text)
	}
	return string(mac), nil
}

// append writes the records with one system call. After an error the file ends
// where it ended before.
func (j *journal) append(records []record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	text := encodeLines(records)
	if _, err := j.file.WriteAt(text, j.size); err != nil {
		_ = j.file.Truncate(j.size)
		return fmt.Errorf("append to the lease file: %w; make room on the disk of %s", err, j.path)
	}
	j.size += int64(len(text))
	j.lines += len(records)
	j.dirty = true
	return nil
}

// wantsRewrite reports whether most of the file is out of date.
func (j *journal) wantsRewrite(live int) bool {
	const smallest = 4096
	return j.lines > smallest && j.lines > 4*live
}

// rewrite replaces the file by one that holds just these records.
func (j *journal) rewrite(records []record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	text := encodeLines(records)
	fresh, err := os.CreateTemp(filepath.Dir(j.path), filepath.Base(j.path)+".new-*")
	if err != nil {
		return fmt.Errorf("compact the lease file: %w; check the folder of %s", err, j.path)
	}
	_, err = fresh.Write(text)
	if err == nil {
		err = errors.Join(fresh.Chmod(0o644), fresh.Sync(), os.Rename(fresh.Name(), j.path))
	}
	if err != nil {
		_ = fresh.Close()
		_ = os.Remove(fresh.Name())
		return fmt.Errorf("compact the lease file: %w; make room on the disk of %s", err, j.path)
	}
	_ = j.file.Close()
	j.file, j.size, j.lines, j.dirty = fresh, int64(len(text)), len(records), false
	if err := syncFolder(filepath.Dir(j.path)); err != nil {
		return fmt.Errorf("make the lease file's new name durable: %w; check the disk of %s", err, j.path)
	}
	return nil
}

// syncFolder makes a rename durable: after a power cut the old file, which knows
// nothing of later leases, could be back otherwise.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// sync brings what was appended to the disk, against a power cut.
func (j *journal) sync() error {
	j.mu.Lock()
	file, dirty := j.file, j.dirty
	j.dirty = false
	j.mu.Unlock()
	if !dirty {
		return nil
	}
	if err := file.Sync(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("sync the lease file: %w; check the disk of %s", err, j.path)
	}
	return nil
}

// close syncs and releases the file and its lock.
func (j *journal) close() error {
	var err error
	if j.file != nil {
		err = errors.Join(j.sync(), j.file.Close())
	}
	// A child process that another goroutine is just starting shares the open
	// file for a moment: closing alone would leave the lock to it.
	return errors.Join(err, unix.Flock(int(j.lock.Fd()), unix.LOCK_UN), j.lock.Close())
}
