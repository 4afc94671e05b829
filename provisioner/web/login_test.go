package web_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/provisioner/web"
)

// shown is what the dashboard of a test knows of a request.
type shown struct {
	Method, Path, Query, Form string
	Caller, LoginError        string
	MayAct, SignedIn          bool
}

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

func TestWhoIsNotKnownIsSentToTheLogin(t *testing.T) {
	t.Parallel()
	r, _ := withDashboard(t)
	htmx := []string{"Hx-Request", "true", "Hx-Current-Url", "http://127.0.0.1/nodes?page=2"}
	for _, test := range []struct {
		name, method, path string
		headers            []string
		status             int
		location           string
	}{
		{"the first page", "GET", "/", nil, 303, "/login"},
		{"another page", "GET", "/nodes/prod/n1?tab=boot", nil, 303, "/login?next=%2Fnodes%2Fprod%2Fn1%3Ftab%3Dboot"},
		{"a page that is not there", "GET", "/moon", nil, 303, "/login?next=%2Fmoon"},
		{"only its head", "HEAD", "/nodes", nil, 303, "/login?next=%2Fnodes"},
		{"a form", "POST", "/nodes/prod/n1/hold", nil, 303, "/login"},
		{"a path that climbs out of what all may have", "GET", "/static/../nodes", nil, 303, "/login?next=%2Fstatic%2F..%2Fnodes"},
		{"the same, hidden", "GET", "/static/%2e%2e/nodes", nil, 303, "/login?next=%2Fstatic%2F%252e%252e%2Fnodes"},
		{"posting to a file", "POST", "/static/x.css", nil, 303, "/login"},
		{"a part of a page", "GET", "/nodes", htmx, 401, ""},
		{"a stream", "GET", "/live", []string{"Accept", "text/event-stream"}, 401, ""},
		{"a link on another site", "GET", "/nodes?a=%22", []string{"Sec-Fetch-Site", "cross-site"}, 200, ""},
		{"another method", "DELETE", "/nodes", nil, 405, ""},
		{"a rebound name", "GET", "/login", []string{"Host", "evil.example"}, 403, ""},
		{"a cookie that is none", "GET", "/", []string{"Cookie", "provision_session=guess"}, 303, "/login"},
		{"a wrong token", "GET", "/", []string{"Authorization", "Bearer " + adminToken + "x"}, 303, "/login"},
		{"a file", "GET", "/static/x.css", nil, 200, ""},
		{"the login", "GET", "/login?next=/nodes", nil, 200, ""},
		{"the API", "GET", "/api/v1/nodes", nil, 401, ""},
		{"beside the API", "GET", "/api", nil, 401, ""},
		{"for debugging", "GET", "/debug/pprof/", nil, 401, ""},
		{"whether it is alive", "GET", "/healthz", nil, 200, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := browse(t, r, nil)
			got := b.ask(test.method, test.path, "", test.headers...)
			if got.status != test.status || got.header.Get("Location") != test.location {
				t.Errorf("the answer is %d to %q; want %d to %q: %s", got.status, got.header.Get("Location"), test.status, test.location, got.body)
			}
			if got.page.Caller != "" || got.page.MayAct || got.page.SignedIn {
				t.Errorf("a stranger is %+v", got.page)
			}
			switch test.name {
			case "a part of a page":
				if to := got.header.Get("Hx-Redirect"); to != "/login?next=%2Fnodes%3Fpage%3D2" {
					t.Errorf("htmx is sent to %q", to)
				}
			case "a link on another site":
				if !strings.Contains(got.body, `content="0;url=/nodes?a=%22"`) || got.page.Path != "" {
					t.Errorf("the page is %s; want one that asks again", got.body)
				}
			}
		})
	}
}

func TestALoginByToken(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	cert, key := ca.issue("daemon", x509.ExtKeyUsageServerAuth)
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	for name, test := range map[string]struct {
		tls    bool
		token  string
		cookie string // its beginning
		want   shown
	}{
		"admin":            {false, adminToken, "provision_session=", shown{Method: "GET", Path: "/", Caller: "token", MayAct: true, SignedIn: true}},
		"with blanks":      {false, "  " + adminToken + "\n", "provision_session=", shown{Method: "GET", Path: "/", Caller: "token", MayAct: true, SignedIn: true}},
		"reader":           {false, readToken, "provision_session=", shown{Method: "GET", Path: "/", Caller: "read token", SignedIn: true}},
		"admin over TLS":   {true, adminToken, "__Host-provision_session=", shown{Method: "GET", Path: "/", Caller: "token", MayAct: true, SignedIn: true}},
		"reading over TLS": {true, readToken, "__Host-provision_session=", shown{Method: "GET", Path: "/", Caller: "read token", SignedIn: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, daemon := withDashboard(t, func(o *web.Options) {
				if test.tls {
					o.CertFile, o.KeyFile = cert, key
				}
			})
			b := browse(t, r, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
			got := b.login(test.token, "/nodes?page=2")
			if got.status != 303 || got.header.Get("Location") != "/nodes?page=2" {
				t.Fatalf("the login is answered %d to %q: %s", got.status, got.header.Get("Location"), got.body)
			}
			cookie := got.header.Get("Set-Cookie")
			attributes := "; Path=/; HttpOnly; SameSite=Strict"
			if test.tls {
				attributes = "; Path=/; HttpOnly; Secure; SameSite=Strict"
			}
			if !strings.HasPrefix(cookie, test.cookie) || !strings.HasSuffix(cookie, attributes) || len(cookie) != len(test.cookie)+43+len(attributes) {
				t.Errorf("the cookie is %q", cookie)
			}
			if diff := cmp.Diff(test.want, b.ask("GET", "/", "").page); diff != "" {
				t.Errorf("the page knows (-want +got):\n%s", diff)
			}
			if got := b.ask("GET", web.Prefix+"/runs", ""); got.status != 200 {
				t.Errorf("the API is answered %d to the page", got.status)
			}
			want := 403
			if test.want.MayAct {
				want = 204
			}
			if got := b.ask("POST", web.Prefix+"/runs/prod/stop", "{}", "Content-Type", "application/json"); got.status != want {
				t.Errorf("to act is answered %d; want %d", got.status, want)
			}
			if asked, by := daemon.last(); test.want.MayAct && (asked != "stop prod" || by != "token") {
				t.Errorf("the daemon was asked %v for %q", asked, by)
			}
			if got := b.ask("POST", "/logout", ""); got.status != 303 || got.header.Get("Location") != "/login" || !strings.Contains(got.header.Get("Set-Cookie"), "Max-Age=0") {
				t.Errorf("the logout is answered %d, %v", got.status, got.header)
			}
			old, _, _ := strings.Cut(cookie, ";")
			if got := b.ask("GET", "/", "", "Cookie", old); got.status != 303 {
				t.Errorf("after the logout the cookie is answered %d", got.status)
			}
		})
	}
}

func TestAWrongTokenShowsTheLoginAgain(t *testing.T) {
	t.Parallel()
	log := newLog()
	r, _ := withDashboard(t, func(o *web.Options) { o.Log = log.logger() })
	b := browse(t, r, nil)
	for _, guess := range []string{"", "guess-guess-guess-guess", adminToken + "x", strings.Repeat("x", 5000)} {
		got := b.login(guess, "/nodes?x=1")
		want := shown{Method: "GET", Path: "/login", Query: "next=%2Fnodes%3Fx%3D1", LoginError: got.page.LoginError}
		if diff := cmp.Diff(want, got.page); diff != "" || got.status != 401 || !strings.Contains(got.page.LoginError, "not the daemon's token") {
			t.Errorf("a guess is answered %d, %q (-want +got):\n%s", got.status, got.page.LoginError, diff)
		}
		if got.header.Get("Set-Cookie") != "" {
			t.Errorf("a guess gets the cookie %q", got.header.Get("Set-Cookie"))
		}
	}
	if got := b.login(strings.Repeat("x", 20<<10), "/"); got.status != 400 {
		t.Errorf("a form without end is answered %d", got.status)
	}
	for range 10 {
		b.login("guess-guess-guess-guess", "/")
	}
	got := b.login(adminToken, "/")
	if got.status != 429 || got.header.Get("Retry-After") == "" || !strings.Contains(got.page.LoginError, "wait") {
		t.Errorf("after many guesses the next is answered %d, %q", got.status, got.page.LoginError)
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if text := log.String(); !strings.Contains(text, `call="POST /login" outcome=unauthorized status=401`) || strings.Contains(text, "guess-guess") || strings.Contains(text, adminToken) {
		t.Errorf("the log is\n%s", text)
	}
}

func TestWithoutATokenTheLoginSaysHow(t *testing.T) {
	t.Parallel()
	r := serve(t, newFake(), web.Options{Listen: "127.0.0.1:0", Dashboard: aDashboard()})
	if got := browse(t, r, nil).login("", "/"); got.status != 401 || !strings.Contains(got.page.LoginError, "`provision dashboard`") {
		t.Errorf("the login is answered %d, %q", got.status, got.page.LoginError)
	}
}

func TestALoginLeadsToAPathOfThisServer(t *testing.T) {
	t.Parallel()
	for next, want := range map[string]string{
		"": "/", "/": "/", "/nodes": "/nodes", "/nodes?a=b&c=%2F": "/nodes?a=b&c=%2F", "/a#b": "/a",
		"//evil.example": "/", `/\evil.example`: "/", `\/evil.example`: "/", "https://evil.example/": "/", "javascript:alert(1)": "/",
		"/\t/evil.example": "/", "/%09/evil.example": "/%09/evil.example", "/%2F/evil.example": "/", "/%5Cevil.example": "/", "evil": "/", "/login?next=/": "/", "/logout": "/",
		"/a\r\nSet-Cookie: x": "/", "http:///evil": "/", "///evil.example": "/", "/%zz": "/",
	} {
		if got := web.LocalPath(next); got != want {
			t.Errorf("after a login with next=%q it goes on at %q; want %q", next, got, want)
		}
	}
}

func FuzzLocalPath(f *testing.F) {
	for _, seed := range []string{"/", "/a?b#c", "//x", `/\x`, "/%2f%2fx", "/\u202ex", "http://x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, next string) {
		got := web.LocalPath(next)
		u, err := url.Parse(got)
		if err != nil || u.Host != "" || u.Scheme != "" || !strings.HasPrefix(got, "/") || strings.HasPrefix(got, "//") || strings.ContainsAny(got, "\\\r\n\t ") {
			t.Errorf("%q leads to %q", next, got)
		}
	})
}

func TestAForeignPageCannotActThroughTheBrowser(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	cert, key := ca.issue("daemon", x509.ExtKeyUsageServerAuth)
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	ours, err := tls.LoadX509KeyPair(ca.issue("alice", x509.ExtKeyUsageClientAuth))
	if err != nil {
		t.Fatal(err)
	}
	r, daemon := withDashboard(t, func(o *web.Options) { o.CertFile, o.KeyFile, o.ClientCAFile = cert, key, ca.file })
	byCookie := browse(t, r, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
	if got := byCookie.login(adminToken, "/"); got.status != 303 {
		t.Fatal(got)
	}
	byCert := browse(t, r, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{ours}})
	for name, b := range map[string]*browser{"cookie": byCookie, "certificate": byCert} {
		for _, test := range []struct {
			path    string
			headers []string
			status  int
		}{
			{"/hold", []string{"Sec-Fetch-Site", "same-origin"}, 200},
			{"/hold", []string{"Origin", b.base}, 200},
			{"/hold", []string{"Sec-Fetch-Site", "cross-site"}, 403},
			{"/hold", []string{"Sec-Fetch-Site", "same-site"}, 403},
			{"/hold", []string{"Origin", "https://evil.example"}, 403},
			{"/hold", []string{"Origin", "null"}, 403},
			{"/login", []string{"Sec-Fetch-Site", "cross-site"}, 403},
			{"/logout", []string{"Sec-Fetch-Site", "cross-site"}, 403},
			{web.Prefix + "/runs/prod/stop", []string{"Sec-Fetch-Site", "cross-site", "Content-Type", "application/json"}, 403},
			{web.Prefix + "/runs/prod/stop", []string{"Sec-Fetch-Site", "same-site", "Content-Type", "application/json"}, 403},
		} {
			if got := b.ask("POST", test.path, "", test.headers...); got.status != test.status || (got.page.Path != "") != (test.status == 200) {
				t.Errorf("%s: a post to %s with %v is answered %d; want %d", name, test.path, test.headers, got.status, test.status)
			}
		}
	}
	if asked, _ := daemon.last(); asked != nil {
		t.Errorf("the daemon was asked %v", asked)
	}
	if got := byCert.ask("GET", "/", "").page; got.Caller != "certificate alice" || !got.MayAct || got.SignedIn {
		t.Errorf("by certificate it is %+v", got)
	}
}

func TestPagesCarryTheirHeaders(t *testing.T) {
	t.Parallel()
	r, _ := withDashboard(t)
	b := browse(t, r, nil)
	b.login(readToken, "/")
	for path, cache := range map[string]string{"/": "no-store", "/login": "no-store", "/panic": "no-store", "/static/x.css": ""} {
		got := b.ask("GET", path, "").header
		want := map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
			"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": cache,
		}
		for name, value := range want {
			if got.Get(name) != value {
				t.Errorf("%s has %s: %q; want %q", path, name, got.Get(name), value)
			}
		}
	}
}

func TestAPageThatPanicsIsAnErrorAndNoHalfAPageIsAWholeOne(t *testing.T) {
	t.Parallel()
	r, _ := withDashboard(t)
	b := browse(t, r, nil)
	b.login(readToken, "/")
	if got := b.ask("GET", "/panic", ""); got.status != 500 || strings.Contains(got.body, "a bug\n") || !strings.Contains(got.body, "report it") {
		t.Errorf("a panic is answered %d: %s", got.status, got.body)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.base+"/half", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := b.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if raw, err := io.ReadAll(response.Body); err == nil {
		t.Errorf("half a page ends as a whole one: %q", raw)
	}
}

// links are made over the socket, and used over TCP.
func TestALoginLink(t *testing.T) {
	t.Parallel()
	path := socket(t)
	log := newLog()
	r, _ := withDashboard(t, func(o *web.Options) { o.Socket, o.TokenFile, o.ReadTokenFile, o.Log = path, "", "", log.logger() })
	onSocket := client(t, web.Endpoint{Socket: path})
	for role, want := range map[string]shown{
		"read":  {Method: "GET", Path: "/", Caller: ownName(t), SignedIn: true},
		"admin": {Method: "GET", Path: "/", Caller: ownName(t), MayAct: true, SignedIn: true},
	} {
		link, err := onSocket.Login(t.Context(), role)
		if err != nil {
			t.Fatal(err)
		}
		at, isOurs := strings.CutPrefix(link.URL, r.url("http"))
		if !isOurs || link.Role != role || len(at) != len("/login?ticket=")+43 {
			t.Errorf("the link is %+v", link)
		}
		b := browse(t, r, nil)
		if got := b.ask("HEAD", at, ""); got.header.Get("Set-Cookie") != "" {
			t.Error("who asks for the head alone is let in")
		}
		if got := b.ask("GET", at, ""); got.status != 303 || got.header.Get("Location") != "/" {
			t.Errorf("the link is answered %d: %s", got.status, got.body)
		}
		if diff := cmp.Diff(want, b.ask("GET", "/", "").page); diff != "" {
			t.Errorf("the page knows (-want +got):\n%s", diff)
		}
		other := browse(t, r, nil)
		if got := other.ask("GET", at, ""); got.status != 401 || !strings.Contains(got.page.LoginError, "used already") || got.header.Get("Set-Cookie") != "" {
			t.Errorf("used again the link is answered %d, %q", got.status, got.page.LoginError)
		}
		if got := b.ask("POST", web.Prefix+"/logins", `{"role":"read"}`, "Content-Type", "application/json"); got.status != 403 {
			t.Errorf("a session makes a link: %d %s", got.status, got.body)
		}
		secret := at[len("/login?ticket="):]
		if strings.Contains(log.String(), secret) {
			t.Error("the log holds the ticket")
		}
	}
	// From a page of another site the browser sends no cookie on a redirect: it is sent on by a page.
	link, err := onSocket.Login(t.Context(), "read")
	if err != nil {
		t.Fatal(err)
	}
	at := strings.TrimPrefix(link.URL, r.url("http"))
	if got := browse(t, r, nil).ask("GET", at+"&next=/nodes", "", "Sec-Fetch-Site", "cross-site"); got.status != 200 || !strings.Contains(got.body, `url=/nodes"`) || got.header.Get("Set-Cookie") == "" {
		t.Errorf("from another site the link is answered %d: %s", got.status, got.body)
	}
	for _, role := range []string{"", "root"} {
		if _, err := onSocket.Login(t.Context(), role); !errors.Is(err, web.ErrInvalid) {
			t.Errorf("the role %q: %v", role, err)
		}
	}
}

func TestWhoMayMakeLoginLinksAndWhereTheyLead(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	cert, key := ca.issue("daemon", x509.ExtKeyUsageServerAuth)
	path := socket(t)
	r, _ := withDashboard(t, func(o *web.Options) { o.CertFile, o.KeyFile, o.Socket = cert, key, path })
	for _, test := range []struct {
		name     string
		endpoint web.Endpoint
		err      error
	}{
		{"token", web.Endpoint{URL: r.url("https"), TokenFile: r.opts.TokenFile, CAFile: ca.file}, nil},
		{"reading token", web.Endpoint{URL: r.url("https"), TokenFile: r.opts.ReadTokenFile, CAFile: ca.file}, web.ErrForbidden},
		{"nobody", web.Endpoint{URL: r.url("https"), CAFile: ca.file}, web.ErrUnauthorized},
		{"socket", web.Endpoint{Socket: path}, nil},
	} {
		link, err := client(t, test.endpoint).Login(t.Context(), "read")
		if !errors.Is(err, test.err) || err == nil && !strings.HasPrefix(link.URL, r.url("https")+"/login?ticket=") {
			t.Errorf("%s: the link is %q, %v; want %v", test.name, link.URL, err, test.err)
		}
	}
	alone := socket(t)
	serve(t, newFake(), web.Options{Socket: alone, Dashboard: aDashboard()})
	if _, err := client(t, web.Endpoint{Socket: alone}).Login(t.Context(), "read"); !errors.Is(err, web.ErrUnavailable) || !strings.Contains(err.Error(), "admin.listen") {
		t.Errorf("without an address the link is %v", err)
	}
	none := socket(t)
	serve(t, newFake(), web.Options{Socket: none, Listen: "127.0.0.1:0"})
	if _, err := client(t, web.Endpoint{Socket: none}).Login(t.Context(), "read"); !errors.Is(err, web.ErrUnavailable) {
		t.Errorf("without a dashboard the link is %v", err)
	}
}

// live opens the stream of a page, or of the API, and returns what comes of it at its end.
func (b *browser) live(path string, headers ...string) <-chan string {
	b.t.Helper()
	request, err := http.NewRequestWithContext(context.WithoutCancel(b.t.Context()), http.MethodGet, b.base+path, http.NoBody)
	if err != nil {
		b.t.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := b.http.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		b.t.Fatalf("the stream %s is answered %d", path, response.StatusCode)
	}
	ended := make(chan string, 1)
	go func() {
		raw, err := io.ReadAll(response.Body)
		ended <- fmt.Sprintf("%s%v", raw, err)
	}()
	return ended
}

func TestWhatATokenLetInEndsWithIt(t *testing.T) {
	t.Parallel()
	r, _ := withDashboard(t)
	old, reader := browse(t, r, nil), browse(t, r, nil)
	old.login(adminToken, "/")
	reader.login(readToken, "/")
	const events = web.Prefix + "/events?follow=true"
	ends := map[string]<-chan string{
		"page": old.live("/live"), "API by cookie": old.live(events), "API by token": browse(t, r, nil).live(events, "Authorization", "Bearer "+adminToken),
	}
	goOn := map[string]<-chan string{
		"page": reader.live("/live"), "API by token": browse(t, r, nil).live(events, "Authorization", "Bearer "+readToken),
	}
	if err := r.server.Reload(); err != nil { // nothing has changed
		t.Fatal(err)
	}
	if got := old.ask("GET", "/", ""); got.status != 200 {
		t.Errorf("after a reload that changes nothing the session is answered %d", got.status)
	}
	if err := os.WriteFile(r.opts.TokenFile, []byte("another-token-of-a-test"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.server.Reload(); err != nil {
		t.Fatal(err)
	}
	for name, ended := range ends {
		got := <-ended
		want := `"code":"unauthorized"`
		if name == "page" {
			want = "data: off"
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: the stream ends with %q; want %q", name, got, want)
		}
	}
	if got := old.ask("GET", "/", ""); got.status != 303 {
		t.Errorf("the session of a token that is gone is answered %d", got.status)
	}
	if got := reader.ask("GET", "/", ""); got.status != 200 {
		t.Errorf("the session of a token that stays is answered %d", got.status)
	}
	for name, ended := range goOn {
		select {
		case got := <-ended:
			t.Errorf("%s: the stream of a token that stays ended: %q", name, got)
		default:
		}
	}
	// The server's end, and a logout, end the others.
	reader.ask("POST", "/logout", "")
	if got := <-goOn["page"]; !strings.Contains(got, "data: off") {
		t.Errorf("after the logout the page's stream ends with %q", got)
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if got := <-goOn["API by token"]; !strings.Contains(got, "stopping") {
		t.Errorf("with the server the stream ends with %q", got)
	}
}

func TestAPagesStreamEndsWithTheServerAndWithItsSession(t *testing.T) {
	t.Parallel()
	r, _ := withDashboard(t)
	b := browse(t, r, nil)
	stream := b.live("/live", "Authorization", "Bearer "+adminToken)
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if got := <-stream; !strings.Contains(got, "data: off") {
		t.Errorf("with the server it ends with %q", got)
	}
	short, _ := withDashboard(t, func(o *web.Options) { o.SessionLife = 200 * 1e6 })
	b = browse(t, short, nil)
	b.login(adminToken, "/")
	if got := <-b.live("/live"); !strings.Contains(got, "data: off") {
		t.Errorf("with its session it ends with %q", got)
	}
}

func TestAnAddressThatNobodyAskedForIsDoneWithout(t *testing.T) {
	t.Parallel()
	taken := serve(t, newFake(), web.Options{Listen: "127.0.0.1:0"})
	log := newLog()
	r := serve(t, newFake(), web.Options{Socket: socket(t), Listen: taken.server.Addr().String(), ListenOptional: true, Log: log.logger()})
	if r.server.Addr() != nil || !strings.Contains(log.String(), "address already in use") {
		t.Errorf("it listens at %v; the log is\n%s", r.server.Addr(), log)
	}
	if _, err := client(t, web.Endpoint{Socket: r.opts.Socket}).Runs(t.Context()); err != nil {
		t.Errorf("the socket answers %v", err)
	}
	for _, o := range []web.Options{
		{Socket: socket(t), Listen: taken.server.Addr().String()},
		{Listen: taken.server.Addr().String(), ListenOptional: true},
	} {
		server, err := web.New(newFake(), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Listen(t.Context()); err == nil {
			_ = server.Close()
			t.Errorf("%+v listens at an address that is taken", o)
		}
	}
}
