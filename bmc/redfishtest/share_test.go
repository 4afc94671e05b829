package redfishtest_test

import (
	"errors"
	"net/http"
	"slices"
	"syscall"
	"testing"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

// served asks n times and tells which requests the fault acted on.
func served(t *testing.T, f redfishtest.Fault, n int) (hit []bool) {
	t.Helper()
	s := start(t, redfishtest.Config{})
	s.Inject(f)
	c := newClient(t, s)
	for range n {
		hit = append(hit, c.do("GET", systemPath, "").status == http.StatusServiceUnavailable)
	}
	return hit
}

func TestAShareOfTheRequestsIsHitNeverTwoInARow(t *testing.T) {
	t.Parallel()
	busy := redfishtest.RespondWith(redfishtest.Answer{Status: http.StatusServiceUnavailable, Header: map[string]string{"Retry-After": "1"}})
	const n = 400
	hits := served(t, redfishtest.Fault{Share: 0.25, Seed: 7, Action: busy}, n)
	count := 0
	for i, hit := range hits {
		if hit {
			count++
		}
		if hit && i > 0 && hits[i-1] {
			t.Fatalf("requests %d and %d were both hit", i-1, i)
		}
	}
	if count < n/8 || count > n*3/8 {
		t.Errorf("%d of %d requests were hit, want about a quarter", count, n)
	}
	if again := served(t, redfishtest.Fault{Share: 0.25, Seed: 7, Action: busy}, n); !slices.Equal(hits, again) {
		t.Error("the same seed hit other requests")
	}
	if other := served(t, redfishtest.Fault{Share: 0.25, Seed: 8, Action: busy}, n); slices.Equal(hits, other) {
		t.Error("another seed hit the same requests")
	}
}

func TestAnAnswerCarriesTheHeaderFieldsThatItWasGiven(t *testing.T) {
	t.Parallel()
	s := start(t, redfishtest.Config{})
	s.Inject(redfishtest.Fault{Action: redfishtest.RespondWith(redfishtest.Answer{Status: 503, Header: map[string]string{"Retry-After": "7"}})})
	if r := newClient(t, s).do("GET", systemPath, ""); r.status != 503 || r.header.Get("Retry-After") != "7" {
		t.Errorf("answer = %d, header %v", r.status, r.header)
	}
}

// What was asked is done, and the client sees a reset: before the body is
// whole, or before the head is.
func TestAnAnswerThatIsCutEndsInAReset(t *testing.T) {
	t.Parallel()
	s := start(t, redfishtest.Config{})
	s.Inject(redfishtest.Fault{Times: 2, Action: redfishtest.CutAnswer()})
	c := newClient(t, s)
	if r := c.do("GET", systemPath, ""); !errors.Is(r.err, syscall.ECONNRESET) {
		t.Errorf("a GET was answered %d %s, error %v, want a reset", r.status, r.body, r.err)
	}
	r := c.do("POST", resetPath("1"), resetBody("On"))
	if !errors.Is(r.err, syscall.ECONNRESET) {
		t.Errorf("a power-on was answered %d, error %v, want a reset", r.status, r.err)
	}
	if s.PowerState() != "On" || s.PowerOns() != 1 {
		t.Errorf("power %s after %d power-ons, want On after 1", s.PowerState(), s.PowerOns())
	}
	if r := c.do("GET", systemPath, ""); r.status != http.StatusOK {
		t.Errorf("afterwards: status %d, error %v", r.status, r.err)
	}
}
