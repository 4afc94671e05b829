package assets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// DefaultFactory is the public Image Factory of Sidero Labs.
const DefaultFactory = "https://factory.talos.dev"

// ErrNotCached is what OpenCached says of a file that it would have to fetch.
var ErrNotCached = errors.New("not in the cache")

// Options configures a Cache. Dir is needed, the rest has defaults.
type Options struct {
	// Dir is where the files live. It is created when missing.
	Dir string
	// Factory is the base URL of the Image Factory; empty means DefaultFactory.
	Factory string
	// Client fetches from the factory; nil means one with limits on connecting
	// and on waiting for headers. It must not set Timeout: an image of 100 MB
	// on a slow uplink takes as long as it takes.
	Client *http.Client
	// Log receives what is fetched and why a file was refused; nil discards.
	Log *slog.Logger
	// OnProgress is called while a file arrives, at most every 200 ms, and once
	// at its end. total is -1 when the factory does not say. It must not block.
	OnProgress func(ref Ref, done, total int64)

	// OnOpen is told of every file that is asked for: whether the cache had it, or it
	// had to be fetched or was refused. OnFetch is told of every fetch at its end, with
	// all its attempts: bytes are those of the file, 0 when it failed. Neither may block.
	OnOpen  func(hit bool)
	OnFetch func(bytes int64, err error)

	// Quota is how many bytes the cache may take on disk; 0 means as many as the
	// disk has. A file that would not fit is not begun.
	Quota int64

	// Attempts is how often a fetch is tried when the failure may pass; 0 means 3.
	Attempts int
	// RetryDelay is the wait before the second attempt, doubled for each
	// further one; 0 means 2 s.
	RetryDelay time.Duration
	// StallTimeout ends an attempt when no byte arrives for so long; 0 means 60 s.
	StallTimeout time.Duration
}

// Info describes a cached file.
type Info struct {
	// Size is in bytes.
	Size int64
	// SHA256 is in lower-case hex, as recorded when the file was fetched.
	SHA256 string
}

// Cache is a directory of verified boot files. It is safe for concurrent use.
// Files lie at Dir/<schematic>/<version>/<name>, each with a .sha256 beside it
// in the form that `sha256sum -c` reads, and under their content in Dir/sha256.
// Several processes may share the directory.
type Cache struct {
	opts    Options
	log     *slog.Logger
	flights flights

	mu         sync.Mutex
	verified   map[Ref]verified
	schematics map[string][]byte // canonical text by id

	registerMu sync.Mutex
	registered map[string]bool // schematics that this process has registered

	roomMu  sync.Mutex
	growing map[string]int64 // partial files being written, with their final sizes
}

// verified remembers what a file looked like when its hash was last computed,
// so that a file changed behind our back is hashed again.
type verified struct {
	info    Info
	stat    fs.FileInfo
	touched time.Time // when its use was last noted on disk
}

// New opens the cache in o.Dir and removes what interrupted downloads left there.
func New(o Options) (*Cache, error) {
	if o.Dir == "" {
		return nil, errors.New("open the asset cache: no directory given; set assets.cache")
	}
	if o.Factory == "" {
		o.Factory = DefaultFactory
	}
	o.Factory = strings.TrimRight(o.Factory, "/")
	if err := checkFactory(o.Factory); err != nil {
		return nil, fmt.Errorf("open the asset cache: %w", err)
	}
	if o.Attempts <= 0 {
		o.Attempts = 3
	}
	if o.RetryDelay <= 0 {
		o.RetryDelay = 2 * time.Second
	}
	if o.StallTimeout <= 0 {
		o.StallTimeout = time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Client = guarded(o.Client)
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("open the asset cache: %w; choose another directory with assets.cache", err)
	}
	c := &Cache{opts: o, log: o.Log, verified: map[Ref]verified{}, schematics: map[string][]byte{}, registered: map[string]bool{}, growing: map[string]int64{}}
	c.removePartials()
	return c, nil
}

// Open returns the file, fetching it first when the cache does not hold it. The
// caller closes the file. Cancelling ctx ends this caller's wait only; the fetch
// itself ends when nobody waits for it any more.
func (c *Cache) Open(ctx context.Context, ref Ref) (*os.File, Info, error) {
	return c.open(ctx, ref, true)
}

// OpenCached is Open without ever asking the factory: a file that the cache
// does not hold is ErrNotCached.
func (c *Cache) OpenCached(ctx context.Context, ref Ref) (*os.File, Info, error) {
	return c.open(ctx, ref, false)
}

// Ensure makes the cache hold the file, verified.
func (c *Cache) Ensure(ctx context.Context, ref Ref) (Info, error) {
	f, info, err := c.Open(ctx, ref)
	if err != nil {
		return Info{}, err
	}
	_ = f.Close() // opened for reading only
	return info, nil
}

func (c *Cache) open(ctx context.Context, ref Ref, fetch bool) (*os.File, Info, error) {
	if err := ref.Validate(); err != nil {
		return nil, Info{}, fmt.Errorf("open a boot file: %w", err)
	}
	if f, info, ok := c.openVerified(ref); ok {
		c.opened(true)
		return f, info, nil
	}
	_, there := c.Entry(ref)
	c.opened(there)
	key := flightKey{ref: ref, fetch: fetch}
	work := func(ctx context.Context) error { return c.settle(ctx, ref, fetch) }
	// Another process that fetched the same file may put its own, equal copy in place just now.
	for range 3 {
		if err := c.flights.do(ctx, key, work); err != nil {
			if ctx.Err() != nil {
				err = fmt.Errorf("wait for %s: %w", ref.brief(), err)
			}
			return nil, Info{}, err
		}
		if f, info, ok := c.openVerified(ref); ok {
			return f, info, nil
		}
	}
	return nil, Info{}, fmt.Errorf("open %s: the file changed while it was being opened; is another program writing to %s?", ref.brief(), c.opts.Dir)
}

// opened tells whether the cache had a file that was asked for.
func (c *Cache) opened(hit bool) {
	if c.opts.OnOpen != nil {
		c.opts.OnOpen(hit)
	}
}

// openVerified opens a file whose hash this process has checked and which has
// not changed since.
func (c *Cache) openVerified(ref Ref) (*os.File, Info, bool) {
	c.mu.Lock()
	known, ok := c.verified[ref]
	c.mu.Unlock()
	if !ok {
		return nil, Info{}, false
	}
	f, err := os.Open(ref.path(c.opts.Dir))
	if err != nil {
		return nil, Info{}, false
	}
	stat, err := f.Stat()
	if err != nil || !unchanged(known.stat, stat) {
		_ = f.Close()
		return nil, Info{}, false
	}
	if time.Since(known.touched) > useInterval {
		c.noteUse(ref)
	}
	return f, known.info, true
}

// useInterval is how precisely the last use of a file is noted.
const useInterval = time.Hour

// noteUse writes down that the file was used, for pruning: the time of its record.
func (c *Cache) noteUse(ref Ref) {
	now := time.Now()
	c.mu.Lock()
	if known, ok := c.verified[ref]; ok {
		known.touched = now
		c.verified[ref] = known
	}
	c.mu.Unlock()
	if err := os.Chtimes(ref.path(c.opts.Dir)+recordSuffix, now, now); err != nil {
		c.log.Debug("note the use of a boot file", "ref", ref.String(), "err", err)
	}
}

func unchanged(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// settle leaves the file in the cache, verified, or says why it cannot.
func (c *Cache) settle(ctx context.Context, ref Ref, fetch bool) error {
	err := c.verify(ctx, ref)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("verify %s: %w", ref.brief(), ctx.Err())
	case !errors.Is(err, fs.ErrNotExist):
		// Only complete files are ever renamed into place, so this is a disk
		// that lies or a hand that meddled. Either way it must not boot.
		c.log.Warn("cached boot file is damaged, it will not be served", "ref", ref.String(), "err", err)
	}
	if !fetch {
		return fmt.Errorf("open %s: %w", ref.brief(), ErrNotCached)
	}
	size, err := c.fetch(ctx, ref)
	if c.opts.OnFetch != nil {
		c.opts.OnFetch(size, err)
	}
	return err
}

// remember records that the file at ref was seen whole.
func (c *Cache) remember(ref Ref, info Info, stat fs.FileInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.verified[ref] = verified{info: info, stat: stat}
}

// How long what an interrupted download left is kept after the last write to it:
// a part that can be gone on with for a week, the rest for an hour, in which it
// may belong to another process.
const (
	keepResumable = 7 * 24 * time.Hour
	keepPartial   = time.Hour
)

// removePartials clears what interrupted downloads left.
func (c *Cache) removePartials() {
	dir := os.DirFS(c.opts.Dir)
	left, _ := fs.Glob(dir, "*/*/"+partialPrefix+"*") // fails for a bad pattern only
	links, _ := fs.Glob(dir, blobDir+"/*.link")
	for _, name := range append(left, links...) {
		name = filepath.Join(c.opts.Dir, name)
		stat, err := os.Stat(name)
		if err != nil {
			continue
		}
		keep := keepPartial
		if _, err := os.Stat(strings.TrimSuffix(name, originSuffix) + originSuffix); err == nil {
			keep = keepResumable
		}
		if time.Since(stat.ModTime()) < keep {
			continue
		}
		if err := os.Remove(name); err != nil {
			c.log.Warn("remove an interrupted download", "file", name, "err", err)
		}
	}
}
