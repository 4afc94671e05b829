package dashboard_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
	"github.com/talos-provision/provision/provisioner/web/dashboard"
)

func viewerWith(v dashboard.Viewer) func(context.Context) dashboard.Viewer {
	return func(context.Context) dashboard.Viewer { return v }
}

func TestFormsDoWhatTheySay(t *testing.T) {
	t.Parallel()
	p := serve(t, ofTwelve(), nil)
	act := func(path, form, then string) {
		t.Helper()
		response, body := p.do(http.MethodPost, path, form)
		if response.StatusCode != http.StatusSeeOther || response.Header.Get("Location") != then {
			t.Errorf("POST %s: status %d to %q, want 303 to %q\n%s", path, response.StatusCode, response.Header.Get("Location"), then, words(body))
		}
	}
	act("/nodes/k8s-prod/node-01/hold", url.Values{"reason": {"  a new disk "}}.Encode(), "/nodes/k8s-prod/node-01?done=held")
	holds, _ := p.control.Holds(t.Context())
	want := store.Hold{Cluster: "k8s-prod", Node: "node-01", Reason: "a new disk", By: "token", Since: moment}
	if diff := cmp.Diff(want, holds[len(holds)-1]); len(holds) != 2 || diff != "" {
		t.Errorf("the hold (-want +got):\n%s", diff)
	}
	// The page that follows shows it, however fresh the picture before was.
	if said := words(p.get("/nodes/k8s-prod/node-01?done=held")); !strings.Contains(said, "Held. No run touches this node") || !strings.Contains(said, "on hold a new disk by token") {
		t.Errorf("the page after a hold says: %s", said)
	}
	if said := words(p.get("/")); !strings.Contains(said, "On hold : 2 nodes") {
		t.Errorf("the overview after a hold says: %s", said)
	}
	act("/nodes/k8s-prod/node-01/release", "", "/nodes/k8s-prod/node-01?done=released")
	if holds, _ := p.control.Holds(t.Context()); len(holds) != 1 {
		t.Errorf("after the release there are %d holds, want the 1 of before", len(holds))
	}
	act("/runs/20261130T203112Z-k8s-prod/stop", "", "/runs/20261130T203112Z-k8s-prod?done=stopped")
	if diff := cmp.Diff([]string{"k8s-prod"}, p.control.Stopped()); diff != "" {
		t.Errorf("stopped (-want +got):\n%s", diff)
	}
	act("/inventory/reload", "", "/inventory?done=reload")
	if n := p.control.Reloads(); n != 1 {
		t.Errorf("%d reloads, want 1", n)
	}
}

func TestAnUpgradeIsStoppedWhereTheDaemonWorksOnIt(t *testing.T) {
	t.Parallel()
	data := ofTwelve()
	data.Upgrades = []web.UpgradeInfo{
		{ID: "u1", Cluster: "k8s-prod", Target: "v1.14.0", Started: moment, Active: true, By: "token"},
		{ID: "u2", Cluster: "k8s-stage", Target: "v1.14.0", Started: moment}, // another process does
	}
	p := serve(t, data, nil)
	for id, form := range map[string]bool{"u1": true, "u2": false} {
		if got := strings.Contains(p.get("/runs/"+id), `action="/runs/`+id+`/stop"`); got != form {
			t.Errorf("the page of %s has a form to stop it: %v", id, got)
		}
	}
	for id, want := range map[string]int{"u1": http.StatusSeeOther, "u2": http.StatusNotFound} {
		if response, _ := p.do(http.MethodPost, "/runs/"+id+"/stop", ""); response.StatusCode != want {
			t.Errorf("stop of %s: status %d, want %d", id, response.StatusCode, want)
		}
	}
	if diff := cmp.Diff([]string{"upgrade of k8s-prod"}, p.control.Stopped()); diff != "" {
		t.Errorf("stopped (-want +got):\n%s", diff)
	}
	if said := words(p.get("/runs/u1?done=halted")); !strings.Contains(said, "provision upgrade --cluster NAME --continue") {
		t.Errorf("the page after the stop says: %s", said)
	}
}

func TestFormsThatCannotBeMeantAreRefused(t *testing.T) {
	t.Parallel()
	p := serve(t, ofTwelve(), nil)
	for _, tc := range []struct {
		name, path, form string
		status           int
		says             string
	}{
		{"a hold without a reason", "/nodes/k8s-prod/node-01/hold", "reason=+++", 400, "a hold needs a reason"},
		{"a hold with a novel", "/nodes/k8s-prod/node-01/hold", "reason=" + strings.Repeat("a", 501), 400, "too long"},
		{"a form of a megabyte", "/nodes/k8s-prod/node-01/hold", "reason=" + strings.Repeat("a", 1<<20), 400, "cannot be read"},
		{"a release of what nobody holds", "/nodes/k8s-prod/node-01/release", "", 404, "nobody holds k8s-prod/node-01"},
		{"a stop of what is no run", "/runs/none/stop", "", 404, "not under way"},
		{"a form for no address", "/nodes", "", 405, "takes no forms"},
	} {
		response, body := p.do(http.MethodPost, tc.path, tc.form)
		if said := words(body); response.StatusCode != tc.status || !strings.Contains(said, tc.says) {
			t.Errorf("%s: status %d, want %d and %q: %s", tc.name, response.StatusCode, tc.status, tc.says, said)
		}
	}
	if holds, _ := p.control.Holds(t.Context()); len(holds) != 1 {
		t.Errorf("there are %d holds, want the 1 of before", len(holds))
	}
}

func TestWhoMayOnlyLookSeesNoFormsAndIsRefused(t *testing.T) {
	t.Parallel()
	p := serve(t, ofTwelve(), func(o *dashboard.Options) { o.Viewer = reader })
	for _, path := range every {
		_, body := p.do(http.MethodGet, path, "")
		if path != "/login" && strings.Contains(body, `method="post"`) {
			t.Errorf("%s has a form", path)
		}
	}
	if said := words(p.get("/")); !strings.Contains(said, "read token · read-only") {
		t.Errorf("the page does not say that one may only look: %s", said)
	}
	for _, path := range []string{"/nodes/k8s-prod/node-01/hold", "/nodes/k8s-prod/node-04/release", "/runs/20261130T203112Z-k8s-prod/stop", "/inventory/reload", "/nowhere"} {
		response, body := p.do(http.MethodPost, path, "reason=because")
		if response.StatusCode != http.StatusForbidden || !strings.Contains(words(body), "Your access is read-only") {
			t.Errorf("POST %s: status %d, want 403", path, response.StatusCode)
		}
	}
	holds, _ := p.control.Holds(t.Context())
	if len(holds) != 1 || holds[0].Since != moment.Add(-3*time.Hour) || len(p.control.Stopped()) > 0 || p.control.Reloads() > 0 {
		t.Error("something was done all the same")
	}
}
