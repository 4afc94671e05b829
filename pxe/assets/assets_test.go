package assets

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const (
	plain   = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"
	version = "v1.13.9"
)

var kernel = Ref{Schematic: plain, Version: version, Name: KernelAMD64}

// random is content that no sniffing takes for a page.
func random(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.New(rand.NewSource(int64(size))).Read(b) // never fails
	return b
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// factory is an Image Factory whose answer a test chooses.
type factory struct {
	*httptest.Server
	requests atomic.Int64
}

func newFactory(t *testing.T, answer http.HandlerFunc) *factory {
	t.Helper()
	f := &factory{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.requests.Add(1)
		answer(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

func serve(content []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content) // the client may hang up
	}
}

func newCache(t *testing.T, dir, factory string, change ...func(*Options)) *Cache {
	t.Helper()
	o := Options{Dir: dir, Factory: factory, Attempts: 1, RetryDelay: time.Millisecond}
	for _, f := range change {
		f(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func read(t *testing.T, c *Cache, ref Ref) []byte {
	t.Helper()
	f, info, err := c.Open(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	got, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size != int64(len(got)) || info.SHA256 != digest(got) {
		t.Errorf("info is %+v, the file has %d bytes and SHA-256 %s", info, len(got), digest(got))
	}
	return got
}

// noFile fails when dir holds any file: a failed fetch must leave nothing.
func noFile(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("%s was left behind", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestValidateTakesOnlyReferencesThatAreSafeAsPaths(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		ref  Ref
		want string // part of the error, "" for none
	}{
		{"kernel", kernel, ""},
		{"release candidate", Ref{plain, "v1.14.0-rc.1", InitramfsARM64}, ""},
		{"development build", Ref{plain, "v1.13.0-alpha.0-12-gabcdef", KernelARM64}, ""},
		{"no v", Ref{plain, "1.13.9", KernelAMD64}, "form v1.13.9"},
		{"two numbers", Ref{plain, "v1.13", KernelAMD64}, "form v1.13.9"},
		{"dots after the dash", Ref{plain, "v1.13.9-..", KernelAMD64}, "form v1.13.9"},
		{"slash in version", Ref{plain, "v1.13.9-a/../..", KernelAMD64}, "form v1.13.9"},
		{"newline at the end of the version", Ref{plain, "v1.13.9\n", KernelAMD64}, "form v1.13.9"},
		{"long version", Ref{plain, "v1.13.9-" + strings.Repeat("a", 80), KernelAMD64}, "form v1.13.9"},
		{"upper case schematic", Ref{strings.ToUpper(plain), version, KernelAMD64}, "64 lower-case hex"},
		{"short schematic", Ref{plain[1:], version, KernelAMD64}, "64 lower-case hex"},
		{"dots as schematic", Ref{"..", version, KernelAMD64}, "64 lower-case hex"},
		{"name outside the table", Ref{plain, version, "kernel-riscv64"}, "not a boot file"},
		{"name with a path", Ref{plain, version, "../" + KernelAMD64}, "not a boot file"},
		{"record of a file", Ref{plain, version, KernelAMD64 + recordSuffix}, "not a boot file"},
		{"empty", Ref{}, "64 lower-case hex"},
	} {
		err := tc.ref.Validate()
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: error is %v, want one with %q", tc.name, err, tc.want)
		}
	}
}

func TestOpenRefusesAnInvalidReferenceWithoutAskingTheFactory(t *testing.T) {
	t.Parallel()
	up := newFactory(t, serve([]byte("x")))
	c := newCache(t, t.TempDir(), up.URL)
	if _, _, err := c.Open(t.Context(), Ref{"..", version, KernelAMD64}); err == nil {
		t.Error("no error")
	}
	if n := up.requests.Load(); n != 0 {
		t.Errorf("%d requests reached the factory", n)
	}
}

func TestNewExplainsABadFactoryOrDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		opts Options
		want string
	}{
		{Options{}, "assets.cache"},
		{Options{Dir: t.TempDir(), Factory: "factory.talos.dev"}, "not a plain http or https URL"},
		{Options{Dir: t.TempDir(), Factory: "https://user:secret@factory.example"}, "not a plain http or https URL"},
		{Options{Dir: filepath.Join(file, "below")}, "choose another directory with assets.cache"},
	} {
		_, err := New(tc.opts)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("error is %v, want one with %q", err, tc.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows a password: %v", err)
		}
	}
}

func TestOpenFetchesOnceAndRecordsTheHashForSha256sum(t *testing.T) {
	t.Parallel()
	content := random(3 << 20)
	var path atomic.Value
	up := newFactory(t, func(w http.ResponseWriter, r *http.Request) {
		path.Store(r.URL.Path)
		serve(content)(w, r)
	})
	dir := t.TempDir()
	var last atomic.Int64
	c := newCache(t, dir, up.URL+"/", func(o *Options) {
		o.OnProgress = func(ref Ref, done, total int64) {
			if ref != kernel || total != int64(len(content)) || done < last.Load() {
				t.Errorf("progress %v %d of %d after %d", ref, done, total, last.Load())
			}
			last.Store(done)
		}
	})
	for range 3 {
		if got := read(t, c, kernel); digest(got) != digest(content) {
			t.Fatal("the content differs")
		}
	}
	if n := up.requests.Load(); n != 1 {
		t.Errorf("%d requests reached the factory, want 1", n)
	}
	if want := "/image/" + plain + "/" + version + "/kernel-amd64"; path.Load() != want {
		t.Errorf("asked for %v, want %s", path.Load(), want)
	}
	record, err := os.ReadFile(filepath.Join(dir, plain, version, "kernel-amd64.sha256"))
	if err != nil {
		t.Fatal(err)
	}
	if want := digest(content) + "  kernel-amd64\n"; string(record) != want {
		t.Errorf("the record is %q, want %q", record, want)
	}
	if last.Load() != int64(len(content)) {
		t.Errorf("progress ended at %d, want %d", last.Load(), len(content))
	}
}

func TestOpenFetchesOnceForFiftyCallers(t *testing.T) {
	t.Parallel()
	content := random(1 << 20)
	release := make(chan struct{})
	up := newFactory(t, func(w http.ResponseWriter, r *http.Request) {
		<-release
		serve(content)(w, r)
	})
	c := newCache(t, t.TempDir(), up.URL)
	errs := make(chan error)
	for range 50 {
		go func() {
			f, info, err := c.Open(context.Background(), kernel)
			if err == nil {
				_ = f.Close()
				if info.SHA256 != digest(content) {
					err = fmt.Errorf("hash is %s", info.SHA256)
				}
			}
			errs <- err
		}()
	}
	await(t, func() bool { return c.flights.waiting(kernel) == 50 })
	close(release)
	for range 50 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := up.requests.Load(); n != 1 {
		t.Errorf("%d requests reached the factory, want 1", n)
	}
}

func (s *flights) waiting(ref Ref) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, ok := s.running[flightKey{ref: ref, fetch: true}]; ok {
		return f.waiters
	}
	return 0
}

func await(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited 10 s in vain")
		}
	}
}

func TestACallerThatGivesUpEndsTheFetchOnlyWhenItIsTheLast(t *testing.T) {
	t.Parallel()
	content := random(1000)
	release, gone := make(chan struct{}), make(chan struct{})
	up := newFactory(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
			serve(content)(w, r)
		case <-r.Context().Done():
			close(gone)
		}
	})
	dir := t.TempDir()
	c := newCache(t, dir, up.URL)
	open := func() (context.CancelFunc, chan error) {
		before := c.flights.waiting(kernel)
		ctx, cancel := context.WithCancel(context.Background())
		result := make(chan error, 1)
		go func() {
			_, err := c.Ensure(ctx, kernel)
			result <- err
		}()
		await(t, func() bool { return c.flights.waiting(kernel) == before+1 })
		return cancel, result
	}
	leave1, result1 := open()
	leave2, result2 := open()
	await(t, func() bool { return up.requests.Load() == 1 })

	leave1()
	if err := <-result1; err == nil || !strings.Contains(err.Error(), "wait for kernel-amd64 of Talos v1.13.9") {
		t.Errorf("the first caller's error is %v", err)
	}
	select {
	case <-gone:
		t.Fatal("the fetch ended although a caller was waiting")
	default:
	}
	leave2()
	if err := <-result2; err == nil {
		t.Error("the second caller got no error")
	}
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Fatal("the fetch goes on although nobody waits")
	}

	// The next caller starts afresh and is not told that somebody else cancelled.
	close(release)
	if got := read(t, c, kernel); digest(got) != digest(content) {
		t.Error("the content differs")
	}
	if n := up.requests.Load(); n != 2 {
		t.Errorf("%d requests reached the factory, want 2", n)
	}
}
