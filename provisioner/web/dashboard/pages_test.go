package dashboard_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
	"github.com/talos-provision/provision/provisioner/web/dashboard"
	"github.com/talos-provision/provision/provisioner/web/dashboard/dashboardtest"
)

// every are all pages of the fleet of twelve.
var every = []string{
	"/", "/nodes", "/nodes?q=zzz", "/clusters/k8s-prod", "/nodes/k8s-prod/node-03", "/nodes/k8s-stage/node-04", "/nodes/k8s-stage/node-01", "/unknown",
	"/collisions", "/inventory", "/runs", "/runs/20261130T203112Z-k8s-prod", "/runs/upgrade-1", "/login", "/nowhere",
}

// upgraded adds an upgrade to a fleet.
func upgraded(data dashboardtest.Data) dashboardtest.Data {
	data.Upgrades = []web.UpgradeInfo{{
		ID: "upgrade-1", Cluster: "k8s-stage", Target: "v1.14.0", Started: moment.Add(-1e12), Nodes: []web.UpgradeNode{
			{Node: "node-01", Role: "controlplane", State: "Upgraded", From: "v1.13.9", Since: moment},
			{Node: "node-02", State: "Draining", From: "v1.13.9", Since: moment, Message: "3 pods are left"},
		},
	}}
	return data
}

func TestEachPageSaysWhatIsKnown(t *testing.T) {
	t.Parallel()
	p := serve(t, upgraded(ofTwelve()), nil)
	for path, want := range map[string][]string{
		"/": {
			"12 nodes", "✕ 2 failed", "‖ 1 held", "○ 1 not run yet", "Failed : 2 nodes", "k8s-stage/node-04 no DHCP request of this machine", "In conflict : 2 nodes",
			"On hold : 1 node", "memory is being replaced, ticket 4711 (user alice)", "2 machines asked for a boot script", "✓ works state the state store answers", "provision v1.2.3",
			"k8s-prod : installation, since 2026-11-30 20:35:00 UTC 55 min ago",
		},
		"/clusters/k8s-prod":        {"Fleet k8s-prod", "6 nodes", "node-05 ‖ Held", "a Talos with a machine config answers at 10.20.0.17", "10.20.0.6", "on hold", "installation under way"},
		"/nodes/k8s-stage/node-04":  {"✕ Failed since 2026-11-30 21:24:07 UTC 5 min ago", "no DHCP seen: no DHCP request of this machine within 15 minutes", "What to do: check that the node's first network port", "Power cycles in this run 2", "k8s-stage/node-04.yaml", "It has not asked for one."},
		"/nodes/k8s-prod/node-03":   {"BMC : it is the node's machine: board serial VM102S000002 agrees", "Serial VM102S000002 S166000000 S166000000 S166000000 = equal to its board serial", "Talos version v1.13.9 – – v1.13.9 = equal", "is claimed by k8s-prod/node-02 and k8s-prod/node-03", "Told to install : its run waits for it", "#!ipxe # node-03 of k8s-prod kernel http://10.20.0.1:8080/assets", "21:27:45 ◐ Booting asked for its boot script", "Hold this node"},
		"/nodes/k8s-prod/node-04":   {"on hold memory is being replaced, ticket 4711 by user alice, 2026-11-30 18:30:00 UTC 3 h 0 min ago", "Release this node"},
		"/unknown":                  {"S166009911", "52:54:00:12:34:56", "Asked 3 times, last from 10.20.9.88", "serial: S166009911 boardSerial: VM177S009911 uuid: 7a1effff-0000-4000-8000-0cc47affff01", "install: false"},
		"/collisions":               {"board serial VM101S000001 ‖ 2 frozen k8s-prod/node-02 k8s-prod/node-03", "serial S166000000 ✓ told apart k8s-prod/node-01"},
		"/inventory":                {"/etc/provision/nodes", "9b1f6c2d0a47", "Marked install: true 12", "Look at it now"},
		"/runs":                     {"20261130T203112Z-k8s-prod k8s-prod installation ◐ under way", "upgrade-1 k8s-stage upgrade to v1.14.0 ◐ under way", "user root"},
		"/runs/upgrade-1":           {"Upgrade of k8s-stage", "node-02 ◐ Draining 21:30:00", "3 pods are left", "v1.13.9"},
		"/login":                    {"Sign in", "Token"},
		"/nodes?q=0c:c4:7a:00:00:0": {"12 nodes", "node-05"},
	} {
		said := unescaped(words(p.get(path)))
		for _, text := range want {
			if !strings.Contains(said, text) {
				t.Errorf("%s does not say %q; it says:\n%s", path, text, said)
			}
		}
	}
	if said := p.get("/runs/upgrade-1"); strings.Contains(said, "/stop") {
		t.Error("the daemon does not work on the upgrade, and its page has a form to stop it")
	}
	if said := words(p.get("/nodes/k8s-stage/node-04")); strings.Contains(said, "Address 10.20.0.11 – – 10.20.0.11") {
		t.Error("the address of a node whose Talos never answered is said to be Talos'")
	}
}

func unescaped(s string) string {
	return strings.NewReplacer("&#39;", "'", "&#34;", `"`, "&amp;", "&", "&lt;", "<", "&gt;", ">", "&#43;", "+").Replace(s)
}

func TestAnInventoryThatIsRefusedIsShownByFileAndLine(t *testing.T) {
	t.Parallel()
	p := serve(t, dashboardtest.Fleet(dashboardtest.Size{Clusters: 6, Nodes: 1000}, moment), nil)
	said := words(p.get("/inventory"))
	for _, want := range []string{"The newest inventory is refused", "k8s-prod/node-017.yaml:3:5 error ip : 10.20.0.17 is the address of k8s-prod/node-016 too"} {
		if !strings.Contains(said, want) {
			t.Errorf("the page does not say %q: %s", want, said)
		}
	}
	if said := words(p.get("/")); !strings.Contains(said, "Refused : the newest inventory is not used") {
		t.Errorf("the overview says nothing of it: %s", said)
	}
}

func TestAnEmptyFleetSaysHowToBegin(t *testing.T) {
	t.Parallel()
	p := serve(t, dashboardtest.Data{}, nil)
	for path, want := range map[string]string{
		"/": "Put a file for each server into the inventory", "/nodes": "No node is so.", "/runs": "There was no run yet", "/unknown": "None has asked yet", "/collisions": "No value is shown by two nodes",
	} {
		if said := words(p.get(path)); !strings.Contains(said, want) {
			t.Errorf("%s does not say %q: %s", path, want, said)
		}
	}
}

// The policy that is sent with each page forbids all of it; a browser would then leave it out.
func TestNoPageHasAnythingInline(t *testing.T) {
	t.Parallel()
	p := serve(t, upgraded(ofTwelve()), nil)
	inline := regexp.MustCompile(`(?i)<[^>]*\s(style|on[a-z]+|hx-on[^=]*)=|<style|<script(\s+defer)?>|javascript:`)
	ids := regexp.MustCompile(`\sid="([^"]*)"`)
	for _, path := range every {
		_, body := p.do(http.MethodGet, path, "")
		if found := inline.FindString(body); found != "" {
			t.Errorf("%s has %q", path, found)
		}
		seen := map[string]bool{}
		for _, m := range ids.FindAllStringSubmatch(body, -1) {
			if seen[m[1]] {
				t.Errorf("%s has two elements with the id %s", path, m[1])
			}
			seen[m[1]] = true
		}
		for _, want := range []string{`<html lang="en">`, `href="#main"`, `<main id="main"`, "<h1>"} {
			if !strings.Contains(body, want) {
				t.Errorf("%s has no %s", path, want)
			}
		}
		for _, table := range strings.Split(body, "<table")[1:] {
			if table, _, _ = strings.Cut(table, "</thead>"); !strings.Contains(table, "<caption") || !strings.Contains(table, `scope="col"`) {
				t.Errorf("%s has a table without a caption, or heads without a scope: %s", path, table)
			}
		}
	}
}

// hostile is what a machine may send to harm whoever looks at it.
const hostile = "A<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202e\u2066gpj.exe\x1b[31m\r\ndata: evil\rdata: evil"

func TestWhatMachinesSendIsHarmless(t *testing.T) {
	t.Parallel()
	data := ofTwelve()
	long := strings.Repeat("P", 10_000)
	data.Unknown = append(data.Unknown, store.Unknown{Seen: moment, Times: 1, Source: hostile, Facts: identity.Facts{Serial: hostile, UUID: hostile, MACs: []string{hostile}}, Manufacturer: hostile, Product: long, Reason: hostile})
	for i := range data.Nodes {
		n := &data.Nodes[i]
		n.Message, n.Hint, n.Vendor, n.Model, n.Facts.Serial, n.Address, n.TalosVersion = hostile, hostile, hostile, long, hostile, hostile, hostile
		if n.Error != "" {
			n.Error = hostile
		}
		b := data.Boots[n.Cluster+"/"+n.Name]
		b.Product, b.Source, b.Script, b.Reason = long, hostile, "#!ipxe\n"+hostile, hostile
		data.Boots[n.Cluster+"/"+n.Name] = b
	}
	for i := range data.Events {
		data.Events[i].Message = hostile
	}
	data.Collisions[0].Value, data.Holds[0].Reason = hostile, hostile
	p := serve(t, data, nil)
	for _, file := range regexp.MustCompile(`(?s)<pre.*?</pre>`).FindAllString(p.get("/unknown"), -1) {
		if strings.Contains(file, "\ndata: evil") {
			t.Errorf("what a machine sent begins a line of its own in an inventory file: %s", file)
		}
	}
	check := func(where, body string) {
		t.Helper()
		for _, bad := range []string{"<script>a", "<img", long} {
			if strings.Contains(body, bad) {
				t.Errorf("%s holds %.40q", where, bad)
			}
		}
		// A script and an inventory file are shown word for word; everything else without what turns text around.
		shown := regexp.MustCompile(`(?s)<pre.*?</pre>`).ReplaceAllString(body, "")
		if strings.ContainsAny(shown, "\u202e\u2066\x1b") {
			t.Errorf("%s turns the text around", where)
		}
		if len(body) > 200_000 {
			t.Errorf("%s has %d bytes", where, len(body))
		}
	}
	for _, path := range every {
		_, body := p.do(http.MethodGet, path, "")
		check(path, body)
	}
	for _, path := range []string{"/", "/clusters/k8s-prod", "/nodes/k8s-prod/node-03", "/unknown", "/collisions"} {
		m := p.follow(path).next() // its reader fails on a line that is none of ours
		check("the stream of "+path, m)
		if !strings.Contains(m, "&lt;script&gt;") {
			t.Errorf("the stream of %s shows nothing of it", path)
		}
	}
}

func TestAnAddressDoesNotSpeakThroughThePage(t *testing.T) {
	t.Parallel()
	p := serve(t, ofTwelve(), nil)
	for _, path := range []string{
		"/nodes?q=%3Cscript%3Ealert(1)%3C/script%3E", "/?done=%3Cscript%3Ealert(1)", "/login?next=%22%3E%3Cscript%3Ealert(1)", "/%3Cscript%3Ealert(1)",
		"/clusters/%3Cscript%3Ealert(1)", "/runs/%3Cscript%3Ealert(1)", "/nodes/a/%3Cscript%3Ealert(1)", "/nodes?state=%3Cscript%3Ealert(1)&sort=%3Cscript%3Ealert(1)",
	} {
		if _, body := p.do(http.MethodGet, path, ""); strings.Contains(body, "<script>alert") {
			t.Errorf("%s comes back as it is", path)
		}
	}
	for next, want := range map[string]string{
		"/nodes?q=a%26b": `value="/nodes?q=a&amp;b"`, "//evil.example": `value="/"`, "https://evil.example": `value="/"`, "/\\evil.example": `value="/"`, "": `value="/"`,
	} {
		if body := p.get("/login?next=" + next); !strings.Contains(body, `name="next" `+want) {
			t.Errorf("after a login with next=%s one goes elsewhere than %s", next, want)
		}
	}
}

func TestErrorsArePagesWithTheirStatus(t *testing.T) {
	t.Parallel()
	p := serve(t, ofTwelve(), nil)
	for path, want := range map[string]int{
		"/nowhere": 404, "/clusters/none": 404, "/nodes/k8s-prod/none": 404, "/runs/none": 404, "/static/none.css": 404, "/live?page=/nowhere": 404, "/live?page=http://x/": 400, "/live?page=/live": 400, "/live?page=/login": 404, "/live": 404,
	} {
		response, body := p.do(http.MethodGet, path, "")
		if response.StatusCode != want {
			t.Errorf("GET %s: status %d, want %d", path, response.StatusCode, want)
		}
		if want == 404 && !strings.HasPrefix(path, "/static") && !strings.HasPrefix(path, "/live") && !strings.Contains(body, "There is nothing here") {
			t.Errorf("GET %s is no page: %s", path, body)
		}
	}
	for _, tc := range []struct {
		err    error
		status int
		says   string
	}{
		{web.Unavailable(errors.New("etcd is out of reach"), "wait for it"), 503, "Not available now etcd is out of reach What to do: wait for it."},
		{errors.New("the disk is torn"), 500, "the disk is torn"},
	} {
		p.control.Change(func(d *dashboardtest.Data) { d.Err = tc.err }, store.Event{})
		until(t, "the page to fail", func() bool { r, _ := p.do(http.MethodGet, "/", ""); return r.StatusCode == tc.status })
		if _, body := p.do(http.MethodGet, "/", ""); !strings.Contains(words(body), tc.says) {
			t.Errorf("the page does not say %q: %s", tc.says, words(body))
		}
		p.control.Change(func(d *dashboardtest.Data) { d.Err = nil }, store.Event{})
	}
}

func TestALoginThatFailedSaysWhy(t *testing.T) {
	t.Parallel()
	p := serve(t, ofTwelve(), func(o *dashboard.Options) {
		o.Viewer = viewerWith(dashboard.Viewer{LoginError: "This is not the daemon's token."})
	})
	body := p.get("/login")
	if !strings.Contains(body, `role="alert"`) || !strings.Contains(unescaped(words(body)), "This is not the daemon's token.") || !strings.Contains(body, `aria-invalid="true"`) {
		t.Errorf("the page does not say why: %s", words(body))
	}
	if strings.Contains(body, "k8s-prod") || strings.Contains(body, "<nav") {
		t.Error("who is not signed in sees something of the fleet")
	}
}

func TestFilesOfOthersAreUnchanged(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("static/vendor/VERSIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (\S+\.js) \| (\S+) \| (\S+) \| ([0-9a-f]{64}) \|$`).FindAllStringSubmatch(string(list), -1)
	if len(rows) != 2 {
		t.Fatalf("VERSIONS.md names %d files, want 2", len(rows))
	}
	for _, row := range rows {
		content, err := os.ReadFile("static/vendor/" + row[1])
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != row[4] {
			t.Errorf("%s is not the file of %s %s: its sum is %x", row[1], row[2], row[3], sum)
		}
	}
}

func TestFilesAreKeptByBrowsersForAsLongAsTheyAreTheSame(t *testing.T) {
	t.Parallel()
	p := serve(t, dashboardtest.Data{}, nil)
	links := regexp.MustCompile(`(?:src|href)="(/static/[^"]*)"`).FindAllStringSubmatch(p.get("/"), -1)
	if len(links) != 5 {
		t.Fatalf("a page refers to %d files, want 5", len(links))
	}
	kinds := map[string]string{".css": "text/css; charset=utf-8", "s?v": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
	for _, link := range links {
		response, body := p.do(http.MethodGet, strings.ReplaceAll(link[1], "&amp;", "&"), "")
		if got := response.Header.Get("Cache-Control"); response.StatusCode != http.StatusOK || got != "public, max-age=31536000, immutable" || body == "" {
			t.Errorf("%s: status %d, %s", link[1], response.StatusCode, got)
		}
		kind := response.Header.Get("Content-Type")
		known := false
		for part, want := range kinds {
			known = known || strings.Contains(link[1], part) && kind == want
		}
		if !known {
			t.Errorf("%s is served as %s", link[1], kind)
		}
		plain, _, _ := strings.Cut(link[1], "?")
		if response, _ := p.do(http.MethodGet, plain+"?v=old", ""); response.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s of another version is kept", plain)
		}
	}
}
