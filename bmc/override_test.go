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

// T16: AMI takes the override on the future state resource only.
func TestFutureStateResourceTakesTheOverride(t *testing.T) {
	t.Parallel()
	const path, sd = "/redfish/v1/Systems/1", "/redfish/v1/Systems/1/SD"
	for name, tt := range map[string]struct{ maker, more string }{
		"announced":              {"GIGABYTE", `,"@Redfish.Settings":{"SettingsObject":{"@odata.id":"/redfish/v1/Systems/1/SD"}}`},
		"unannounced":            {"GIGABYTE", ""},
		"of a maker not known":   {"Acme", ""},
		"of a maker with habits": {"Dell Inc.", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t, one(machineShowing(tt.maker, `"BootSourceOverrideEnabled":"Disabled","BootSourceOverrideTarget":"None"`, tt.more), map[string]string{
				sd: `{"@odata.etag":"W/\"1532\"","Boot":{"BootSourceOverrideEnabled@Redfish.AllowableValues":["Disabled","Once","Continuous"]}}`,
			}))
			s.etags[sd] = `W/"1532"`
			s.on["PATCH "+path] = func(string, http.Header) *reply {
				return &reply{status: 400, body: `{"error":{"code":"Ami.1.0.OperationSupportedInFutureStateURI","message":"moved to /redfish/v1/Systems/Self/SD"}}`}
			}
			s.on["PATCH "+sd] = func(body string, h http.Header) *reply {
				if h.Get("If-Match") == "" {
					return refuses(428, "Ami.1.0.PreconditionHeaderMissing")
				}
				return s.showsWhatIsSent(sd, tt.maker, "")(body, h)
			}
			if _, err := arm(t, s); err != nil {
				t.Fatal(err)
			}
			writes := s.written()
			if got := writes[len(writes)-1]; got != fullBody {
				t.Errorf("last write is %s", got)
			}
			if n := s.count("PATCH " + sd); n != 1 {
				t.Errorf("%d writes to SD, want 1", n)
			}
		})
	}
}

// T7: Lenovo's Pending has no Boot; an iDRAC 10's settings have all of it.
func TestResourceOfTheOverride(t *testing.T) {
	t.Parallel()
	const path, pending = "/redfish/v1/Systems/1", "/redfish/v1/Systems/1/Pending"
	const settings = `,"@Redfish.Settings":{"SettingsObject":{"@odata.id":"/redfish/v1/Systems/1/Pending"}}`
	t.Run("settings without Boot", func(t *testing.T) {
		t.Parallel()
		s := newScript(t, one(machineShowing("Lenovo", restingUEFI, settings), map[string]string{pending: `{"@odata.id":"/redfish/v1/Systems/1/Pending","Id":"Pending"}`}))
		s.on["PATCH "+path] = s.showsWhatIsSent(path, "Lenovo", settings)
		if _, err := arm(t, s); err != nil {
			t.Error(err)
		}
		if n := s.count("PATCH " + pending); n != 0 {
			t.Errorf("%d writes to Pending", n)
		}
	})
	t.Run("read-only in the system", func(t *testing.T) {
		t.Parallel()
		s := newScript(t, one(machineShowing("Dell Inc.", restingUEFI, settings), map[string]string{pending: machineShowing("Dell Inc.", restingUEFI, "")}))
		s.on["PATCH "+path] = func(string, http.Header) *reply {
			return refuses(400, "Base.1.18.PropertyNotWritable", "BootSourceOverrideTarget")
		}
		s.on["PATCH "+pending] = s.showsWhatIsSent(pending, "Dell Inc.", "")
		if _, err := arm(t, s); err != nil {
			t.Error(err)
		}
	})
}

// T17, T18, T19: entity tags.
func TestEntityTagsTheBMCTakes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, etag string
		takes      func(ifMatch string) int // status, 0 = yes
		ok         bool
		most       int
	}{
		{"T17 demanded, and shown", `"1"`, func(m string) int { return map[bool]int{true: 0, false: 428}[m == `"1"`] }, true, 1},
		{"T17 demanded, and not shown", "", func(m string) int { return map[bool]int{true: 0, false: 428}[m == "*"] }, true, 2},
		{"T18 any form fails", `"1"`, func(m string) int { return map[bool]int{true: 0, false: 412}[m == ""] }, true, 3},
		{"T18 everything fails", `W/"1"`, func(string) int { return 412 }, false, maxWrites},
		{"T18 without quotes only", `"1"`, func(m string) int { return map[bool]int{true: 0, false: 412}[m == "1"] }, true, 2},
		{"weak tag shown, strong one taken", `W/"1"`, func(m string) int { return map[bool]int{true: 0, false: 412}[m == `"1"`] }, true, 2},
		{"T19 -gzip", `"abc-gzip"`, func(m string) int { return map[bool]int{true: 0, false: 412}[m == `"abc"`] }, true, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t, one(machineShowing("Acme", restingUEFI, ""), nil))
			s.etags["/redfish/v1/Systems/1"] = tt.etag
			s.on[patchOne] = func(body string, h http.Header) *reply {
				if status := tt.takes(h.Get("If-Match")); status != 0 {
					return &reply{status: status, body: `{"error":{"code":"Ami.1.0.PreconditionHeaderMissing","message":"x"}}`}
				}
				return s.showsWhatIsSent("/redfish/v1/Systems/1", "Acme", "")(body, h)
			}
			if _, err := arm(t, s); (err == nil) != tt.ok {
				t.Errorf("error is %v", err)
			}
			if n := s.count(patchOne); n > tt.most {
				t.Errorf("%d writes, want at most %d", n, tt.most)
			}
			for _, h := range s.headers {
				if h.Get("Accept-Encoding") != "" {
					t.Errorf("asked for the encoding %q", h.Get("Accept-Encoding"))
				}
			}
		})
	}
}

// bmclib#465: no answer in time, and applied all the same.
func TestWriteWithoutAnAnswerIsReadBack(t *testing.T) {
	t.Parallel()
	for name, action := range map[string]redfishtest.Action{"slow": redfishtest.Delay(2 * time.Second), "cut off": redfishtest.CloseAfter()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, hardware(redfishtest.Dell()))
			s.Inject(redfishtest.Fault{Method: "PATCH", Times: 1, Action: action})
			cfg := configFor(t, s)
			cfg.Timeouts.Request = 1500 * time.Millisecond
			if _, err := dial(t, cfg).ArmNetworkBoot(t.Context()); err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, r := range s.Requests() {
				if r.Method == http.MethodPatch {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%d writes, want 1: it was applied", n)
			}
		})
	}
}

func TestCancelledDuringTheWriteSaysSo(t *testing.T) {
	t.Parallel()
	s := service(t, hardware(redfishtest.Supermicro()))
	c := dial(t, configFor(t, s))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.Inject(redfishtest.Fault{Method: "PATCH", Times: 1, Action: redfishtest.Call(func(*redfishtest.Service) { cancel() })})
	_, err := c.ArmNetworkBoot(ctx)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "it was sent, but could not be read back and may be in force") {
		t.Errorf("error is %v", err)
	}
	if s.Override().Target != "Pxe" {
		t.Errorf("the write did not get through: %v", s.Override())
	}
}

func TestTagForms(t *testing.T) {
	t.Parallel()
	for etag, want := range map[string][]string{
		`W/"1532"`:   {`W/"1532"`, `"1532"`, "1532", ""},
		`"a1"`:       {`"a1"`, "a1", ""},
		`"abc-gzip"`: {`"abc-gzip"`, `"abc"`, "abc", ""},
		`""`:         {""},
		"":           {""},
	} {
		var got []string
		for _, h := range tagForms(etag, false) {
			got = append(got, h["If-Match"])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s gives %q, want %q", etag, got, want)
		}
	}
}
