package assets

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const tag = `"v1"`

// cut answers with the first part of the file and hangs up.
func cut(content []byte, at int, etag string) http.HandlerFunc {
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\nETag: %s\r\n\r\n", len(content), etag)
	return raw(head, string(content[:at]))
}

// partly answers a range as an honest server does; change alters the header.
func partly(content []byte, change func(http.Header)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var from int
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err != nil {
			http.Error(w, "not asked for a range", http.StatusTeapot)
			return
		}
		w.Header().Set("ETag", tag)
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
		w.Header().Set("Content-Length", fmt.Sprint(len(content)-from))
		change(w.Header())
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(content[from:]) // the client may hang up
	}
}

func asIs(http.Header) {}

// TestABrokenDownloadGoesOn: what the second answer is decides whether the first
// part is used. In every case the file in the cache is the right one.
func TestABrokenDownloadGoesOn(t *testing.T) {
	t.Parallel()
	content := random(10_000)
	changed := random(9_999) // the file after it was changed at the factory
	for _, tc := range []struct {
		name   string
		first  http.HandlerFunc
		second http.HandlerFunc
		want   []byte
		ranges []string // Range headers of all requests
	}{
		{"by range", cut(content, 4000, tag), partly(content, asIs), content, []string{"", "bytes=4000-"}},
		{"the server has no ranges", cut(content, 4000, tag), serve(content), content, []string{"", "bytes=4000-"}},
		{"the file changed", cut(content, 4000, tag), serve(changed), changed, []string{"", "bytes=4000-"}},
		{"changed, and If-Range is ignored", cut(content, 4000, tag), partly(changed, func(h http.Header) { h.Set("ETag", `"v2"`) }), changed, []string{"", "bytes=4000-", ""}},
		{"no ETag with the rest", cut(content, 4000, tag), partly(content, func(h http.Header) { h.Del("ETag") }), content, []string{"", "bytes=4000-", ""}},
		{"another range than asked for", cut(content, 4000, tag), partly(content, func(h http.Header) { h.Set("Content-Range", "bytes 0-5999/10000") }), content, []string{"", "bytes=4000-", ""}},
		{"another size", cut(content, 4000, tag), partly(content, func(h http.Header) { h.Set("Content-Range", "bytes 4000-10000/10001") }), content, []string{"", "bytes=4000-", ""}},
		{"a range that is none", cut(content, 4000, tag), partly(content, func(h http.Header) { h.Set("Content-Range", "4000") }), content, []string{"", "bytes=4000-", ""}},
		{"not satisfiable", cut(content, 4000, tag), func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") != "" {
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
				return
			}
			serve(content)(w, r)
		}, content, []string{"", "bytes=4000-", ""}},
		{"no ETag at first", raw("HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n", string(content[:4000])), serve(content), content, []string{"", ""}},
		{"a weak ETag at first", cut(content, 4000, `W/"v1"`), serve(content), content, []string{"", ""}},
		{"nothing came at first", cut(content, 0, tag), serve(content), content, []string{"", ""}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			ranges := make(chan string, 10)
			up := newFactory(t, func(w http.ResponseWriter, r *http.Request) {
				ranges <- r.Header.Get("Range")
				if want := r.Header.Get("Range") != ""; want != (r.Header.Get("If-Range") == tag) {
					t.Errorf("If-Range is %q beside Range %q", r.Header.Get("If-Range"), r.Header.Get("Range"))
				}
				switch n := requests.Add(1); {
				case n == 1:
					tc.first(w, r)
				case n > 2 && r.Header.Get("Range") == "":
					serve(tc.want)(w, r) // the fall-back to the whole file
				default:
					tc.second(w, r)
				}
			})
			dir := t.TempDir()
			c := newCache(t, dir, up.URL, func(o *Options) { o.Attempts = 2 })
			if diff := cmp.Diff(tc.want, read(t, c, kernel)); diff != "" {
				t.Error("the content is wrong")
			}
			close(ranges)
			var got []string
			for r := range ranges {
				got = append(got, r)
			}
			if diff := cmp.Diff(tc.ranges, got); diff != "" {
				t.Errorf("ranges asked for (-want +got):\n%s", diff)
			}
			noPartial(t, dir)
		})
	}
}

// noPartial fails when an unfinished file or its note is left.
func noPartial(t *testing.T, dir string) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(dir, "*", "*", partialPrefix+"*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestABrokenDownloadGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	content := random(10_000)
	up := newFactory(t, cut(content, 7000, tag))
	dir := t.TempDir()
	c := newCache(t, dir, up.URL)
	if _, err := c.Ensure(t.Context(), kernel); err == nil || !strings.Contains(err.Error(), "after 7000 of 10000 bytes") {
		t.Fatalf("error is %v", err)
	}
	if _, ok := c.Entry(kernel); ok {
		t.Error("a part is listed as a file")
	}
	up.Config.Handler = partly(content, asIs)
	var first atomic.Int64
	again := newCache(t, dir, up.URL, func(o *Options) {
		o.OnProgress = func(_ Ref, done, _ int64) { first.CompareAndSwap(0, done) }
	})
	if !bytes.Equal(content, read(t, again, kernel)) {
		t.Error("the content is wrong")
	}
	if first.Load() < 7000 {
		t.Errorf("progress began at %d, the part had 7000 bytes", first.Load())
	}
	noPartial(t, dir)
}

// TestAfterAPowerCutOnlyWhatIsOnTheDiskIsUsed: a file system may give back zeros
// for what was written last, and there is no hash to find out by.
func TestAfterAPowerCutOnlyWhatIsOnTheDiskIsUsed(t *testing.T) {
	t.Parallel()
	content := random(10_000)
	for name, tc := range map[string]struct {
		boot   string
		synced int64
		want   string // the range asked for
	}{
		"the same boot": {bootID(), 0, "bytes=7000-"},
		"another boot":  {"another", 5000, "bytes=5000-"},
		"not synced":    {"another", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newFactory(t, cut(content, 7000, tag))
			dir := t.TempDir()
			if _, err := newCache(t, dir, up.URL).Ensure(t.Context(), kernel); err == nil {
				t.Fatal("no error")
			}
			part := filepath.Join(dir, plain, version, partialPrefix+kernel.Name)
			from, size := readOriginOf(t, part)
			if size != 7000 || from.Synced != 7000 {
				t.Errorf("the note says %+v of %d bytes", from, size)
			}
			from.Boot, from.Synced = tc.boot, tc.synced
			text, err := json.Marshal(from)
			if err != nil {
				t.Fatal(err)
			}
			put(t, part+originSuffix, text)
			zeros := append(bytes.Clone(content[:5000]), make([]byte, 2000)...)
			if tc.boot == "another" {
				put(t, part, zeros)
			}
			asked := make(chan string, 1)
			up.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked <- r.Header.Get("Range")
				if r.Header.Get("Range") == "" {
					serve(content)(w, r)
					return
				}
				partly(content, asIs)(w, r)
			})
			if !bytes.Equal(content, read(t, newCache(t, dir, up.URL), kernel)) {
				t.Error("the content is wrong")
			}
			if got := <-asked; got != tc.want {
				t.Errorf("asked for range %q, want %q", got, tc.want)
			}
		})
	}
}

func readOriginOf(t *testing.T, part string) (origin, int64) {
	t.Helper()
	f, err := os.Open(part)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	return readOrigin(f)
}

// TestAPartIsNotUsedForAnotherURL: another factory's ETag says nothing of ours.
func TestAPartIsNotUsedForAnotherURL(t *testing.T) {
	t.Parallel()
	content := random(10_000)
	broken := newFactory(t, cut(random(9_000), 4000, tag))
	dir := t.TempDir()
	if _, err := newCache(t, dir, broken.URL).Ensure(t.Context(), kernel); err == nil {
		t.Fatal("no error")
	}
	good := newFactory(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") != "" {
			t.Error("it was asked for a range")
		}
		serve(content)(w, r)
	})
	if !bytes.Equal(content, read(t, newCache(t, dir, good.URL), kernel)) {
		t.Error("the content is wrong")
	}
}

// TestTwoProcessesFetchOneFile: the second one has a temporary file of its own.
func TestTwoProcessesFetchOneFile(t *testing.T) {
	t.Parallel()
	content := random(200_000)
	release := make(chan struct{})
	up := newFactory(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", tag)
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content[:100_000])
		_ = http.NewResponseController(w).Flush()
		<-release
		_, _ = w.Write(content[100_000:])
	})
	dir := t.TempDir()
	errs := make(chan error)
	for range 2 {
		c := newCache(t, dir, up.URL)
		go func() {
			_, err := c.Ensure(t.Context(), kernel)
			errs <- err
		}()
	}
	await(t, func() bool { return up.requests.Load() == 2 })
	close(release)
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if !bytes.Equal(content, read(t, newCache(t, dir, up.URL), kernel)) {
		t.Error("the content is wrong")
	}
	noPartial(t, dir)
}

func TestAnUnfinishedDownloadIsKeptForAWeek(t *testing.T) {
	t.Parallel()
	content := random(10_000)
	up := newFactory(t, cut(content, 7000, tag))
	dir := t.TempDir()
	if _, err := newCache(t, dir, up.URL).Ensure(t.Context(), kernel); err == nil {
		t.Fatal("no error")
	}
	part := filepath.Join(dir, plain, version, partialPrefix+kernel.Name)
	for _, tc := range []struct {
		age  time.Duration
		left bool
	}{{2 * 24 * time.Hour, true}, {8 * 24 * time.Hour, false}} {
		past := time.Now().Add(-tc.age)
		for _, name := range []string{part, part + originSuffix} {
			if err := os.Chtimes(name, past, past); err != nil {
				t.Fatal(err)
			}
		}
		newCache(t, dir, up.URL)
		if _, err := os.Stat(part); (err == nil) != tc.left {
			t.Errorf("after %v: %v", tc.age, err)
		}
	}
}

func FuzzContentRange(f *testing.F) {
	for _, seed := range []string{"bytes 4000-9999/10000", "bytes */10000", "bytes 0-0/1", "bytes 1-2", "bytes -1-2/3", "bytes 9223372036854775807-9223372036854775806/9223372036854775807", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		first, total, err := contentRange(text)
		if err == nil && (first < 0 || first >= total) {
			t.Errorf("%q: first %d, total %d", text, first, total)
		}
	})
}
