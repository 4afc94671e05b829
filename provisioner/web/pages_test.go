package web_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/talos-provision/provision/provisioner/web"
)

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
