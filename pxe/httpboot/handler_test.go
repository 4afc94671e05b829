package httpboot

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/pxe/assets"
)

// start serves o on a loopback port and returns its address.
func start(t testing.TB, o Options) string {
	t.Helper()
	return serveHandler(t, New(o))
}

func serveHandler(t testing.TB, h http.Handler) string {
	t.Helper()
	l := listen(t)
	srv := NewServer(h, nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l) // ends with ErrServerClosed
	}()
	t.Cleanup(func() {
		_ = srv.Close()
		<-done
	})
	return l.Addr().String()
}

// conn is a client that sends requests byte for byte, as firmware does.
type conn struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

func dial(t testing.TB, addr string) *conn {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &conn{Conn: c, t: t, r: bufio.NewReader(c)}
}

type reply struct {
	status string
	header textproto.MIMEHeader
	body   string
}

// do sends "METHOD target" with extra header lines. It checks what must hold of
// every answer: a length, no empty header, and a connection that stays open.
func (c *conn) do(request string, headers ...string) reply {
	c.t.Helper()
	// The Host has no port, whatever the URL had: so does EDK2.
	text := request + " HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: UefiHttpBoot/1.0\r\n"
	for _, h := range headers {
		text += h + "\r\n"
	}
	if _, err := io.WriteString(c, text+"\r\n"); err != nil {
		c.t.Fatal(err)
	}
	tp := textproto.NewReader(c.r)
	status, err := tp.ReadLine()
	if err != nil {
		c.t.Fatalf("%s: %v", request, err)
	}
	header, err := tp.ReadMIMEHeader()
	if err != nil {
		c.t.Fatal(err)
	}
	for name, values := range header {
		for _, v := range values {
			if v == "" {
				c.t.Errorf("%s: header %s is empty", request, name)
			}
		}
	}
	if v := header.Get("Connection"); v != "" && !strings.Contains(status, " 400 ") {
		c.t.Errorf("%s: Connection: %s", request, v)
	}
	got := reply{status: strings.TrimPrefix(status, "HTTP/1.1 "), header: header}
	var length int
	if _, err := fmt.Sscan(header.Get("Content-Length"), &length); err != nil && !strings.HasPrefix(got.status, "304") {
		c.t.Errorf("%s: no Content-Length: %v", request, header)
	}
	if !strings.HasPrefix(request, "HEAD ") {
		body := make([]byte, length)
		if _, err := io.ReadFull(c.r, body); err != nil {
			c.t.Fatalf("%s: %v", request, err)
		}
		got.body = string(body)
	}
	return got
}

// director answers by serial.
type director map[string]Answer

func (d director) Direct(_ context.Context, r Request) Answer {
	if a, ok := d[r.Facts.Serial]; ok {
		return a
	}
	return Answer{Reason: "unknown machine"}
}

func ipxeDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"snponly.efi": "MZ snponly", "ipxe-amd64.efi": "MZ native", "ipxe-arm64.efi": "MZ arm", "undionly.kpxe": "bios"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// cacheWith is a cache that holds a kernel and has no factory to ask.
func cacheWith(t testing.TB, size int) (*assets.Cache, assets.Ref, []byte) {
	t.Helper()
	ref := assets.Kernel(schematic, "v1.13.9", "amd64")
	cache, content := cacheOf(t, size, ref)
	return cache, ref, content
}

// cacheOf is a cache that holds one file.
func cacheOf(t testing.TB, size int, ref assets.Ref) (*assets.Cache, []byte) {
	t.Helper()
	content := make([]byte, size)
	_, _ = rand.New(rand.NewSource(1)).Read(content) // never fails
	l := listen(t)
	srv := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	})}
	go func() { _ = srv.Serve(l) }() // ends with ErrServerClosed
	cache, err := assets.New(assets.Options{Dir: t.TempDir(), Factory: "http://" + l.Addr().String(), Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cache.Ensure(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	_ = srv.Close()
	return cache, content
}

func TestP10AutoexecInEveryDirectory(t *testing.T) {
	t.Parallel()
	addr := start(t, Options{IPXEDir: ipxeDir(t)})
	c := dial(t, addr)
	want := Autoexec("http://" + addr)
	for _, path := range []string{"/autoexec.ipxe", "/x/y/autoexec.ipxe", "/ipxe/autoexec.ipxe", "//autoexec.ipxe", "/image/autoexec.ipxe"} {
		got := c.do("GET " + path)
		if got.status != "200 OK" || got.body != want {
			t.Errorf("%s: %s\n%s", path, got.status, got.body)
		}
	}
	if got := c.do("GET /ipxe/nothing.efi"); got.status != "404 Not Found" {
		t.Errorf("an unknown file: %s", got.status)
	}
}

// TestP11LocalBootForEveryMachineThatIsNotArmed is I3: unknown, unreadable or
// unarmed, the answer is 200 with a script that ends in the local disk.
func TestP11LocalBootForEveryMachineThatIsNotArmed(t *testing.T) {
	t.Parallel()
	armed := director{"A1": installed(node01), "A2": {Kind: Install, Node: "node-02", Schematic: "bad"}}
	for name, o := range map[string]Options{"no director": {}, "a director": {Director: armed}} {
		c := dial(t, start(t, o))
		for query, last := range map[string]string{
			"serial=B7&platform=efi":             "exit 1",
			"serial=B7&platform=pcbios":          "sanboot --no-describe --drive 0x80 || exit",
			"serial=A2&platform=efi&arch=x86_64": "exit 1",
			"serial=%zz&mac=%&platform=efi":      "exit 1",
			"x":                                  "exit 1",
			"platform=efi&serial=" + strings.Repeat("A", 6000): "exit 1",
		} {
			got := c.do("GET /boot.ipxe?" + query)
			lines := strings.Split(strings.TrimSuffix(got.body, "\n"), "\n")
			if got.status != "200 OK" || lines[0] != "#!ipxe" || lines[len(lines)-1] != last || strings.Contains(got.body, "/image/") {
				t.Errorf("%s, %.40s: %s\n%s", name, query, got.status, got.body)
			}
		}
	}
}

func TestP12AnArmedNodeGetsItsOwnScriptAndOnlyIt(t *testing.T) {
	t.Parallel()
	type served struct {
		Request Request
		Answer  Answer
	}
	events := make(chan served, 10)
	addr := start(t, Options{Director: director{"SN 0001/A": installed(node01)}, OnScript: func(r Request, a Answer) { events <- served{r, a} }})
	c := dial(t, addr)
	query := "serial=SN%200001%2FA&board-serial=BRD%231&mac=52-54-00-12-34-56&arch=i386&platform=pcbios"
	head := c.do("HEAD /boot.ipxe?" + query)
	got := c.do("GET /boot.ipxe?" + query)
	image := "http://" + addr + "/image/" + schematic + "/v1.13.9/"
	for _, want := range []string{
		"\nkernel " + image + "kernel-amd64 initrd=initramfs.xz " + node01 + " || goto failed\n",
		"\ninitrd --name initramfs.xz " + image + "initramfs-amd64.xz || goto failed\n",
	} {
		if !strings.Contains(got.body, want) {
			t.Errorf("the script lacks %q:\n%s", want, got.body)
		}
	}
	if h, g := head.header.Get("Content-Length"), got.header.Get("Content-Length"); h != g {
		t.Errorf("HEAD says %s bytes, GET %s", h, g)
	}
	stranger := c.do("GET /boot.ipxe?serial=A2&platform=efi")
	armed := installed(node01)
	armed.Script = got.body
	want := []served{
		{Request{Facts: identity.Facts{Serial: "SN 0001/A", BoardSerial: "BRD#1", MACs: []string{"52-54-00-12-34-56"}}, Arch: "amd64", Platform: "pcbios", Source: netip.MustParseAddr("127.0.0.1")}, armed},
		{Request{Facts: identity.Facts{Serial: "A2"}, Arch: "amd64", Platform: "efi", Source: netip.MustParseAddr("127.0.0.1")}, Answer{Reason: "unknown machine", Script: stranger.body}},
	}
	for _, w := range want { // the HEAD is no event
		if diff := cmp.Diff(w, <-events, cmpRequest); diff != "" {
			t.Error(diff)
		}
	}
	if len(events) != 0 {
		t.Errorf("%d events too many", len(events))
	}
}

func TestAPlainScriptURLAsksForTheMachinesFacts(t *testing.T) {
	t.Parallel()
	addr := start(t, Options{})
	got := dial(t, addr).do("GET /boot.ipxe")
	if want := "#!ipxe\nchain --autofree http://" + addr + "/boot.ipxe?serial="; !strings.HasPrefix(got.body, want) {
		t.Errorf("script is\n%s", got.body)
	}
}

func TestTheBaseURLCanBeAdvertised(t *testing.T) {
	t.Parallel()
	c := dial(t, start(t, Options{Director: director{"A1": installed("")}, BaseURL: func(*http.Request) string { return "http://192.0.2.1:81" }}))
	for _, path := range []string{"/autoexec.ipxe", "/boot.ipxe", "/boot.ipxe?serial=A1"} {
		if got := c.do("GET " + path); !strings.Contains(got.body, " http://192.0.2.1:81/") {
			t.Errorf("%s:\n%s", path, got.body)
		}
	}
}

// TestP13HTTPAsFirmwareSpeaksIt runs over one connection: keep-alive is part of it.
func TestP13HTTPAsFirmwareSpeaksIt(t *testing.T) {
	t.Parallel()
	c := dial(t, start(t, Options{IPXEDir: ipxeDir(t)}))
	head := c.do("HEAD /ipxe/snponly.efi")
	if head.status != "200 OK" || head.header.Get("Content-Length") != "10" || head.header.Get("Content-Type") != "application/efi" {
		t.Errorf("HEAD: %s %v", head.status, head.header)
	}
	for path, body := range map[string]string{
		"/ipxe/snponly.efi": "MZ snponly", "/ipxe//snponly.efi": "MZ snponly", "//ipxe/./x/../snponly.efi": "MZ snponly",
		"/ipxe/SNPONLY.EFI": "MZ snponly", "/ipxe/52:54:00:12:34:56/snponly.efi": "MZ snponly", `/ipxe/boot%5Csnponly.efi`: "MZ snponly",
		"/ipxe/snp.efi": "MZ snponly", "/ipxe/ipxe.efi": "MZ native", "/ipxe/snp-arm64.efi": "MZ arm", "/ipxe/undionly.kpxe": "bios",
		"http://127.0.0.1/ipxe/snponly.efi": "MZ snponly",
	} {
		got := c.do("GET " + path)
		if got.status != "200 OK" || got.body != body {
			t.Errorf("GET %s: %s %q", path, got.status, got.body)
		}
		kind := "application/efi"
		if strings.HasSuffix(path, "kpxe") {
			kind = "application/octet-stream"
		}
		if got.header.Get("Content-Type") != kind || got.header.Get("ETag") == "" || got.header.Get("Location") != "" {
			t.Errorf("GET %s: %v", path, got.header)
		}
	}
	if got := c.do("GET /ipxe/snponly.efi", "Range: bytes=3-"); got.status != "206 Partial Content" || got.body != "snponly" {
		t.Errorf("range: %s %q", got.status, got.body)
	}
	if got := c.do("GET /ipxe/snponly.efi", "If-None-Match: "+head.header.Get("Etag")); got.status != "304 Not Modified" {
		t.Errorf("known ETag: %s", got.status)
	}
	for request, status := range map[string]string{
		"GET /": "404 Not Found", "GET /ipxe/": "404 Not Found", "GET /ipxe": "404 Not Found", "GET /image/": "404 Not Found",
		"GET /ipxe/../../../etc/passwd": "404 Not Found", "GET /ipxe/%2e%2e%2fpasswd": "404 Not Found", "GET /ipxe/ipxe.pxe": "404 Not Found",
		"POST /boot.ipxe": "405 Method Not Allowed", "GET /healthz": "200 OK",
	} {
		if got := c.do(request); got.status != status {
			t.Errorf("%s: %s, want %s", request, got.status, status)
		}
	}
	if got := c.do("GET /boot.ipxe", "Content-Length: 5"); got.status != "400 Bad Request" || got.header.Get("Connection") != "close" {
		t.Errorf("a body: %s %v", got.status, got.header)
	}
}

func TestP13ABusyServerSaysWhenToComeBack(t *testing.T) {
	t.Parallel()
	cache, ref, content := cacheWith(t, 8<<20)
	addr := start(t, Options{Assets: cache, MaxTransfers: 1, IPXEDir: ipxeDir(t)})
	slow := dial(t, addr)
	if _, err := fmt.Fprintf(slow, "GET /image/%s HTTP/1.1\r\nHost: x\r\n\r\n", ref); err != nil {
		t.Fatal(err)
	}
	if _, err := slow.r.Peek(1); err != nil { // its transfer has begun, and 8 MB do not fit into the socket buffers
		t.Fatal(err)
	}
	c := dial(t, addr)
	got := c.do("GET /image/" + ref.String())
	if got.status != "503 Service Unavailable" || got.header.Get("Content-Length") != "0" {
		t.Errorf("%s %v", got.status, got.header)
	}
	var seconds int
	if _, err := fmt.Sscan(got.header.Get("Retry-After"), &seconds); err != nil || seconds < 2 || seconds > 10 {
		t.Errorf("Retry-After is %q", got.header.Get("Retry-After"))
	}
	if got := c.do("GET /ipxe/snponly.efi"); got.status != "200 OK" {
		t.Errorf("UEFI would not come back, but gets %s", got.status)
	}
	if _, err := io.CopyN(io.Discard, slow.r, int64(len(content))); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return strings.HasPrefix(c.do("HEAD /image/"+ref.String()).status, "200") })
}

func await(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited 30 s in vain")
		}
	}
}

func TestImages(t *testing.T) {
	t.Parallel()
	cache, ref, content := cacheWith(t, 100_000)
	transfers := make(chan Transfer, 10)
	c := dial(t, start(t, Options{Assets: cache, OnTransfer: func(tr Transfer) { transfers <- tr }}))

	got := c.do("GET /image/" + ref.String())
	if got.status != "200 OK" || got.body != string(content) || got.header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("%s, %d bytes", got.status, len(got.body))
	}
	if tr := <-transfers; tr.Name != ref.String() || tr.Bytes != 100_000 || tr.Size != 100_000 || tr.Status != 200 || tr.Err != nil || tr.Source != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("transfer is %+v", tr)
	}
	if got := c.do("GET /image/"+ref.String(), "Range: bytes=99990-"); got.status != "206 Partial Content" || got.body != string(content[99990:]) {
		t.Errorf("range: %s", got.status)
	}
	if tr := <-transfers; tr.Bytes != 10 || tr.Status != 206 {
		t.Errorf("transfer is %+v", tr)
	}
	if got := c.do("HEAD /image/" + ref.String()); got.header.Get("Content-Length") != "100000" || len(got.header.Get("Etag")) != 66 {
		t.Errorf("HEAD: %v", got.header)
	}
	for _, path := range []string{"/image/x/v1.13.9/kernel-amd64", "/image/" + schematic + "/v1.13.9/kernel-amd64.sha256", "/image/" + schematic + "/v1.13.9", "/image/" + ref.String() + "/x"} {
		if got := c.do("GET " + path); got.status != "404 Not Found" {
			t.Errorf("%s: %s", path, got.status)
		}
	}
}

// TestAStrangerCannotMakeUsDownload: only files that Allow names are fetched.
func TestAStrangerCannotMakeUsDownload(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	l := listen(t)
	factory := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.URL.Path)
		mu.Unlock()
		if strings.Contains(r.URL.Path, "v1.13.8") {
			http.Error(w, "broken", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Length", "4")
		_, _ = w.Write([]byte("\x00\x01\x02\x03"))
	})}
	go func() { _ = factory.Serve(l) }() // ends with ErrServerClosed
	defer func() { _ = factory.Close() }()
	cache, err := assets.New(assets.Options{Dir: t.TempDir(), Factory: "http://" + l.Addr().String(), Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	good, broken := assets.Kernel(schematic, "v1.13.9", "amd64"), assets.Kernel(schematic, "v1.13.8", "amd64")
	allow := func(r assets.Ref) bool { return r == good || r == broken }

	if got := dial(t, start(t, Options{Assets: cache})).do("GET /image/" + good.String()); got.status != "404 Not Found" {
		t.Errorf("without Allow: %s", got.status)
	}
	c := dial(t, start(t, Options{Assets: cache, Allow: allow}))
	if got := c.do("GET /image/" + assets.Initramfs(schematic, "v1.13.9", "amd64").String()); got.status != "404 Not Found" {
		t.Errorf("not allowed: %s", got.status)
	}
	if got := c.do("GET /image/" + good.String()); got.status != "200 OK" || got.body != "\x00\x01\x02\x03" {
		t.Errorf("allowed: %s %q", got.status, got.body)
	}
	if got := c.do("GET /image/" + broken.String()); got.status != "502 Bad Gateway" || got.header.Get("Retry-After") != "" {
		t.Errorf("broken factory: %s %v", got.status, got.header)
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff([]string{"/image/" + good.String(), "/image/" + broken.String()}, asked); diff != "" {
		t.Error(diff)
	}
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}
