package httpboot

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// recorder is a ResponseWriter that notes from what it was asked to read, as the
// net package would see it.
type recorder struct {
	http.ResponseWriter
	header http.Header
	files  int
	bytes  int64
	writes int
}

func (r *recorder) Header() http.Header { return r.header }
func (r *recorder) WriteHeader(int)     {}
func (r *recorder) Write(p []byte) (int, error) {
	r.writes++
	return len(p), nil
}

func (r *recorder) ReadFrom(src io.Reader) (int64, error) {
	limited, ok := src.(*io.LimitedReader)
	if ok {
		if _, ok := limited.R.(*os.File); ok {
			r.files++
		}
	}
	n, err := io.Copy(io.Discard, src)
	r.bytes += n
	return n, err
}

// TestSendfileIsKept: the connection's ReadFrom gets a LimitedReader of the file
// itself, the one form for which net uses sendfile (caddy#4731, gin#3194).
func TestSendfileIsKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	const size = 2*chunk + 12345
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	stat, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	rec := &recorder{header: http.Header{}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/image/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	var got Transfer
	h := New(Options{OnTransfer: func(tr Transfer) { got = tr }})
	h.send(newResponse(rec, time.Minute), req, file{File: f, name: "x", kind: "application/octet-stream", etag: "e", stat: stat})
	if rec.files != 3 || rec.bytes != size || rec.writes != 0 {
		t.Errorf("%d reads from the file with %d of %d bytes, %d writes; want 3 and none", rec.files, rec.bytes, size, rec.writes)
	}
	if got.Bytes != size || got.Err != nil || got.Status != http.StatusOK {
		t.Errorf("transfer is %+v", got)
	}
}

// TestAMachineThatTakesNothingIsCutOff: iPXE before 2025-12 has no timeout of its
// own, so a dead connection must not be kept, nor its slot.
func TestAMachineThatTakesNothingIsCutOff(t *testing.T) {
	t.Parallel()
	cache, ref, content := cacheWith(t, 16<<20)
	transfers := make(chan Transfer, 1)
	addr := start(t, Options{Assets: cache, StallTimeout: 300 * time.Millisecond, OnTransfer: func(tr Transfer) { transfers <- tr }})
	c := dial(t, addr)
	if _, err := fmt.Fprintf(c, "GET /image/%s HTTP/1.1\r\nHost: x\r\n\r\n", ref); err != nil {
		t.Fatal(err)
	}
	tr := <-transfers
	if tr.Err == nil || tr.Err.Error() != "the machine took next to nothing for 300ms" || tr.Bytes >= int64(len(content)) {
		t.Errorf("transfer is %+v", tr)
	}
	if n, err := io.Copy(io.Discard, c.r); err == nil && n >= int64(len(content)) {
		t.Errorf("the connection went on for %d bytes", n)
	}
}

// TestASlowMachineThatMovesIsServed: it takes longer than the stall timeout for
// one chunk, but never stands still.
func TestASlowMachineThatMovesIsServed(t *testing.T) {
	t.Parallel()
	cache, ref, content := cacheWith(t, 6<<20)
	transfers := make(chan Transfer, 1)
	addr := start(t, Options{Assets: cache, StallTimeout: 400 * time.Millisecond, OnTransfer: func(tr Transfer) { transfers <- tr }})
	c := dial(t, addr)
	raw, err := c.Conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 64<<10) // else the kernel takes it all for us
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(c, "GET /image/%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", ref); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	var taken int64
	for buf := make([]byte, 256<<10); ; time.Sleep(50 * time.Millisecond) { // the slowness under test
		n, err := io.ReadFull(c.r, buf)
		taken += int64(n)
		if err != nil {
			break
		}
	}
	if taken < int64(len(content)) {
		t.Errorf("the machine got %d bytes in %v", taken, time.Since(begin))
	}
	if tr := <-transfers; tr.Err != nil || tr.Bytes != int64(len(content)) {
		t.Errorf("transfer is %+v", tr)
	}
}

func TestAMachineThatHangsUpIsReported(t *testing.T) {
	t.Parallel()
	cache, ref, _ := cacheWith(t, 16<<20)
	transfers := make(chan Transfer, 1)
	c := dial(t, start(t, Options{Assets: cache, OnTransfer: func(tr Transfer) { transfers <- tr }}))
	if _, err := fmt.Fprintf(c, "GET /image/%s HTTP/1.1\r\nHost: x\r\n\r\n", ref); err != nil {
		t.Fatal(err)
	}
	if _, err := c.r.Peek(1); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if tr := <-transfers; tr.Err == nil || strings.Contains(tr.Err.Error(), "next to nothing") {
		t.Errorf("transfer is %+v", tr)
	}
}

// plainWriter hides ReadFrom, as a careless wrapper does: the cost of losing sendfile.
type plainWriter struct{ http.ResponseWriter }

// BenchmarkImage downloads 100 MB over loopback. cpu-ms/op is the process's CPU
// time, the client's share kept small; compare it between the two.
func BenchmarkImage(b *testing.B) {
	const size = 100 << 20
	cache, ref, _ := cacheWith(b, size)
	h := New(Options{Assets: cache})
	for name, handler := range map[string]http.Handler{
		"sendfile": h,
		"copy":     http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(plainWriter{w}, r) }),
	} {
		b.Run(name, func(b *testing.B) {
			addr := serveHandler(b, handler)
			c := dial(b, addr)
			if err := c.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(size)
			before := cpu()
			buf := make([]byte, 1<<20)
			for b.Loop() {
				download(b, c, ref.String(), size, buf)
			}
			b.ReportMetric(float64((cpu()-before).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}

// BenchmarkScript is the path of a machine that asks what to do.
func BenchmarkScript(b *testing.B) {
	c := dial(b, start(b, Options{Director: director{"A1": installed(node01)}}))
	if err := c.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		c.do("GET /boot.ipxe?serial=A1&board-serial=B&uuid=11223344-5566-7788-99aa-bbccddeeff00&mac=52-54-00-12-34-56&arch=x86_64&platform=efi")
	}
}

func download(b *testing.B, c *conn, ref string, size int64, buf []byte) {
	b.Helper()
	if _, err := fmt.Fprintf(c, "GET /image/%s HTTP/1.1\r\nHost: x\r\n\r\n", ref); err != nil {
		b.Fatal(err)
	}
	for {
		line, err := c.r.ReadString('\n')
		if err != nil {
			b.Fatal(err)
		}
		if line == "\r\n" {
			break
		}
	}
	size -= int64(c.r.Buffered())
	c.r.Reset(c)
	discard(b, c, size, buf)
}

// discard takes size bytes from the socket without copying them (MSG_TRUNC), so
// that the measured CPU is the server's and the network stack's.
func discard(b *testing.B, c *conn, size int64, buf []byte) {
	b.Helper()
	raw, err := c.Conn.(syscall.Conn).SyscallConn()
	if err != nil {
		b.Fatal(err)
	}
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		for size > 0 {
			n, _, err := syscall.Recvfrom(int(fd), buf[:min(size, int64(len(buf)))], syscall.MSG_TRUNC)
			switch {
			case err == syscall.EAGAIN:
				return false
			case err == syscall.EINTR:
				continue
			case err != nil || n == 0:
				failed = fmt.Errorf("%d bytes before the end: %w", size, err)
				return true
			}
			size -= int64(n)
		}
		return true
	})
	if err != nil || failed != nil {
		b.Fatal(err, failed)
	}
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
