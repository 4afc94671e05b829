package bmc

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

const monitorPath = "/redfish/v1/TaskService/TaskMonitors/7"

// accepting answers a PATCH of Systems/1 with a task, and shows the override when
// the task's monitor was asked often enough.
func accepting(s *script, header map[string]string, answers ...reply) {
	s.on[patchOne] = func(string, http.Header) *reply { return &reply{status: 202, header: header} }
	n := 0
	s.on["GET "+monitorPath] = func(string, http.Header) *reply {
		a := answers[min(n, len(answers)-1)]
		if n++; n == len(answers) {
			s.docs["/redfish/v1/Systems/1"] = machineShowing("Acme", `"BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"UEFI","BootSourceOverrideTarget":"Pxe"`, "")
		}
		return &a
	}
}

func TestAcceptedOverrideIsFollowedToItsEnd(t *testing.T) {
	t.Parallel()
	const running = `{"@odata.type":"#Task.v1_4_0.Task","TaskState":"Running"}`
	for name, tt := range map[string]struct {
		location string
		answers  []reply
	}{
		"monitor that answers 202": {monitorPath, []reply{{status: 202}, {status: 202}, {status: 204}}},
		"monitor that is the task": {monitorPath, []reply{{status: 200, body: running}, {status: 200, body: `{"TaskState":"Completed","TaskStatus":"OK"}`}}},
		"absolute Location":        {"https://10.9.9.9" + monitorPath, []reply{{status: 202, body: running}, {status: 200, body: `{"TaskState":"Completed"}`}}},
		"monitor that is busy":     {monitorPath, []reply{{status: 503}, {status: 204}}},
		"monitor that is gone":     {monitorPath, []reply{{status: 202}, {status: 404}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t, one(machineShowing("Acme", restingUEFI, ""), nil))
			accepting(s, map[string]string{"Location": tt.location}, tt.answers...)
			if err := s.armed(t); err != nil {
				t.Error(err)
			}
			var looks []string
			for range tt.answers {
				looks = append(looks, "GET /TaskService/TaskMonitors/7")
			}
			wantTraffic(t, s, reaching(slices.Concat([]string{"PATCH /Systems/1"}, looks, []string{"GET /Systems/1"})...)...)
		})
	}
}

// A task that failed is a refusal with its reason, and the next way is tried.
func TestFailedTaskIsARefusal(t *testing.T) {
	t.Parallel()
	s := newScript(t, one(machineShowing("Acme", restingUEFI, ""), nil))
	accepting(s, map[string]string{"Location": monitorPath},
		reply{status: 200, body: `{"TaskState":"Exception","TaskStatus":"Critical","Messages":[{"MessageId":"Base.1.8.GeneralError","Message":"The job failed."}]}`},
		reply{status: 200, body: `{"TaskState":"Exception","Messages":[{"MessageId":"Base.1.8.GeneralError","Message":"The job failed."}]}`},
		reply{})
	err := s.armed(t)
	if !errors.Is(err, ErrOverrideRefused) || !strings.Contains(err.Error(), "ended as Exception (GeneralError: The job failed.)") {
		t.Errorf("error is %v", err)
	}
	wantWrites(t, s, fullBody, shortBody)
}

// The BMC says when to come back.
func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		value string
		want  time.Duration
	}{
		{"", 0}, {"7", 7 * time.Second}, {"-1", 0}, {"86400", maxRetryAfter}, {"99999999999999999999", 0}, {"soon", 0},
		{"Mon, 30 Nov 2026 12:00:05 GMT", 5 * time.Second}, {"Mon, 30 Nov 2026 11:00:00 GMT", 0},
	} {
		now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
		if got := retryAfter(http.Header{"Retry-After": {tt.value}}, now); got != tt.want {
			t.Errorf("%q is %s, want %s", tt.value, got, tt.want)
		}
	}
	s := newScript(t, one(machineShowing("Acme", restingUEFI, ""), nil))
	accepting(s, map[string]string{"Location": monitorPath, "Retry-After": "1"}, reply{status: 204})
	start := time.Now()
	if err := s.armed(t); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took < time.Second {
		t.Errorf("asked again after %s", took)
	}
	s = newScript(t, one(supermicro1, nil))
	s.on["GET /redfish/v1/Systems/1"] = first(1, reply{status: 503, header: map[string]string{"Retry-After": "1"}})
	start = time.Now()
	if err := s.run(t, s.config(t), readPower); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took < time.Second {
		t.Errorf("read again after %s", took)
	}
}

// Every profile, with everything that it can make a task being one.
func TestVendorsWhoseWritesAreTasks(t *testing.T) {
	t.Parallel()
	for _, p := range redfishtest.Profiles() {
		for _, noLocation := range []bool{false, true} {
			rules := redfishtest.TaskRules{Lag: 10 * time.Millisecond, NoLocation: noLocation}
			t.Run(p.Name, func(t *testing.T) {
				t.Parallel()
				s, cfg, _ := faulty(t, p,
					redfishtest.Fault{Method: http.MethodPatch, Action: redfishtest.AsTask(rules)},
					redfishtest.Fault{Method: http.MethodPost, Path: systems, Action: redfishtest.AsTask(rules)})
				if err := provisioned(t.Context(), cfg); err != nil {
					t.Error(err)
				}
				if got := s.Resets(); !slices.Equal(got, []string{"ForceOff", "On"}) {
					t.Errorf("resets are %v", got)
				}
			})
		}
	}
}

func TestGracefulPowerOff(t *testing.T) {
	t.Parallel()
	shut := func(patience time.Duration) func(context.Context, *Client) error {
		return func(ctx context.Context, c *Client) error { return c.PowerOffGracefully(ctx, patience) }
	}
	t.Run("the operating system obeys", func(t *testing.T) {
		t.Parallel()
		s := newScript(t, one(powered("On", ""), nil))
		s.on[resetOne] = s.becomes("On", "PoweringOff", "Off")
		if err := s.run(t, s.config(t), shut(20*time.Second)); err != nil {
			t.Error(err)
		}
		wantWrites(t, s, `{"ResetType":"GracefulShutdown"}`)
	})
	t.Run("it does not", func(t *testing.T) {
		t.Parallel()
		s := newScript(t, one(powered("On", ""), nil))
		off := s.becomes("Off")
		s.on[resetOne] = func(body string, h http.Header) *reply {
			if strings.Contains(body, "Graceful") {
				return &reply{status: 204}
			}
			return off(body, h)
		}
		if err := s.run(t, s.config(t), shut(300*time.Millisecond)); err != nil {
			t.Error(err)
		}
		wantWrites(t, s, `{"ResetType":"GracefulShutdown"}`, `{"ResetType":"ForceOff"}`)
	})
	t.Run("the BMC refuses", func(t *testing.T) {
		t.Parallel()
		s := newScript(t, one(powered("On", ""), nil))
		off := s.becomes("Off")
		s.on[resetOne] = func(body string, h http.Header) *reply {
			if strings.Contains(body, "Graceful") {
				return refuses(400, "Base.1.0.ActionNotSupported")
			}
			return off(body, h)
		}
		if err := s.run(t, s.config(t), shut(20*time.Second)); err != nil {
			t.Error(err)
		}
		wantWrites(t, s, `{"ResetType":"GracefulShutdown"}`, `{"ResetType":"ForceOff"}`)
	})
	for name, tt := range map[string]struct {
		state, types string
		patience     time.Duration
		want         []string
	}{
		"not offered":    {"On", `,"ResetType@Redfish.AllowableValues":["On","ForceOff"]`, 20 * time.Second, []string{`{"ResetType":"ForceOff"}`}},
		"no patience":    {"On", "", 0, []string{`{"ResetType":"ForceOff"}`}},
		"is off already": {"Off", "", 20 * time.Second, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t, one(powered(tt.state, tt.types), nil))
			s.on[resetOne] = s.becomes("Off")
			if err := s.run(t, s.config(t), shut(tt.patience)); err != nil {
				t.Error(err)
			}
			wantWrites(t, s, tt.want...)
		})
	}
	t.Run("cancelled while it waits", func(t *testing.T) {
		t.Parallel()
		s := newScript(t, one(powered("On", ""), nil))
		ctx, cancel := context.WithCancel(t.Context())
		s.on[resetOne] = func(string, http.Header) *reply { cancel(); return &reply{status: 204} }
		c := dial(t, s.config(t))
		if err := c.PowerOffGracefully(ctx, time.Minute); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "the reset was sent") {
			t.Errorf("error is %v", err)
		}
		wantWrites(t, s, `{"ResetType":"GracefulShutdown"}`)
	})
}
