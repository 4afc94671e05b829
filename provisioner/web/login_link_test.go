package web_test

import (
	"crypto/x509"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/provisioner/web"
)

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
