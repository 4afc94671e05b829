package bmc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

// tally counts exchanges by "operation outcome".
type tally struct {
	mu  sync.Mutex
	all map[string]int
	sum time.Duration
}

func (t *tally) count(e Exchange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[string]int{}
	}
	t.all[fmt.Sprintf("%s %s", e.Operation, e.Outcome)]++
	t.sum += e.Duration
}

func (t *tally) total() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, count := range t.all {
		n += count
	}
	return n
}

// Every request that a BMC saw is told once, by its operation and what came of it.
func TestEveryRequestToABMCIsTold(t *testing.T) {
	t.Parallel()
	s := service(t, redfishtest.Config{})
	s.Inject(redfishtest.Fault{Method: http.MethodPatch, Times: 1, Action: redfishtest.Respond(http.StatusInternalServerError, "")})
	told := &tally{}
	cfg := configFor(t, s)
	cfg.OnRequest = told.count
	c, err := Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, errIdentify := c.Identify(t.Context())
	_, errArm := c.ArmNetworkBoot(t.Context())
	if err := errors.Join(errIdentify, errArm, c.PowerOn(t.Context()), c.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	if saw := len(s.Requests()); told.total() != saw {
		t.Errorf("%d requests were told, the BMC saw %d", told.total(), saw)
	}
	for what, count := range map[string]int{"session ok": 2, "boot server error": 1, "power ok": 1} {
		if told.all[what] != count {
			t.Errorf("%q was told %d times, want %d: %v", what, told.all[what], count, told.all)
		}
	}
	for _, what := range []string{"service ok", "system ok", "boot ok"} {
		if told.all[what] == 0 {
			t.Errorf("%q was not told: %v", what, told.all)
		}
	}
	if told.sum <= 0 {
		t.Error("no request took any time")
	}
}

// What keeps a request from being answered is told by its kind.
func TestARequestWithoutAnAnswerIsToldByItsKind(t *testing.T) {
	t.Parallel()
	slow := make(chan struct{})
	stuck := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-slow:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() {
		close(slow)
		stuck.Close()
	})
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	brief := Timeouts{Dial: time.Second, Request: 100 * time.Millisecond, Operation: 150 * time.Millisecond}
	for _, test := range []struct {
		name string
		ctx  context.Context
		cfg  Config
		want Outcome
	}{
		{"slow", t.Context(), Config{Address: stuck.URL, Insecure: true, Timeouts: brief}, OutcomeTimeout},
		{"not trusted", t.Context(), Config{Address: stuck.URL, Timeouts: quick()}, OutcomeTLS},
		{"no TLS there", t.Context(), Config{Address: strings.Replace(plain.URL, "http:", "https:", 1), Insecure: true, Timeouts: brief}, OutcomeTLS},
		{"nobody there", t.Context(), Config{Address: gone.URL, Timeouts: brief}, OutcomeUnreachable},
		{"given up by us", ended, Config{Address: stuck.URL, Insecure: true, Timeouts: quick()}, OutcomeCancelled},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			told := &tally{}
			test.cfg.Username, test.cfg.Password, test.cfg.OnRequest = testUser, testPassword, told.count
			if _, err := Dial(test.ctx, test.cfg); err == nil {
				t.Fatal("it was reached")
			}
			for what := range told.all {
				if !strings.HasSuffix(what, " "+string(test.want)) {
					t.Errorf("told %v, want the outcome %s", told.all, test.want)
				}
			}
			if len(told.all) == 0 && test.want != OutcomeCancelled { // an ended context may send nothing at all
				t.Error("nothing was told")
			}
		})
	}
}

func TestOperationsAreToldByMethodAndPath(t *testing.T) {
	t.Parallel()
	const root = "/redfish/v1"
	for request, want := range map[string]Operation{
		"GET " + root:       OperationService,
		"GET " + root + "/": OperationService,
		"POST " + root + "/SessionService/Sessions":                                    OperationSession,
		"DELETE " + root + "/Sessions/1":                                               OperationSession,
		"GET " + root + "/Systems/1":                                                   OperationSystem,
		"GET " + root + "/Systems/1/EthernetInterfaces/2":                              OperationSystem,
		"PATCH " + root + "/Systems/1":                                                 OperationBoot,
		"POST " + root + "/Systems/1/Actions/ComputerSystem.Reset":                     OperationPower,
		"GET " + root + "/Chassis/1":                                                   OperationChassis,
		"GET " + root + "/Managers/1":                                                  OperationManager,
		"POST " + root + "/Managers/1/VirtualMedia/2/Actions/VirtualMedia.InsertMedia": OperationMedia,
		"GET " + root + "/Systems/1/VirtualMedia/2":                                    OperationMedia,
		"GET " + root + "/TaskService/Tasks/7":                                         OperationTask,
		"GET /somewhere/else":                                                          OperationService,
	} {
		method, path, _ := strings.Cut(request, " ")
		got := operationOf(method, path)
		if got != want {
			t.Errorf("%s is told as %s, want %s", request, got, want)
		}
		if !slices.Contains(Operations(), got) {
			t.Errorf("%s is not listed", got)
		}
	}
}

func TestOutcomesAreToldByStatus(t *testing.T) {
	t.Parallel()
	got := map[int]Outcome{}
	for _, status := range []int{200, 202, 204, 308, 400, 401, 403, 404, 405, 409, 412, 500, 503} {
		got[status] = outcomeOf(t.Context(), status, nil)
	}
	want := map[int]Outcome{
		200: OutcomeOK, 202: OutcomeOK, 204: OutcomeOK, 308: OutcomeOK, 400: OutcomeRefused, 401: OutcomeUnauthorized, 403: OutcomeForbidden,
		404: OutcomeMissing, 405: OutcomeMissing, 409: OutcomeRefused, 412: OutcomeRefused, 500: OutcomeServerError, 503: OutcomeServerError,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if got := outcomeOf(t.Context(), 0, fmt.Errorf("read: %w", os.ErrDeadlineExceeded)); got != OutcomeTimeout {
		t.Errorf("a deadline is told as %s", got)
	}
	for _, o := range want {
		if !slices.Contains(Outcomes(), o) {
			t.Errorf("%s is not listed", o)
		}
	}
}
