package web_test

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/talos-provision/provision/provisioner/web"
)

// aDashboard shows what it knows; at /live it goes on until it is told to end.
func aDashboard() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_ = json.NewEncoder(w).Encode(shown{
			Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Form: string(body), Caller: web.Caller(r.Context()),
			LoginError: web.LoginError(r.Context()), MayAct: web.MayAct(r.Context()), SignedIn: web.SignedIn(r.Context()),
		})
	})
	mux.HandleFunc("/live", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data: on\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		_, _ = io.WriteString(w, "data: off\n\n")
	})
	mux.HandleFunc("/panic", func(http.ResponseWriter, *http.Request) { panic("a bug") })
	mux.HandleFunc("/half", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half a page")
		_ = http.NewResponseController(w).Flush()
		panic("a bug")
	})
	return mux
}

// browser keeps cookies and follows no redirect.
type browser struct {
	t    *testing.T
	base string
	http *http.Client
}

func browse(t *testing.T, r *running, config *tls.Config) *browser {
	t.Helper()
	scheme := "http"
	if r.opts.CertFile != "" {
		scheme = "https"
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: config}
	t.Cleanup(transport.CloseIdleConnections)
	return &browser{t, r.url(scheme), &http.Client{
		Transport: transport, Jar: jar, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// answer is a response that was read.
type answer struct {
	status int
	header http.Header
	body   string
	page   shown
}

func (b *browser) ask(method, path, body string, headers ...string) answer {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		if request.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			request.Host = headers[i+1]
		}
	}
	response, err := b.http.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	a := answer{status: response.StatusCode, header: response.Header, body: string(raw)}
	_ = json.Unmarshal(raw, &a.page)
	return a
}

func (b *browser) login(token, next string) answer {
	b.t.Helper()
	return b.ask("POST", "/login", url.Values{"token": {token}, "next": {next}}.Encode())
}

// withDashboard is a server on loopback with both tokens and a dashboard.
func withDashboard(t *testing.T, change ...func(*web.Options)) (*running, *fake) {
	t.Helper()
	o := web.Options{Listen: "127.0.0.1:0", TokenFile: file(t, adminToken), ReadTokenFile: file(t, readToken), Dashboard: aDashboard()}
	for _, c := range change {
		c(&o)
	}
	daemon := newFake()
	return serve(t, daemon, o), daemon
}
