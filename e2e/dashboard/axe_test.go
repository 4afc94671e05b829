package dashboard_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/talos-provision/provision/e2e/needs"
	"github.com/talos-provision/provision/provisioner/web/dashboard/dashboardtest"
)

// violation is what axe-core finds wrong with a page.
type violation struct {
	ID     string   `json:"id"`
	Impact string   `json:"impact"`
	Help   string   `json:"help"`
	Nodes  []string `json:"nodes"`
}

// audit has axe-core look at the page.
const audit = `axe.run(document, {resultTypes: ["violations"]}).then(r => JSON.stringify(r.violations.map(v =>
	({id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.map(n => n.html + " " + n.failureSummary).slice(0, 4)}))))`

func TestPagesAreForEverybody(t *testing.T) {
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(cache, "talos-provision", "axe", "axe.min.js"))
	if err != nil {
		needs.Lacking(t, "axe-core is missing: run e2e/deps.sh")
	}
	url := serveFixture(t, dashboardtest.New(dashboardtest.Fleet(dashboardtest.Size{Clusters: 2, Nodes: 120}, moment)), func() time.Time { return moment })
	p := newTab(t)
	p.size(1280, 900)
	// The script is a test's, and no part of the page: it may do what the page may not.
	command(p, page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true})
	for scheme, paths := range map[string][]string{
		"light": {
			"/", "/clusters/k8s-prod?sort=state", "/nodes/k8s-prod/node-10", "/nodes/k8s-prod/node-03", "/nodes/k8s-prod/node-04", "/unknown", "/collisions", "/inventory",
			"/runs", "/runs/20261130T203112Z-k8s-prod", "/login", "/nowhere",
		},
		"dark": {"/", "/clusters/k8s-prod?sort=state", "/nodes/k8s-prod/node-10", "/nodes/k8s-prod/node-03", "/login"},
	} {
		p.scheme(scheme)
		for _, path := range paths {
			p.open(url + path)
			p.do(chromedp.Evaluate[chromedp.Void](string(script)))
			var found []violation
			if err := json.Unmarshal([]byte(p.await(audit)), &found); err != nil {
				t.Fatal(err)
			}
			for _, v := range found {
				t.Errorf("%s, %s: %s (%s): %s\n%q", path, scheme, v.ID, v.Impact, v.Help, v.Nodes)
			}
		}
	}
	p.expect("404")
}
