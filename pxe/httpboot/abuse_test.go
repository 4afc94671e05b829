package httpboot

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/talos-provision/provision/pxe/assets"
)

// dialFrom connects from another address of loopback, as another machine does,
// and with a small window, so that the kernel takes little on its behalf.
func dialFrom(t testing.TB, source, addr string) net.Conn {
	t.Helper()
	c, err := tryFrom(t, source, addr)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// tryFrom may be refused: a connection too many is reset, sometimes while it is made.
func tryFrom(t testing.TB, source, addr string) (net.Conn, error) {
	d := net.Dialer{
		LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)},
		Control: func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) {
				_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 16<<10) // only a hint
			})
		},
	}
	c, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, c.SetDeadline(time.Now().Add(time.Minute))
}

func begin(t testing.TB, c net.Conn, ref assets.Ref) {
	t.Helper()
	if _, err := fmt.Fprintf(c, "GET /image/%s HTTP/1.1\r\nHost: x\r\n\r\n", ref); err != nil {
		t.Fatal(err)
	}
}

// honest downloads the file as iPXE does: after a 503 it waits and asks again.
// wait stands in for the seconds of Retry-After.
func honest(ctx context.Context, addr string, ref assets.Ref, wait time.Duration) (size int64, refused int, err error) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/image/"+ref.String(), http.NoBody)
		if err != nil {
			return 0, refused, err
		}
		resp, err := client.Do(req)
		if err != nil {
			return 0, refused, err
		}
		n, err := io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable {
			return n, refused, err
		}
		refused++
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return 0, refused, ctx.Err()
		}
	}
}

// TestOneAbuserDoesNotTakeAllTransfers: half of them stay for others.
func TestOneAbuserDoesNotTakeAllTransfers(t *testing.T) {
	t.Parallel()
	cache, ref, content := cacheWith(t, 16<<20)
	addr := start(t, Options{Assets: cache, MaxTransfers: 16})
	for range 100 {
		begin(t, dialFrom(t, "127.3.0.1", addr), ref)
	}
	for range 3 {
		size, refused, err := honest(t.Context(), addr, ref, time.Millisecond)
		if err != nil || size != int64(len(content)) || refused > 0 {
			t.Errorf("an honest machine got %d bytes, was refused %d times, error %v", size, refused, err)
		}
	}
}

// TestSlowReadersLoseTheirPlace: whoever takes all transfers and then nothing
// has them for one stall timeout.
func TestSlowReadersLoseTheirPlace(t *testing.T) {
	t.Parallel()
	cache, ref, content := cacheWith(t, 16<<20)
	addr := start(t, Options{Assets: cache, MaxTransfers: 8, StallTimeout: time.Second})
	for i := range 40 {
		begin(t, dialFrom(t, fmt.Sprintf("127.3.1.%d", i+1), addr), ref)
	}
	size, refused, err := honest(t.Context(), addr, ref, 20*time.Millisecond)
	if err != nil || size != int64(len(content)) {
		t.Errorf("an honest machine got %d bytes, was refused %d times, error %v", size, refused, err)
	}
}

// TestAThousandHalfOpenTransfersCostLittle measures what each of them holds.
func TestAThousandHalfOpenTransfersCostLittle(t *testing.T) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil || files.Cur < 4096 {
		t.Skipf("needs 4096 open files, the limit is %d (%v)", files.Cur, err)
	}
	const transfers = 1000
	cache, ref, content := cacheWith(t, 16<<20)
	h := New(Options{Assets: cache})
	addr := serveHandler(t, h)
	before := memory()
	for i := range transfers {
		begin(t, dialFrom(t, fmt.Sprintf("127.3.%d.%d", 2+i/250, 1+i%250), addr), ref)
	}
	await(t, func() bool { h.slots.mu.Lock(); defer h.slots.mu.Unlock(); return h.slots.total == transfers })
	grown := memory() - before
	t.Logf("%d half-open transfers hold %d kB of memory, %d kB each", transfers, grown>>10, grown/transfers>>10)
	if grown > 200<<20 { // the race detector multiplies it
		t.Errorf("they hold %d MB", grown>>20)
	}
	begun := time.Now()
	size, _, err := honest(t.Context(), addr, ref, time.Millisecond)
	if err != nil || size != int64(len(content)) {
		t.Errorf("an honest machine got %d bytes beside them, error %v", size, err)
	}
	t.Logf("beside them an honest machine has its 16 MB after %v", time.Since(begun).Round(time.Millisecond))
}

func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// TestConnectionsAreBounded: one address cannot take all of them, and those of
// others go on.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	l := Limit(listen(t))
	bounded, ok := l.(*limited)
	if !ok {
		t.Fatalf("a %T", l)
	}
	bounded.most, bounded.perSource = 12, 5
	srv := NewServer(New(Options{}), nil)
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }() // ends with ErrServerClosed
	t.Cleanup(func() { _ = srv.Close(); <-done })
	addr := l.Addr().String()
	alive := func(c net.Conn) bool {
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return false
		}
		_, err := io.ReadAtLeast(c, make([]byte, 512), 15)
		return err == nil
	}
	count := func(source string, n int) (served []net.Conn) {
		for range n {
			if c, err := tryFrom(t, source, addr); err == nil && alive(c) {
				served = append(served, c)
			}
		}
		return served
	}
	first := count("127.3.10.1", 10)
	second := count("127.3.10.2", 10)
	third := count("127.3.10.3", 10)
	if len(first) != 5 || len(second) != 5 || len(third) != 2 {
		t.Errorf("%d, %d and %d connections are served, want 5, 5 and 2", len(first), len(second), len(third))
	}
	for _, c := range first {
		_ = c.Close()
	}
	await(t, func() bool { return len(count("127.3.10.4", 1)) == 1 })
	if len(first) > 0 && !alive(second[0]) {
		t.Error("an older connection was cut")
	}
}

// TestBoundedConnectionsKeepSendfile: net/http hands files to the connection's
// own ReadFrom.
func TestBoundedConnectionsKeepSendfile(t *testing.T) {
	t.Parallel()
	l := Limit(listen(t))
	dialed := dial(t, l.Addr().String())
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, ok := c.(io.ReaderFrom); !ok {
		t.Errorf("a %T has no ReadFrom", c)
	}
	_ = dialed.Close()
	_ = l.Close()
}

// TestHalfARequestIsNotWaitedForLong: a client that sends its header a byte at a
// time is cut off.
func TestHalfARequestIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	l := listen(t)
	srv := NewServer(New(Options{}), nil)
	if srv.ReadHeaderTimeout != 10*time.Second || srv.MaxHeaderBytes > 64<<10 || srv.WriteTimeout != 0 {
		t.Errorf("the server's limits are %v, %d bytes, %v", srv.ReadHeaderTimeout, srv.MaxHeaderBytes, srv.WriteTimeout)
	}
	srv.ReadHeaderTimeout = 200 * time.Millisecond
	go func() { _ = srv.Serve(l) }() // ends with ErrServerClosed
	t.Cleanup(func() { _ = srv.Close() })
	c := dial(t, l.Addr().String())
	if _, err := io.WriteString(c, "GET /boot.ipxe HTTP/1.1\r\nHo"); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(c.r); err == nil && strings.Contains(string(rest), "200 OK") {
		t.Errorf("answered with %q", rest)
	}
}

// TestProgressIsToldAtMostOnceASecond while a slow machine downloads.
func TestProgressIsToldAtMostOnceASecond(t *testing.T) {
	t.Parallel()
	cache, ref, content := cacheWith(t, 24<<20)
	type report struct {
		Progress
		at time.Time
	}
	reports := make(chan report, 100)
	ended := make(chan Transfer, 1)
	addr := start(t, Options{
		Assets:     cache,
		OnProgress: func(p Progress) { reports <- report{p, time.Now()} },
		OnTransfer: func(tr Transfer) { ended <- tr },
	})
	c := dialFrom(t, "127.3.11.1", addr)
	begin(t, c, ref)
	for taken, buf := 0, make([]byte, 1<<20); taken < len(content); time.Sleep(100 * time.Millisecond) { // the slowness under test
		n, err := io.ReadFull(c, buf[:min(len(buf), len(content)-taken)])
		if err != nil {
			t.Fatal(err)
		}
		taken += n
	}
	if _, err := io.CopyN(io.Discard, c, 1); err != nil { // the header made the stream a little longer
		t.Fatal(err)
	}
	<-ended
	close(reports)
	var first, last report
	n := 0
	for r := range reports {
		if r.Name != ref.String() || r.Source != netip.MustParseAddr("127.3.11.1") || r.Size != int64(len(content)) || r.Bytes <= last.Bytes || r.Bytes > r.Size {
			t.Errorf("report %+v after %+v", r, last)
		}
		if n == 0 {
			first = r
		}
		last = r
		n++
	}
	if n == 0 {
		t.Error("no report in more than two seconds")
	}
	if most := 2 + int(last.at.Sub(first.at)/progressInterval); n > most {
		t.Errorf("%d reports within %v", n, last.at.Sub(first.at))
	}
}

// FuzzPath: no path gets a redirect, a body without a length, or a file that is
// not in a table.
func FuzzPath(f *testing.F) {
	dir := f.TempDir()
	secret := filepath.Join(dir, "secret.efi")
	ipxe := filepath.Join(dir, "ipxe")
	if err := os.MkdirAll(ipxe, 0o700); err != nil {
		f.Fatal(err)
	}
	for path, content := range map[string]string{secret: "SECRET", filepath.Join(ipxe, "snponly.efi"): "MZ", filepath.Join(ipxe, "other.efi"): "SECRET"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			f.Fatal(err)
		}
	}
	cache, err := assets.New(assets.Options{Dir: filepath.Join(dir, "cache"), Factory: "http://127.0.0.1:1"})
	if err != nil {
		f.Fatal(err)
	}
	h := New(Options{IPXEDir: ipxe, Assets: cache})
	for _, seed := range []string{
		"/ipxe/snponly.efi", "/ipxe//x/../snponly.efi", "/ipxe/../secret.efi", `/ipxe\..\secret.efi`, "/ipxe/other.efi", "//", "", "/image/../../secret.efi",
		"/image/" + schematic + "/v1.13.9/kernel-amd64", "/uki/52-54-00-00-00-01/amd64.efi", "/uki/../uki/x/amd64.efi", "/a/autoexec.ipxe", "/healthz/", "/boot.ipxe/..",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.URL.Path = path
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK && w.Code != http.StatusNotFound {
			t.Errorf("%q: status %d", path, w.Code)
		}
		if length := w.Header().Get("Content-Length"); length != fmt.Sprint(w.Body.Len()) || w.Header().Get("Location") != "" {
			t.Errorf("%q: length %q of %d, header %v", path, length, w.Body.Len(), w.Header())
		}
		if strings.Contains(w.Body.String(), "SECRET") {
			t.Errorf("%q: a file that is in no table", path)
		}
	})
}
