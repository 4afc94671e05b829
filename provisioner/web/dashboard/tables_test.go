package dashboard_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/provisioner/web/dashboard/dashboardtest"
)

func TestTablesSortAndFilterByTheirAddress(t *testing.T) {
	t.Parallel()
	p := serve(t, ofTwelve(), nil)
	for _, tc := range []struct {
		path string
		want []string
	}{
		{"/clusters/k8s-stage", []string{"k8s-stage/node-01", "k8s-stage/node-02", "k8s-stage/node-03", "k8s-stage/node-04", "k8s-stage/node-05", "k8s-stage/node-06"}},
		{"/clusters/k8s-stage?dir=desc", []string{"k8s-stage/node-06", "k8s-stage/node-05", "k8s-stage/node-04", "k8s-stage/node-03", "k8s-stage/node-02", "k8s-stage/node-01"}},
		{"/clusters/k8s-stage?sort=state", []string{"k8s-stage/node-02", "k8s-stage/node-04", "k8s-stage/node-03", "k8s-stage/node-05", "k8s-stage/node-06", "k8s-stage/node-01"}},
		{"/clusters/k8s-prod?sort=since", []string{"k8s-prod/node-06", "k8s-prod/node-05", "k8s-prod/node-04", "k8s-prod/node-03", "k8s-prod/node-02", "k8s-prod/node-01"}},
		{"/nodes?show=failed", []string{"k8s-stage/node-02", "k8s-stage/node-04"}},
		{"/nodes?show=held", []string{"k8s-prod/node-05"}},
		{"/nodes?show=onhold", []string{"k8s-prod/node-04"}},
		{"/nodes?show=conflict", []string{"k8s-prod/node-02", "k8s-prod/node-03"}},
		{"/nodes?show=new", []string{"k8s-stage/node-01"}},
		{"/nodes?state=Booting", []string{"k8s-prod/node-04"}},
		{"/nodes?state=Failed&q=account", []string{"k8s-stage/node-02"}},
		{"/nodes?q=vm109s000009", []string{"k8s-stage/node-04"}},                                                              // a serial
		{"/nodes?q=0C:C4:7A:00:00:04", []string{"k8s-prod/node-05"}},                                                          // a MAC
		{"/nodes?q=10.30.0.9", []string{"k8s-stage/node-02"}},                                                                 // a BMC
		{"/nodes?q=k8s-prod/node-01", []string{"k8s-prod/node-01"}},                                                           // a name
		{"/nodes?q=no+such+thing", nil},                                                                                       // nothing
		{"/nodes?show=nonsense&sort=nonsense&page=-7&state=", allOf(12)},                                                      // what it does not know, it leaves out
		{"/nodes?page=99", allOf(12)},                                                                                         // the last page there is
		{"/nodes?page=99999999999999999999&dir=up&q=", allOf(12)},                                                             // no number
		{"/clusters/k8s-prod?q=rack%3Dr01&state=Ready", []string{"k8s-prod/node-01", "k8s-prod/node-02", "k8s-prod/node-03"}}, // a label
	} {
		if diff := cmp.Diff(tc.want, nodesIn(p.get(tc.path))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.path, diff)
		}
	}
}

func allOf(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("%s/node-%02d", []string{"k8s-prod", "k8s-stage"}[i/6], i%6+1))
	}
	return ids
}

func TestHeadsOfColumnsSayHowTheySort(t *testing.T) {
	t.Parallel()
	p := serve(t, ofTwelve(), nil)
	body := p.get("/clusters/k8s-prod?sort=state&q=node&page=1")
	for _, want := range []string{
		`<th scope="col" aria-sort="ascending"><a id="sort-state" href="/clusters/k8s-prod?dir=desc&amp;q=node&amp;sort=state">`, // the other way round
		`<a id="sort-since" href="/clusters/k8s-prod?q=node&amp;sort=since">`,                                                    // the filter is kept
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if n := strings.Count(body, "aria-sort"); n != 1 {
		t.Errorf("%d columns say that they are sorted, want 1", n)
	}
}

func TestAThousandNodesComeInPagesAndNoneIsLost(t *testing.T) {
	t.Parallel()
	p := serve(t, dashboardtest.Fleet(dashboardtest.Size{Clusters: 6, Nodes: 1000}, moment), nil)
	next := regexp.MustCompile(`rel="next" href="([^"]*)"`)
	var seen []string
	at := "/nodes?sort=message"
	for range 20 {
		body := p.get(at)
		if len(body) > 150_000 {
			t.Errorf("%s has %d bytes", at, len(body))
		}
		seen = append(seen, nodesIn(body)...)
		link := next.FindStringSubmatch(body)
		if link == nil {
			if !strings.Contains(words(body), "901–1,000, page 10 of 10") {
				t.Errorf("the last page says: %s", words(body))
			}
			break
		}
		at = strings.ReplaceAll(link[1], "&amp;", "&")
	}
	slices.Sort(seen)
	if unique := slices.Compact(slices.Clone(seen)); len(seen) != 1000 || len(unique) != 1000 {
		t.Errorf("the pages have %d nodes, %d of them different, want 1,000", len(seen), len(unique))
	}
	if body := p.get("/"); len(body) > 40_000 || !strings.Contains(words(body), "and 25 more") {
		t.Errorf("the overview has %d bytes", len(body))
	}
}

// Whatever an address asks for, the answer is a page, and quick.
func FuzzAddress(f *testing.F) {
	for _, seed := range []string{
		"/nodes?page=-1", "/nodes?sort=%00&dir=desc", "/clusters/%2e%2e", "/nodes/%2F/%2F", "/unknown?page=1e9", "/live?page=%2Flive%3Fpage%3D%2F", "/live?page=//x", "/live?page=%00",
		"/?done=x", "/runs/..", "/static/../dashboard.go", "/nodes?q=%ff%fe", "/login?next=//x",
	} {
		f.Add(seed)
	}
	handler := handlerOf(f, ofTwelve())
	f.Fuzz(func(t *testing.T, address string) {
		r, err := http.NewRequestWithContext(ended, http.MethodGet, address, nil)
		if err != nil || r.URL.Path == "" || r.URL.Path[0] != '/' {
			return
		}
		answer := answerOf(handler, r)
		if answer.Code >= 500 && answer.Code != 503 && answer.Code != 504 {
			t.Errorf("GET %q: status %d\n%s", address, answer.Code, answer.Body)
		}
		if strings.Contains(answer.Body.String(), "package dashboard") {
			t.Errorf("GET %q shows what is no file of the pages", address)
		}
	})
}
