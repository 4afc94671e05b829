package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner/web"
)

// A newcomer has no token: the command gives a link, and the browser is in.
func TestTheDashboardIsOpenedByALink(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 1})
	host, _, err := net.SplitHostPort(f.Controller())
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort(host, "9090")
	edit(t, f, "provision.yaml", "talos:\n", fmt.Sprintf("admin: {listen: '%s'}\ntalos:\n", address))
	provision(t, "dashboard", "--config", f.ConfigFile()).says(t, exitFailed, "no daemon answers", "provision serve")
	startDaemon(t, f)

	r := provision(t, "dashboard", "--config", f.ConfigFile())
	link := strings.TrimSpace(r.out)
	if r.status != exitDone || !strings.HasPrefix(link, "http://"+address+"/login?ticket=") || strings.Contains(r.err, "ticket=") {
		t.Fatalf("status %d: %s%s", r.status, r.out, r.err)
	}
	status, page := open(t, link)
	if status != http.StatusOK || !strings.Contains(page, "demo") || !strings.Contains(page, userName()) {
		t.Errorf("the link opens a page of status %d:\n%s", status, page)
	}
	if status, page := open(t, link); status != http.StatusUnauthorized || strings.Contains(page, "demo") {
		t.Errorf("used again, it opens a page of status %d:\n%s", status, page)
	}

	r = provision(t, "dashboard", "--read-only", "--config", f.ConfigFile(), "-o", "json")
	var got web.LoginLink
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || got.Role != "read" || time.Until(got.Expires) > time.Minute || time.Until(got.Expires) < 0 {
		t.Fatalf("the link is %+v, %v: %s", got, err, r.err)
	}
	status, page = open(t, got.URL)
	if status != http.StatusOK || !strings.Contains(page, "demo") {
		t.Errorf("the link opens a page of status %d:\n%s", status, page)
	}
}

// open opens a link as a browser does, and returns the page that it ends at.
func open(t *testing.T, link string) (status int, page string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar, Timeout: patience}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, link, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(raw)
}

func TestADaemonWithoutAnAddressSaysHowToOpenItsDashboard(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 1})
	startDaemon(t, f) // at its socket alone
	provision(t, "dashboard", "--config", f.ConfigFile()).says(t, exitFailed, "admin.listen", "127.0.0.1:9090")
}

func TestWhereTheAdminPlaneListens(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		config   adminConfig
		address  string
		optional bool
		err      string // "" when it is good
	}{
		{"nothing said", adminConfig{}, "127.0.0.1:9090", true, ""},
		{"off", adminConfig{Listen: "none"}, "", false, ""},
		{"on loopback", adminConfig{Listen: "127.0.0.1:9090"}, "127.0.0.1:9090", false, ""},
		{"elsewhere", adminConfig{Listen: ":9090", CertFile: "c", KeyFile: "k", TokenFile: "t"}, ":9090", false, ""},
		{"elsewhere in clear", adminConfig{Listen: ":9090", TokenFile: "t"}, ":9090", false, "reached from other hosts"},
		{"no address", adminConfig{Listen: "off"}, "off", false, "admin.listen off"},
		{"readers without an authority", adminConfig{Readers: []string{"alice"}}, "127.0.0.1:9090", true, "admin.clientCAFile"},
		{"admins without an authority", adminConfig{Listen: "none", Admins: []string{"alice"}}, "", false, "admin.clientCAFile"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if address, optional := test.config.address(); address != test.address || optional != test.optional {
				t.Errorf("it listens at %q, optional: %t; want %q, %t", address, optional, test.address, test.optional)
			}
			err := test.config.check()
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("the check says %v; want %q", err, test.err)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "provision.yaml")
	writeFile(t, file, "admin: {listen: '127.0.0.1:1'}\n")
	c, err := (&app{flags: flags{config: file}}).loadConfig()
	if err != nil || c.Admin.Listen != "127.0.0.1:1" {
		t.Errorf("the file says %q, %v", c.Admin.Listen, err)
	}
}
