package dashboard_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/talos-provision/provision/e2e/fleet"
)

// signIn signs in with a token, and says with which status it ended.
func (p *tab) signIn(url, token string) int {
	p.t.Helper()
	p.open(url + "/login")
	return p.follow(chromedp.SendKeys(chromedp.CSS("#token"), token+"\r"))
}

// One daemon and one fleet serve all of it: each part leaves them as the next may find them.
func TestDashboardOfARealDaemon(t *testing.T) {
	d := startDaemon(t, fleet.Config{
		Nodes: 6, PowerLag: 300 * time.Millisecond, POST: 700 * time.Millisecond, KernelTime: 800 * time.Millisecond,
		Adjust: func(m *fleet.Machine) {
			if m.Name == "node-02" {
				m.Password = "another-password"
			}
		},
	})
	for _, part := range []struct {
		name string
		run  func(*testing.T, *daemon)
	}{
		{"signing in and out", signingInAndOut},
		{"a run is followed", aRunIsFollowed},
		{"every page", everyPage},
		{"without JavaScript", withoutJavaScript},
		{"by keyboard", byKeyboard},
		{"who may only look", whoMayOnlyLook},
		{"a daemon that restarts", aDaemonThatRestarts},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, d) })
	}
}

func signingInAndOut(t *testing.T, d *daemon) {
	p := newTab(t)
	if status := p.open(d.url + "/clusters/demo?sort=state"); status != http.StatusOK || !strings.HasSuffix(p.location(), "/login?next=%2Fclusters%2Fdemo%3Fsort%3Dstate") {
		t.Fatalf("who is not known gets status %d at %s", status, p.location())
	}
	if status := p.follow(chromedp.SendKeys(chromedp.CSS("#token"), "wrong-token-of-the-tests\r")); status != http.StatusUnauthorized {
		t.Errorf("a wrong token: status %d, want 401", status)
	}
	if said := p.text("[role=alert]"); !strings.Contains(said, "This is not the daemon's token") {
		t.Errorf("a wrong token: the page says %q", said)
	}
	p.expect("401")
	if status := p.follow(chromedp.SendKeys(chromedp.CSS("#token"), adminToken+"\r")); status != http.StatusOK || p.location() != d.url+"/clusters/demo?sort=state" {
		t.Fatalf("the right token: status %d at %s", status, p.location())
	}
	if said := p.text(".who"); said != "Signed in as token Sign out" {
		t.Errorf("who is signed in is shown as %q", said)
	}
	cookies := command(p, network.GetCookies, network.GetCookiesParams{URLs: []string{d.url + "/"}}).Cookies
	if len(cookies) != 1 || cookies[0].Name != "provision_session" || !cookies[0].HTTPOnly || cookies[0].SameSite != network.CookieSameSiteStrict || !cookies[0].Session || strings.Contains(cookies[0].Value, adminToken) {
		t.Errorf("the cookies are %+v", cookies)
	}
	p.live()
	if status := p.follow(chromedp.Click(chromedp.CSS(".who button"))); status != http.StatusOK || p.location() != d.url+"/login" {
		t.Errorf("signed out: status %d at %s", status, p.location())
	}
	if p.open(d.url + "/"); p.location() != d.url+"/login" {
		t.Errorf("after signing out one is at %s", p.location())
	}
}

func aRunIsFollowed(t *testing.T, d *daemon) {
	p, overview := newTab(t), newTab(t)
	p.signIn(d.url, adminToken)
	overview.signIn(d.url, adminToken)
	p.open(d.url + "/clusters/demo")
	p.live()
	overview.live()
	value[bool](p, `(window.mark = true)`) // a page that is loaded anew loses it
	value[bool](p, `(document.querySelector('tr[data-node="demo/node-01"] a').focus(), true)`)
	run := d.begin()
	row := func(node string) string {
		return fmt.Sprintf(`document.querySelector('tr[data-node="demo/%s"]').innerText`, node)
	}
	p.until("a node to boot", row("node-01")+`.includes("Booting") || `+row("node-01")+`.includes("PowerCycled")`)
	overview.until("the overview to show the run", `document.getElementById("running").innerText.includes("demo")`)
	p.until("a node to fail", row("node-02")+`.includes("Failed")`)
	for _, node := range []string{"node-01", "node-03", "node-04", "node-05", "node-06"} {
		p.until(node+" to be up", row(node)+`.includes("Maintenance")`)
	}
	overview.until("the overview to say that one failed", `document.getElementById("alerts").innerText.includes("demo/node-02")`)
	overview.until("the run to be over", `document.getElementById("running").hidden`)
	if !value[bool](p, `window.mark === true`) {
		t.Error("the page was loaded anew")
	}
	if got := value[string](p, `document.activeElement.textContent.trim()`); got != "node-01" {
		t.Errorf("the row was changed under who stands on it, and the focus is on %.60q", got)
	}
	// What arrived piece by piece is what a page that is loaded now shows.
	followed := p.text("#node-rows")
	p.open(d.url + "/clusters/demo")
	if loaded := p.text("#node-rows"); withoutAges(loaded) != withoutAges(followed) {
		t.Errorf("followed:\n%s\nloaded:\n%s", followed, loaded)
	}
	p.open(d.url + "/runs/" + run.ID)
	if said := p.text("main"); !strings.Contains(said, "✓ ended") || !strings.Contains(said, "1 failed") || !strings.Contains(said, "5 in maintenance") {
		t.Errorf("the page of the run says: %s", said)
	}
}

// withoutAges leaves out the times that pass by themselves.
func withoutAges(text string) string {
	words := strings.Fields(text)
	for i, w := range words {
		if w == "ago" && i >= 2 {
			words[i-1], words[i-2] = "", ""
		}
	}
	return strings.Join(words, " ")
}

func everyPage(t *testing.T, d *daemon) {
	p := newTab(t)
	p.signIn(d.url, adminToken)
	runs, err := d.Runs(t.Context())
	if err != nil || len(runs) == 0 {
		t.Fatalf("runs: %v, %v", runs, err)
	}
	for _, scheme := range []string{"light", "dark"} {
		p.scheme(scheme)
		for path, want := range map[string]string{
			"/": "6 nodes", "/nodes": "demo/node-06", "/clusters/demo": "node-06", "/nodes/demo/node-01": "#!ipxe", "/nodes/demo/node-02": "BMC authentication", "/unknown": "Unknown machines",
			"/collisions": "told apart", "/inventory": "In use", "/runs": "demo", "/runs/" + runs[0].ID: "node-06",
		} {
			if status := p.open(d.url + path); status != http.StatusOK {
				t.Errorf("%s: status %d", path, status)
			}
			if said := p.text("main"); !strings.Contains(said, want) {
				t.Errorf("%s does not say %q: %s", path, want, said)
			}
			p.live()
			p.readable(path, scheme)
		}
	}
	p.open(d.url + "/nodes/demo/node-01")
	p.live() // the first update brings all of the page once more
	p.do(chromedp.Click(chromedp.CSS(".copy")))
	p.until("the script to be copied, or selected", `["Copied", "Selected"].includes(document.querySelector(".copy").textContent)`)
	for path, want := range map[string]string{"/nowhere": "There is nothing here", "/nodes/demo/none": "There is nothing here"} {
		if status := p.open(d.url + path); status != http.StatusNotFound || !strings.Contains(p.text("main"), want) {
			t.Errorf("%s: status %d: %s", path, status, p.text("main"))
		}
		p.expect("404")
	}
	for _, width := range []int64{320, 640} { // 640 is also 1280 at twice the size
		p.size(width, 800)
		for _, path := range []string{"/", "/clusters/demo", "/nodes/demo/node-02", "/unknown"} {
			p.open(d.url + path)
			if wide := value[int64](p, `document.documentElement.scrollWidth`); wide > width {
				t.Errorf("%s is %d wide in a window of %d", path, wide, width)
			}
		}
	}
}

// readable holds the text of the page against its ground.
func (p *tab) readable(path, scheme string) {
	p.t.Helper()
	dark := value[bool](p, `(() => { const c = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number); return c[0] + c[1] + c[2] < 200; })()`)
	if dark != (scheme == "dark") {
		p.t.Errorf("%s: who wants it %s gets a dark page: %t", path, scheme, dark)
	}
}

func withoutJavaScript(t *testing.T, d *daemon) {
	p := newTab(t)
	command(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	if status := p.signIn(d.url, adminToken); status != http.StatusOK {
		t.Fatalf("signing in: status %d", status)
	}
	p.open(d.url + "/clusters/demo")
	if said := p.text("#live"); !strings.HasPrefix(said, "Not live, as of 20") {
		t.Errorf("the page says of itself: %q", said)
	}
	p.follow(chromedp.SendKeys(chromedp.CSS("#f-q"), "node-02\r"))
	if said := p.text("#node-rows"); !strings.Contains(said, "node-02") || strings.Contains(said, "node-01") {
		t.Errorf("filtered, the table is %q", said)
	}
	p.open(d.url + "/clusters/demo")
	p.follow(chromedp.Click(chromedp.CSS("#sort-state")))
	if said := p.text("#node-rows"); !strings.HasPrefix(said, "node-02") {
		t.Errorf("sorted by state, the table is %q", said)
	}
	p.open(d.url + "/nodes/demo/node-03")
	if !value[bool](p, `document.querySelector(".copy").hidden`) {
		t.Error("a button that does nothing is shown")
	}
	p.do(chromedp.Click(chromedp.CSS(".acts summary")))
	p.follow(chromedp.SendKeys(chromedp.CSS("#reason"), "a new disk\r"))
	if said := p.text("main"); !strings.Contains(said, "Held. No run touches") || !strings.Contains(said, "on hold a new disk by token") {
		t.Errorf("after the hold the page says: %s", said)
	}
	p.follow(chromedp.Click(chromedp.CSS(".acts button")))
	if holds, err := d.Holds(t.Context()); err != nil || len(holds) != 0 {
		t.Errorf("after the release there are the holds %v, %v", holds, err)
	}
}

// byKeyboard uses no mouse: it holds a node and releases it again.
func byKeyboard(t *testing.T, d *daemon) {
	p := newTab(t)
	p.signIn(d.url, adminToken)
	p.open(d.url + "/clusters/demo")
	key := func(keys string) { t.Helper(); p.do(chromedp.KeyEvent(keys)) }
	focus := func() string {
		return value[string](p, `document.activeElement.textContent.trim() || document.activeElement.id`)
	}
	key("\t")
	if got := focus(); got != "Skip to the content" {
		t.Fatalf("the first stop is %q", got)
	}
	if !value[bool](p, `document.activeElement.getBoundingClientRect().top >= 0 && getComputedStyle(document.activeElement).outlineStyle !== "none"`) {
		t.Error("the skip link is not seen when it has the focus")
	}
	key("\r")
	p.until("the content to have the focus", `document.activeElement.id === "main"`)
	to := func(wanted string) {
		t.Helper()
		for range 40 {
			if focus() == wanted {
				return
			}
			key("\t")
		}
		t.Fatalf("%q is not reached by the Tab key", wanted)
	}
	to("node-04")
	p.follow(chromedp.KeyEvent("\r"))
	if got := p.text("h1"); got != "node-04" {
		t.Fatalf("the Enter key leads to %q", got)
	}
	to("Hold this node…")
	key("\r")
	to("reason")
	p.follow(chromedp.KeyEvent("a new disk\r"))
	if said := p.text("main"); !strings.Contains(said, "on hold a new disk by token") {
		t.Fatalf("after the hold the page says: %s", said)
	}
	to("Release this node")
	p.follow(chromedp.KeyEvent("\r"))
	if said := p.text("main"); !strings.Contains(said, "Released.") {
		t.Errorf("after the release the page says: %s", said)
	}
}

func whoMayOnlyLook(t *testing.T, d *daemon) {
	p := newTab(t)
	if status := p.signIn(d.url, readToken); status != http.StatusOK {
		t.Fatalf("signing in: status %d", status)
	}
	for _, path := range []string{"/nodes/demo/node-01", "/inventory", "/clusters/demo"} {
		p.open(d.url + path)
		if n := value[int](p, `document.querySelectorAll('form[method=post]:not([action="/logout"])').length`); n != 0 {
			t.Errorf("%s has %d forms", path, n)
		}
		if said := p.text(".who"); said != "Signed in as read token · read-only Sign out" {
			t.Errorf("who is signed in is shown as %q", said)
		}
		p.live()
	}
	status := p.await(`fetch("/nodes/demo/node-01/hold", {method: "POST", body: new URLSearchParams({reason: "because"})}).then(r => String(r.status))`)
	if status != "403" {
		t.Errorf("a hold by who may only look: status %s, want 403", status)
	}
	p.expect("403")
	if holds, err := d.Holds(t.Context()); err != nil || len(holds) != 0 {
		t.Errorf("there are the holds %v, %v", holds, err)
	}
}

// await evaluates a promise of a string.
func (p *tab) await(expression string) string {
	p.t.Helper()
	ctx, cancel := p.within()
	defer cancel()
	s, err := chromedp.Run(ctx, chromedp.Evaluate[string](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("evaluate %s: %v", expression, err)
	}
	return s
}

func (p *tab) location() string {
	p.t.Helper()
	return value[string](p, `location.href`)
}

func aDaemonThatRestarts(t *testing.T, d *daemon) {
	p := newTab(t)
	p.signIn(d.url, adminToken)
	p.open(d.url + "/clusters/demo")
	p.live()
	d.stop()
	p.until("the page to say that it is cut off", `document.getElementById("live").dataset.state === "cut"`)
	if said := p.text("#live"); !strings.HasPrefix(said, "Not live, reconnecting") {
		t.Errorf("the page says of itself: %q", said)
	}
	d.start()
	// Sessions end with the daemon: one signs in again, in any tab.
	p.signIn(d.url, adminToken)
	p.open(d.url + "/clusters/demo")
	p.live()
	p.expect("") // the browser tells of the connections that failed
}
