package web_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/talos-provision/provision/e2e/needs"
	"github.com/talos-provision/provision/provisioner/web"
)

func TestWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	ca, stranger := newAuthority(t, "ca"), newAuthority(t, "stranger")
	cert, key := ca.issue("daemon", x509.ExtKeyUsageServerAuth)
	ourCert, ourKey := ca.issue("alice", x509.ExtKeyUsageClientAuth)
	otherCert, otherKey := stranger.issue("alice", x509.ExtKeyUsageClientAuth)
	admin, reader, wrong := file(t, adminToken), file(t, readToken), file(t, adminToken[:len(adminToken)-1]+"!")
	const loopback = "127.0.0.1:0"
	servers := map[string]web.Options{
		"tokens":   {Listen: loopback, TokenFile: admin, ReadTokenFile: reader},
		"tls":      {Listen: loopback, TokenFile: admin, ReadTokenFile: reader, CertFile: cert, KeyFile: key},
		"mtls":     {Listen: loopback, TokenFile: admin, CertFile: cert, KeyFile: key, ClientCAFile: ca.file},
		"nothing":  {Listen: loopback},
		"insecure": {Listen: loopback, InsecureLoopback: true, ReadTokenFile: reader},
	}
	for _, test := range []struct {
		name, server string
		endpoint     web.Endpoint
		get, post    error // nil when it may
	}{
		{"no token", "tokens", web.Endpoint{}, web.ErrUnauthorized, web.ErrUnauthorized},
		{"wrong token", "tokens", web.Endpoint{TokenFile: wrong}, web.ErrUnauthorized, web.ErrUnauthorized},
		{"reading token", "tokens", web.Endpoint{TokenFile: reader}, nil, web.ErrForbidden},
		{"token", "tokens", web.Endpoint{TokenFile: admin}, nil, nil},
		{"no token over TLS", "tls", web.Endpoint{CAFile: ca.file}, web.ErrUnauthorized, web.ErrUnauthorized},
		{"reading token over TLS", "tls", web.Endpoint{CAFile: ca.file, TokenFile: reader}, nil, web.ErrForbidden},
		{"token over TLS", "tls", web.Endpoint{CAFile: ca.file, TokenFile: admin}, nil, nil},
		{"certificate where none is asked for", "tls", web.Endpoint{CAFile: ca.file, CertFile: ourCert, KeyFile: ourKey}, web.ErrUnauthorized, web.ErrUnauthorized},
		{"daemon that we do not trust", "tls", web.Endpoint{CAFile: stranger.file, TokenFile: admin}, web.ErrUnreachable, web.ErrUnreachable},
		{"certificate", "mtls", web.Endpoint{CAFile: ca.file, CertFile: ourCert, KeyFile: ourKey}, nil, nil},
		{"certificate of another authority", "mtls", web.Endpoint{CAFile: ca.file, CertFile: otherCert, KeyFile: otherKey}, web.ErrUnauthorized, web.ErrUnauthorized},
		{"server's certificate as a client's", "mtls", web.Endpoint{CAFile: ca.file, CertFile: cert, KeyFile: key}, web.ErrUnreachable, web.ErrUnreachable},
		{"neither certificate nor token", "mtls", web.Endpoint{CAFile: ca.file}, web.ErrUnauthorized, web.ErrUnauthorized},
		{"token in place of a certificate", "mtls", web.Endpoint{CAFile: ca.file, TokenFile: admin}, nil, nil},
		{"loopback without any token", "nothing", web.Endpoint{}, web.ErrUnauthorized, web.ErrUnauthorized},
		{"loopback, open by choice", "insecure", web.Endpoint{}, nil, nil},
		{"wrong token where none is needed", "insecure", web.Endpoint{TokenFile: wrong}, web.ErrUnauthorized, web.ErrUnauthorized},
		{"reading token where none is needed", "insecure", web.Endpoint{TokenFile: reader}, nil, web.ErrForbidden},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			daemon := newFake()
			r := serve(t, daemon, servers[test.server])
			scheme := "http"
			if r.opts.CertFile != "" {
				scheme = "https"
			}
			test.endpoint.URL = r.url(scheme)
			c := client(t, test.endpoint)
			_, err := c.Runs(t.Context())
			if !errors.Is(err, test.get) {
				t.Errorf("to look is answered %v; want %v", err, test.get)
			}
			if asked, _ := daemon.last(); (asked != nil) != (test.get == nil) {
				t.Errorf("the daemon was asked %v", asked)
			}
			if err := c.Stop(t.Context(), "prod"); !errors.Is(err, test.post) {
				t.Errorf("to act is answered %v; want %v", err, test.post)
			}
			if asked, _ := daemon.last(); (asked == "stop prod") != (test.post == nil) {
				t.Errorf("the daemon was asked %v", asked)
			}
			if _, err := c.Alive(t.Context()); !errors.Is(test.get, web.ErrUnreachable) && err != nil {
				t.Errorf("whether it is alive is answered %v; everybody may know", err)
			}
		})
	}
}

func TestACertificateOfAnotherAuthorityEndsTheHandshake(t *testing.T) {
	t.Parallel()
	ca, stranger := newAuthority(t, "ca"), newAuthority(t, "stranger")
	cert, key := ca.issue("daemon", x509.ExtKeyUsageServerAuth)
	daemon := newFake()
	r := serve(t, daemon, web.Options{Listen: "127.0.0.1:0", CertFile: cert, KeyFile: key, ClientCAFile: ca.file})
	for _, test := range []struct {
		by   *authority
		good bool
	}{{ca, true}, {stranger, false}} {
		ours, err := tls.LoadX509KeyPair(test.by.issue("alice", x509.ExtKeyUsageClientAuth))
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AddCert(ca.cert)
		dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12,
			// Sent although the daemon does not ask for one of that authority.
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &ours, nil }}}
		conn, err := dialer.DialContext(t.Context(), "tcp", r.server.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.WriteString(conn, "GET /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
		answer, err2 := io.ReadAll(conn)
		if good := strings.HasPrefix(string(answer), "HTTP/1.1 200"); good != test.good {
			t.Errorf("a certificate of %s is answered %q, %v", test.by.cert.Subject.CommonName, answer, errors.Join(err, err2))
		}
		_ = conn.Close()
	}
}

// raw sends a request as it is, and returns the answer's status and body.
func raw(t *testing.T, r *running, request *http.Request) (int, string) {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		if r.opts.Socket != "" {
			return d.DialContext(ctx, "unix", r.opts.Socket)
		}
		return d.DialContext(ctx, "tcp", r.server.Addr().String())
	}}
	t.Cleanup(transport.CloseIdleConnections)
	response, err := transport.RoundTrip(request.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got := response.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control is %q", got)
	}
	return response.StatusCode, string(body)
}

func TestAPageOfAnotherSiteCannotAsk(t *testing.T) {
	t.Parallel()
	admin := file(t, adminToken)
	// The worst case: nothing but the request itself stands between a page and the daemon.
	open := serve(t, newFake(), web.Options{Listen: "127.0.0.1:0", InsecureLoopback: true, Hosts: []string{"admin.example"}})
	withToken := serve(t, newFake(), web.Options{Listen: "127.0.0.1:0", TokenFile: admin})
	onSocket := serve(t, newFake(), web.Options{Socket: socket(t)})
	plan := `{"cluster":"prod"}`
	for _, test := range []struct {
		name    string
		server  *running
		method  string
		host    string
		headers map[string]string
		want    int
	}{
		{"by name", open, "GET", "localhost:9090", nil, 200},
		{"by address", open, "GET", "127.0.0.1", nil, 200},
		{"by IPv6 address", open, "GET", "[::1]:9090", nil, 200},
		{"by a name that was given", open, "GET", "Admin.example:80", nil, 200},
		{"rebound name", open, "GET", "evil.example", nil, 403},
		{"rebound name with a port", open, "GET", "evil.example:9090", nil, 403},
		{"name that begins like ours", open, "GET", "localhost.evil.example", nil, 403},
		{"rebound name with a token", withToken, "GET", "evil.example", map[string]string{"Authorization": "Bearer " + adminToken}, 403},
		{"any name on the socket", onSocket, "GET", "run", nil, 200},
		{"post", open, "POST", "localhost", map[string]string{"Content-Type": "application/json; charset=utf-8"}, 200},
		{"post of a form", open, "POST", "localhost", map[string]string{"Content-Type": "text/plain"}, 415},
		{"post of no type", open, "POST", "localhost", nil, 415},
		{"post from another site", open, "POST", "localhost", map[string]string{"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site"}, 403},
		{"post from another origin", open, "POST", "localhost", map[string]string{"Content-Type": "application/json", "Origin": "http://evil.example"}, 403},
		{"token in the wrong scheme", withToken, "GET", "localhost", map[string]string{"Authorization": "Basic " + adminToken}, 401},
		{"token in another case", withToken, "GET", "localhost", map[string]string{"Authorization": "bearer " + adminToken}, 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := "/api/v1/runs"
			if test.method == "POST" {
				path = "/api/v1/plans"
			}
			request, err := http.NewRequestWithContext(t.Context(), test.method, "http://daemon"+path, strings.NewReader(plan))
			if err != nil {
				t.Fatal(err)
			}
			request.Host = test.host
			for name, value := range test.headers {
				request.Header.Set(name, value)
			}
			status, body := raw(t, test.server, request)
			if status != test.want {
				t.Errorf("the answer is %d: %s; want %d", status, body, test.want)
			}
			if status != 200 && (!strings.Contains(body, `"error":"`) || !strings.Contains(body, `"hint":"`)) {
				t.Errorf("the error says not what to do: %s", body)
			}
		})
	}
}

func TestTheSocketIsForItsOwnerWhateverItsMode(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		needs.Lacking(t, "only root can be another user: run as root")
	}
	daemon := newFake()
	r := serve(t, daemon, web.Options{Socket: socket(t)})
	for _, mode := range []struct {
		path string
		mode os.FileMode
	}{{r.opts.Socket, 0o777}, {r.opts.Socket[:len(r.opts.Socket)-2], 0o755}} {
		if err := os.Chmod(mode.path, mode.mode); err != nil {
			t.Fatal(err)
		}
	}
	type result struct {
		answer string
		err    error
	}
	answers := make(chan result)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its goroutine
		answer, err := askAs(65534, r.opts.Socket)
		answers <- result{answer, err}
	}()
	got := <-answers
	if got.err != nil || !strings.HasPrefix(got.answer, "HTTP/1.1 403") {
		t.Errorf("another user is answered %q, %v; want 403", got.answer, got.err)
	}
	if asked, _ := daemon.last(); asked != nil {
		t.Errorf("the daemon was asked %v", asked)
	}
}

// askAs asks as another user, which this thread remains.
func askAs(uid int, path string) (string, error) {
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
		return "", errno
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return "", err
	}
	if _, err := unix.Write(fd, []byte("GET /api/v1/runs HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")); err != nil {
		return "", err
	}
	answer := make([]byte, 64)
	n, err := unix.Read(fd, answer)
	return string(answer[:n]), err
}

// A copy of the state is made to be put in the place of a state: who may only look
// sees all of it by other calls, and cannot carry it away, nor keep it read for hours.
func TestABackupIsForWhoMayDoEverything(t *testing.T) {
	t.Parallel()
	admin, reader := file(t, adminToken), file(t, readToken)
	r := serve(t, newFake(), web.Options{Listen: "127.0.0.1:0", TokenFile: admin, ReadTokenFile: reader})
	for token, want := range map[string]error{admin: nil, reader: web.ErrForbidden} {
		var copied strings.Builder
		err := client(t, web.Endpoint{URL: r.url("http"), TokenFile: token}).Backup(t.Context(), &copied)
		if !errors.Is(err, want) || (copied.String() == "the state") != (want == nil) {
			t.Errorf("a backup is answered %v with %q; want %v", err, copied.String(), want)
		}
	}
}
