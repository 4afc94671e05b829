package web_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
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
