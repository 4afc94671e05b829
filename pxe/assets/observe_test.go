package assets

import (
	"errors"
	"net/http"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// witness notes what a cache tells.
type witness struct {
	mu    sync.Mutex
	opens map[bool]int // by whether they were hits
	bytes int64
	done  int
	errs  int
}

func (w *witness) observe(o *Options) {
	w.opens = map[bool]int{}
	o.OnOpen = func(hit bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.opens[hit]++
	}
	o.OnFetch = func(bytes int64, err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if err != nil {
			w.errs++
			return
		}
		w.done++
		w.bytes += bytes
	}
}

// A file that was there is a hit, also in the next process; one that had to be
// fetched or was refused is a miss. Every fetch is told once.
func TestHitsMissesAndFetchesAreTold(t *testing.T) {
	t.Parallel()
	content := random(50_000)
	factory := newFactory(t, byPath(map[string][]byte{KernelAMD64: content}))
	dir := t.TempDir()
	kernel, initramfs := Kernel(plain, version, "amd64"), Initramfs(plain, version, "amd64")
	w := &witness{}
	c := newCache(t, dir, factory.URL, w.observe)
	if f, _, err := c.OpenCached(t.Context(), kernel); !errors.Is(err, ErrNotCached) {
		_ = f.Close()
		t.Fatalf("an empty cache gives %v", err)
	}
	read(t, c, kernel)
	read(t, c, kernel)
	if _, err := c.Ensure(t.Context(), initramfs); err == nil {
		t.Fatal("the factory has an initramfs")
	}
	if diff := cmp.Diff(map[bool]int{true: 1, false: 3}, w.opens); diff != "" {
		t.Errorf("hits and misses (-want +got):\n%s", diff)
	}
	if w.done != 1 || w.bytes != int64(len(content)) || w.errs != 1 {
		t.Errorf("%d fetches of %d bytes, %d failed; want 1 of %d, and 1", w.done, w.bytes, w.errs, len(content))
	}
	next := &witness{}
	read(t, newCache(t, dir, "http://127.0.0.1:1", next.observe), kernel)
	if diff := cmp.Diff(map[bool]int{true: 1}, next.opens); diff != "" || next.done+next.errs != 0 {
		t.Errorf("in the next process (-want +got):\n%s%d fetches", diff, next.done+next.errs)
	}
}

func TestTheFreeSpaceOfTheDiskIsTold(t *testing.T) {
	t.Parallel()
	c := newCache(t, t.TempDir(), newFactory(t, http.NotFound).URL)
	if free, err := c.Free(); err != nil || free <= 0 {
		t.Errorf("%d bytes are free, %v", free, err)
	}
	c.opts.Dir += "-is-gone"
	if free, err := c.Free(); err == nil {
		t.Errorf("%d bytes are free on a disk that is gone", free)
	}
}
