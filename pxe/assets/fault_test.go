package assets

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const page = "<!DOCTYPE html><html><body>Please log in</body></html>"

// raw answers with bytes that net/http would not send.
func raw(parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		for _, part := range parts {
			_, _ = conn.Write([]byte(part)) // the client may be gone
		}
	}
}

// TestAFaultyFactoryNeverLeavesAFile: whatever comes in place of the file, the
// cache stays empty and the message says what was asked, what came, what to do.
func TestAFaultyFactoryNeverLeavesAFile(t *testing.T) {
	t.Parallel()
	half := string(random(1000))
	for _, tc := range []struct {
		name     string
		answer   http.HandlerFunc
		requests int64 // of the two attempts allowed
		want     []string
	}{
		{"half a file", raw("HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n", half), 2, []string{"after 1000 of 2000 bytes", "check the uplink"}},
		{"half a chunked file", raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n", half, "\r\n"), 2, []string{"after 1000 of -1 bytes"}},
		{"no length at all", raw("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", half), 1, []string{"no Content-Length"}},
		{"wrong length", raw("HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n", half), 2, []string{"after 1000 of 1001 bytes"}},
		{"empty", raw("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), 1, []string{"the answer is empty"}},
		{"HTML with 200", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write([]byte(page))
		}, 1, []string{"got a page (text/html)", "login portal"}},
		{"HTML that calls itself a file", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/octet-stream")
			_, _ = w.Write([]byte(page))
		}, 1, []string{"got a page (text/html)"}},
		{"HTML with 500", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte(page))
		}, 2, []string{"status 500 Internal Server Error", "try again later"}},
		{"unknown schematic", http.NotFound, 1, []string{"status 404 Not Found", "check talosVersion and schematicID"}},
		{"payment required", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusPaymentRequired) }, 1, []string{"status 402", "open the URL"}},
		{"redirect to a login page", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/login" {
				http.Redirect(w, r, "/login?secret=1", http.StatusFound)
				return
			}
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(page))
		}, 2, []string{"got a page (text/html after a redirect to http://", "/login)"}},
		{"redirect in a circle", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }, 20, []string{"stopped after 10 redirects"}},
		{"gzip that was not asked for", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write([]byte(half))
		}, 1, []string{`encoded as "gzip"`}},
		{"stalls half-way", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "2000")
			_, _ = w.Write([]byte(half))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, 2, []string{"after 1000 of 2000 bytes: no byte came for"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			up := newFactory(t, tc.answer)
			dir := t.TempDir()
			c := newCache(t, dir, up.URL, func(o *Options) {
				o.Attempts = 2
				o.StallTimeout = 200 * time.Millisecond
			})
			_, err := c.Ensure(t.Context(), kernel)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range append(tc.want, "fetch kernel-amd64 of Talos v1.13.9 (schematic 37656798…) from "+up.URL+"/image/"+kernel.String()) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error is %q, want one with %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error shows a query: %v", err)
			}
			if n := up.requests.Load(); n != tc.requests {
				t.Errorf("%d requests reached the factory, want %d", n, tc.requests)
			}
			noFile(t, dir)
			if _, _, err := c.OpenCached(t.Context(), kernel); !errors.Is(err, ErrNotCached) {
				t.Errorf("OpenCached says %v", err)
			}
		})
	}
}

func TestAFactoryThatIsNotThereIsNamedInTheError(t *testing.T) {
	t.Parallel()
	l := listen(t, "127.0.0.1:0")
	base := "http://" + l.Addr().String()
	_ = l.Close()
	c := newCache(t, t.TempDir(), base)
	_, err := c.Ensure(t.Context(), kernel)
	if err == nil || !strings.Contains(err.Error(), "connection refused; check assets.factory, the uplink") {
		t.Errorf("error is %v", err)
	}
}

func TestARedirectToTheObjectStoreIsFollowed(t *testing.T) {
	t.Parallel()
	content := random(5000)
	up := newFactory(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/image/") {
			http.Redirect(w, r, "/bucket/object", http.StatusFound)
			return
		}
		serve(content)(w, r)
	})
	c := newCache(t, t.TempDir(), up.URL)
	if diff := cmp.Diff(content, read(t, c, kernel)); diff != "" {
		t.Error(diff)
	}
}

func TestARedirectFromHTTPSToHTTPIsRefused(t *testing.T) {
	t.Parallel()
	plain := newFactory(t, serve(random(10)))
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, plain.URL, http.StatusFound)
	}))
	defer secure.Close()
	c := newCache(t, t.TempDir(), secure.URL, func(o *Options) { o.Client = secure.Client() })
	if _, err := c.Ensure(t.Context(), kernel); err == nil || !strings.Contains(err.Error(), "redirected from https to http") {
		t.Errorf("error is %v", err)
	}
	if n := plain.requests.Load(); n != 0 {
		t.Errorf("%d requests went to the plain server", n)
	}
}

func TestAFailureThatPassesIsTriedAgain(t *testing.T) {
	t.Parallel()
	content := random(100)
	var n atomic.Int64
	up := newFactory(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) < 3 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		serve(content)(w, r)
	})
	c := newCache(t, t.TempDir(), up.URL, func(o *Options) { o.Attempts = 3 })
	if diff := cmp.Diff(content, read(t, c, kernel)); diff != "" {
		t.Error(diff)
	}
}

func TestASlowFactoryIsWaitedForAsLongAsBytesCome(t *testing.T) {
	t.Parallel()
	up := newFactory(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "30")
		for range 30 {
			_, _ = w.Write([]byte{0xff})
			_ = http.NewResponseController(w).Flush()
			time.Sleep(20 * time.Millisecond) // the slowness under test: 600 ms in all
		}
	})
	c := newCache(t, t.TempDir(), up.URL, func(o *Options) { o.StallTimeout = 500 * time.Millisecond })
	if got := read(t, c, kernel); len(got) != 30 {
		t.Errorf("got %d bytes", len(got))
	}
}

func TestACachedFileOutlivesItsFactory(t *testing.T) {
	t.Parallel()
	content := random(10_000)
	up := newFactory(t, serve(content))
	dir := t.TempDir()
	read(t, newCache(t, dir, up.URL), kernel)
	up.Close()
	again := newCache(t, dir, up.URL) // as after a restart: verified from the record
	if diff := cmp.Diff(content, read(t, again, kernel)); diff != "" {
		t.Error(diff)
	}
	f, _, err := newCache(t, dir, up.URL).OpenCached(t.Context(), kernel)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
}

// TestADamagedFileIsNeverServed covers what a disk or a hand can do to the cache,
// noticed after a restart and, when the file changes, at once.
func TestADamagedFileIsNeverServed(t *testing.T) {
	t.Parallel()
	content := random(10_000)
	for name, damage := range map[string]func(path string) error{
		"one bit flipped": func(path string) error {
			b := append([]byte{}, content...)
			b[5000] ^= 1
			return os.WriteFile(path, b, 0o644)
		},
		"cut":            func(path string) error { return os.Truncate(path, 5000) },
		"no record":      func(path string) error { return os.Remove(path + recordSuffix) },
		"damaged record": func(path string) error { return os.WriteFile(path+recordSuffix, []byte("0000  x\n"), 0o644) },
		"removed":        os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := newFactory(t, serve(content))
			dir := t.TempDir()
			read(t, newCache(t, dir, up.URL), kernel)
			if err := damage(kernel.path(dir)); err != nil {
				t.Fatal(err)
			}
			c := newCache(t, dir, up.URL)
			if _, _, err := c.OpenCached(t.Context(), kernel); !errors.Is(err, ErrNotCached) {
				t.Errorf("OpenCached says %v", err)
			}
			if diff := cmp.Diff(content, read(t, c, kernel)); diff != "" {
				t.Error(diff)
			}
			if n := up.requests.Load(); n != 2 {
				t.Errorf("%d requests reached the factory, want 2", n)
			}
			if err := os.WriteFile(kernel.path(dir), []byte("changed while running"), 0o644); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(content, read(t, c, kernel)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAFullOrReadOnlyDiskIsNotBlamedOnTheFactory(t *testing.T) {
	t.Parallel()
	up := newFactory(t, serve(random(100)))
	dir := t.TempDir()
	// A file where the directory should be: fails for root as well.
	if err := os.WriteFile(filepath.Join(dir, plain), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCache(t, dir, up.URL, func(o *Options) { o.Attempts = 3 })
	_, err := c.Ensure(t.Context(), kernel)
	if err == nil || !strings.Contains(err.Error(), "check that the cache directory can be written") {
		t.Errorf("error is %v", err)
	}
	if n := up.requests.Load(); n > 1 {
		t.Errorf("%d requests: another attempt cannot mend the disk", n)
	}
}

func TestNewRemovesOldInterruptedDownloadsOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sub := filepath.Dir(kernel.path(dir))
	if err := os.MkdirAll(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	old, young := filepath.Join(sub, partialPrefix+"old"), filepath.Join(sub, partialPrefix+"young")
	for _, name := range []string{old, young} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	newCache(t, dir, "http://127.0.0.1:1")
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old one: %v", err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("the young one: %v", err)
	}
}

func ExampleRef_String() {
	fmt.Println(Initramfs("376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba", "v1.13.9", "arm64"))
	// Output: 376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba/v1.13.9/initramfs-arm64.xz
}

func listen(t testing.TB, addr string) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
