package redfishtest_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

const (
	systemPath = "/redfish/v1/Systems/1"
	anyReset   = "/redfish/v1/Systems/*/Actions/*"
)

// What each action does to the request, and what is left behind.
func TestFaults(t *testing.T) {
	t.Parallel()
	licence := redfishtest.ErrorBody("Base.1.10.GeneralError", "SMC.1.0.OemLicenseNotPassed", "Not licensed to perform this request.", "DCMS ")
	tests := []struct {
		name         string
		fault        redfishtest.Fault
		method, path string
		body         string
		status       int // 0: no answer
		message      string
		override     redfishtest.Override
		powered      bool
	}{
		{
			"respond", redfishtest.Fault{Method: "PATCH", Path: systemPath, Action: redfishtest.Respond(403, licence)},
			"PATCH", systemPath, full, 403, "SMC.1.0.OemLicenseNotPassed", atRest, false,
		},
		{
			"redirect", redfishtest.Fault{Method: "PATCH", Action: redfishtest.Redirect(308, "/redfish/v1/Systems/elsewhere")},
			"PATCH", systemPath, full, 308, "", atRest, false,
		},
		{
			"close before", redfishtest.Fault{Action: redfishtest.CloseConnection()},
			"POST", resetPath("1"), resetBody("On"), 0, "", armed, false,
		},
		{
			"close after", redfishtest.Fault{Action: redfishtest.CloseAfter()},
			"POST", resetPath("1"), resetBody("On"), 0, "", atRest, true,
		},
		{
			"lying write", redfishtest.Fault{Method: "PATCH", Action: redfishtest.IgnoreWrite()},
			"PATCH", systemPath, full, 204, "", atRest, false,
		},
		{
			"silent power failure", redfishtest.Fault{Path: anyReset, Action: redfishtest.IgnorePower()},
			"POST", resetPath("1"), resetBody("On"), 204, "", armed, false,
		},
		{
			"power falls back", redfishtest.Fault{Path: anyReset, Action: redfishtest.FallBack()},
			"POST", resetPath("1"), resetBody("On"), 204, "", armed, false,
		},
		{
			"token dropped", redfishtest.Fault{Action: redfishtest.DropToken()},
			"GET", systemPath, "", 401, "Base.1.13.NoValidSession", atRest, false,
		},
		{
			"late", redfishtest.Fault{Action: redfishtest.Delay(time.Millisecond)},
			"PATCH", systemPath, full, 204, "", armed, false,
		},
		{
			"other method", redfishtest.Fault{Method: "GET", Action: redfishtest.Respond(500, "")},
			"PATCH", systemPath, full, 204, "", armed, false,
		},
		{
			"other path", redfishtest.Fault{Path: "/redfish/v1/Systems", Action: redfishtest.Respond(500, "")},
			"PATCH", systemPath, full, 204, "", armed, false,
		},
		{
			"no action", redfishtest.Fault{},
			"PATCH", systemPath, full, 204, "", armed, false,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			machine := new(redfishtest.NullMachine)
			s := start(t, redfishtest.Config{Machine: machine})
			if tt.method == "POST" {
				s.SetOverride(armed)
			}
			s.Inject(tt.fault)
			c := newClient(t, s)
			c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			got := c.do(tt.method, tt.path, tt.body)
			if (got.err != nil) != (tt.status == 0) {
				t.Errorf("error %v; want status %d", got.err, tt.status)
			}
			wantEqual(t, "status", got.status, tt.status)
			wantEqual(t, "message", messageID(got), tt.message)
			wantEqual(t, "override", s.Override(), tt.override)
			wantEqual(t, "powered", machine.Powered(), tt.powered)
		})
	}
}

// A dropped override reads back well and is not there when the machine boots.
func TestDroppedOverride(t *testing.T) {
	t.Parallel()
	for _, on := range []string{systemPath, resetPath("1")} {
		t.Run(on, func(t *testing.T) {
			t.Parallel()
			machine := new(redfishtest.NullMachine)
			s := start(t, redfishtest.Config{Machine: machine})
			s.Inject(redfishtest.Fault{Path: on, Times: 2, Action: redfishtest.DropOverride()})
			c := newClient(t, s)
			c.do("PATCH", systemPath, full)
			wantEqual(t, "read back", at(c.get(systemPath), "Boot", "BootSourceOverrideEnabled"), any("Once"))
			c.do("POST", resetPath("1"), resetBody("On"))
			wantEqual(t, "boot", machine.Boots(), []redfishtest.Boot{defaultBoot})
			wantEqual(t, "override", s.Override(), atRest)
		})
	}
}

func TestFaultsCount(t *testing.T) {
	t.Parallel()
	s := start(t, redfishtest.Config{})
	c := newClient(t, s)
	s.Inject(redfishtest.Fault{Method: "GET", Path: "/redfish/v1/Systems/**", Skip: 1, Times: 2, Action: redfishtest.Respond(503, "")})
	s.Inject(redfishtest.Fault{Method: "GET", Path: "/redfish/v1/Systems/**", Skip: 1, Times: 1, Action: redfishtest.Respond(500, "")})
	got := make([]int, 6)
	for i := range got {
		got[i] = c.do("GET", systemPath+"/", "").status
	}
	// The second fault does not see what the first one answered.
	wantEqual(t, "statuses", got, []int{200, 503, 503, 500, 200, 200})

	s.Inject(redfishtest.Fault{Action: redfishtest.Respond(502, "")})
	for range 3 {
		wantEqual(t, "for ever", c.do("GET", systemPath, "").status, 502)
	}
	s.ClearFaults()
	wantEqual(t, "cleared", c.do("GET", systemPath, "").status, 200)
}

// bmclib#465: the client gives up, and the write was done all the same.
func TestALateAnswerIsToADoneWrite(t *testing.T) {
	t.Parallel()
	s := start(t, redfishtest.Config{})
	s.Inject(redfishtest.Fault{Method: "PATCH", Action: redfishtest.Delay(time.Hour)})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for s.Override() != armed && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	got := newClient(t, s).doContext(ctx, "PATCH", systemPath, full)
	if !errors.Is(got.err, context.Canceled) {
		t.Errorf("error %v; want the client's own", got.err)
	}
	wantEqual(t, "override", s.Override(), armed)
}

func TestDroppedTokensStayDropped(t *testing.T) {
	t.Parallel()
	s := start(t, redfishtest.Config{})
	c := newClient(t, s).with("Authorization", "")
	user := c.with("X-Auth-Token", c.do("POST", sessions, rightLogin).header.Get("X-Auth-Token"))
	s.Inject(redfishtest.Fault{Path: systemPath, Times: 1, Action: redfishtest.DropToken()})
	wantEqual(t, "dropped", user.do("GET", systemPath, "").status, 401)
	wantEqual(t, "still", user.do("GET", systemPath, "").status, 401)
	wantEqual(t, "open", s.OpenSessions(), 0)
	again := c.with("X-Auth-Token", c.do("POST", sessions, rightLogin).header.Get("X-Auth-Token"))
	wantEqual(t, "logged in again", again.do("GET", systemPath, "").status, 200)
	s.DropSessions()
	wantEqual(t, "after a restart of the BMC", again.do("GET", systemPath, "").status, 401)
}

func TestStrippedHeader(t *testing.T) {
	t.Parallel()
	s := start(t, redfishtest.Config{})
	s.Inject(redfishtest.Fault{Path: sessions, Action: redfishtest.StripHeader("location")})
	got := newClient(t, s).do("POST", sessions, rightLogin)
	wantEqual(t, "status", got.status, 201)
	wantEqual(t, "location", got.header.Get("Location"), "")
	wantEqual(t, "token", got.header.Get("X-Auth-Token") != "", true)
}

// Somebody else writes between the client's GET and its PATCH.
func TestCallActsBetweenTwoRequests(t *testing.T) {
	t.Parallel()
	s := start(t, redfishtest.Config{})
	c := newClient(t, s)
	tag := c.do("GET", systemPath, "").header.Get("ETag")
	s.Inject(redfishtest.Fault{Method: "PATCH", Times: 1, Action: redfishtest.Call(func(s *redfishtest.Service) {
		s.SetOverride(redfishtest.Override{Target: "Hdd", Enabled: "Once", Mode: "UEFI"})
	})})
	wantEqual(t, "stale", c.with("If-Match", tag).do("PATCH", systemPath, full).status, 412)
	wantEqual(t, "override", s.Override().Target, "Hdd")
}
