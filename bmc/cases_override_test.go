package bmc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// The cases T10 to T19: boot overrides. Requests are compared in order, and
// script checks that no session stays open.

func TestT10BoardWithoutModeIsSentNone(t *testing.T) {
	t.Parallel()
	s := newScript(t, one(machineShowing("Supermicro", `"BootSourceOverrideEnabled":"Disabled","BootSourceOverrideTarget":"None","BootSourceOverrideTarget@Redfish.AllowableValues":["None","Pxe","Hdd","CD/DVD","UsbCd"]`, ""), nil))
	s.on[patchOne] = func(body string, h http.Header) *reply {
		if strings.Contains(body, "Mode") {
			return refuses(400, "Base.v1_4_0.PropertyUnknown", "BootSourceOverrideMode")
		}
		return s.showsWhatIsSent("/redfish/v1/Systems/1", "Supermicro", "")(body, h)
	}
	if err := s.armed(t); err != nil {
		t.Error(err)
	}
	wantWrites(t, s, shortBody)
	wantTraffic(t, s, reaching("PATCH /Systems/1", "GET /Systems/1")...)
}

func TestT11OverrideThatIsNotKeptIsAnErrorAndNoResetFollows(t *testing.T) {
	t.Parallel()
	s := newScript(t, one(supermicro1, nil))
	s.on[patchOne] = func(string, http.Header) *reply {
		s.docs["/redfish/v1/Systems/1"] = machineShowing("Supermicro", `"BootSourceOverrideEnabled":"Disabled","BootSourceOverrideMode":"Legacy","BootSourceOverrideTarget":"Pxe"`, "")
		return &reply{status: 200, body: `{"Success":{}}`}
	}
	if err := s.armed(t); !errors.Is(err, ErrOverrideNotKept) {
		t.Errorf("error is %v", err)
	}
	wantWrites(t, s, fullBody)
	// Three looks; then the other place that a BMC may take it at is tried, and is not there.
	wantTraffic(t, s, reaching("PATCH /Systems/1", "3×GET /Systems/1", "GET /Systems/1/SD")...)
}

func TestT12UefiBootNextIsThePXEOfASupermicro(t *testing.T) {
	t.Parallel()
	s := newScript(t, one(supermicro1, nil))
	s.on[patchOne] = s.keeps(machineShowing("Supermicro", `"BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"UEFI","BootSourceOverrideTarget":"UefiBootNext"`, ""))
	if err := s.armed(t); err != nil {
		t.Error(err)
	}
	wantTraffic(t, s, reaching("PATCH /Systems/1", "GET /Systems/1")...)
}

func TestT13UnwritableModeIsLeftOutOrExplained(t *testing.T) {
	t.Parallel()
	for shown, kept := range map[string]bool{"UEFI": true, "Legacy": false} {
		t.Run(shown, func(t *testing.T) {
			t.Parallel()
			s := newScript(t, one(machineShowing("Acme", fmt.Sprintf(`"BootSourceOverrideEnabled":"Disabled","BootSourceOverrideTarget":"None","BootSourceOverrideMode":%q`, shown), ""), nil))
			s.on[patchOne] = func(body string, _ http.Header) *reply {
				if strings.Contains(body, "Mode") {
					return &reply{status: 400, body: `{"error":{"code":"iLO.0.10.ExtendedInfo","message":"See @Message.ExtendedInfo for more information.","@Message.ExtendedInfo":[{"MessageId":"iLO.2.30.UnsupportedOperation"}]}}`}
				}
				s.docs["/redfish/v1/Systems/1"] = machineShowing("Acme", fmt.Sprintf(`"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Pxe","BootSourceOverrideMode":%q`, shown), "")
				return &reply{status: 200, body: `{"error":{"@Message.ExtendedInfo":[{"MessageId":"Base.1.4.Success"}]}}`}
			}
			err := s.armed(t)
			wantWrites(t, s, fullBody, shortBody)
			if kept {
				if err != nil {
					t.Error(err)
				}
				wantTraffic(t, s, reaching("PATCH /Systems/1", "GET /Systems/1", "PATCH /Systems/1", "GET /Systems/1")...)
				return
			}
			if !errors.Is(err, ErrOverrideNotKept) || !strings.Contains(err.Error(), "boot mode cannot be changed to UEFI") {
				t.Errorf("error is %v", err)
			}
			wantTraffic(t, s, reaching("PATCH /Systems/1", "GET /Systems/1", "PATCH /Systems/1", "3×GET /Systems/1", "GET /Systems/1/SD")...)
		})
	}
}

func TestT14WriteDuringPOSTIsRepeatedWithinTheBudget(t *testing.T) {
	t.Parallel()
	post := reply{status: 400, body: `{"error":{"code":"iLO.0.10.ExtendedInfo","@Message.ExtendedInfo":[{"MessageArgs":["BootSourceOverrideTarget"],"MessageId":"iLO.2.37.UnableToModifyDuringSystemPOST"}]}}`}
	s := newScript(t, one(machineShowing("HPE", restingUEFI, ""), nil))
	refuse, keep := first(3, post), s.keeps(machineShowing("HPE", `"BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"UEFI","BootSourceOverrideTarget":"Pxe"`, ""))
	s.on[patchOne] = func(b string, h http.Header) *reply {
		if r := refuse(b, h); r != nil {
			return r
		}
		return keep(b, h)
	}
	if err := s.armed(t); err != nil {
		t.Error(err)
	}
	wantWrites(t, s, shortBody, shortBody, shortBody, shortBody)
	wantTraffic(t, s, reaching(
		"PATCH /Systems/1", "GET /Systems/1", "PATCH /Systems/1", "GET /Systems/1",
		"PATCH /Systems/1", "GET /Systems/1", "PATCH /Systems/1", "GET /Systems/1")...)

	s = newScript(t, one(machineShowing("HPE", restingUEFI, ""), nil))
	s.on[patchOne] = func(string, http.Header) *reply { return &post }
	cfg := s.config(t)
	cfg.Timeouts.Operation, cfg.Timeouts.Poll = 2*time.Second, 200*time.Millisecond
	err := s.run(t, cfg, func(ctx context.Context, c *Client) error {
		_, err := c.ArmNetworkBoot(ctx)
		return err
	})
	if !errors.Is(err, ErrOverrideRefused) || !strings.Contains(err.Error(), "UnableToModifyDuringSystemPOST") || !strings.Contains(err.Error(), "gave up after 2s") {
		t.Errorf("error is %v", err)
	}
	if n := s.count(patchOne); n < 2 || n > 11 {
		t.Errorf("%d writes in 2 s at one each 200 ms", n)
	}
}

func TestT15ClearIsSaidInAWayThatTheBMCTakes(t *testing.T) {
	t.Parallel()
	const armed = `"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Pxe","BootSourceOverrideMode":"UEFI"`
	for name, tt := range map[string]struct {
		refuse func(body string) *reply
		want   []string
	}{
		"Target None refused": {func(body string) *reply {
			if strings.Contains(body, `"None"`) {
				return refuses(400, "iLO.2.30.UnsupportedOperation")
			}
			return nil
		}, []string{`{"Boot":{"BootSourceOverrideTarget":"None","BootSourceOverrideEnabled":"Disabled"}}`, `{"Boot":{"BootSourceOverrideEnabled":"Disabled"}}`}},
		"mode required": {func(body string) *reply {
			if !strings.Contains(body, "Mode") {
				return refuses(400, "Base.1.4.PropertyMissing", "BootSourceOverrideMode is a required property")
			}
			return nil
		}, []string{
			`{"Boot":{"BootSourceOverrideTarget":"None","BootSourceOverrideEnabled":"Disabled"}}`,
			`{"Boot":{"BootSourceOverrideTarget":"None","BootSourceOverrideEnabled":"Disabled","BootSourceOverrideMode":"UEFI"}}`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t, one(machineShowing("HPE", armed, ""), nil))
			s.on[patchOne] = func(body string, h http.Header) *reply {
				if r := tt.refuse(body); r != nil {
					return r
				}
				return s.showsWhatIsSent("/redfish/v1/Systems/1", "HPE", "")(body, h)
			}
			err := s.run(t, s.config(t), func(ctx context.Context, c *Client) error { return c.ClearBootOverride(ctx) })
			if err != nil {
				t.Error(err)
			}
			wantWrites(t, s, tt.want...)
			wantTraffic(t, s, reaching("PATCH /Systems/1", "GET /Systems/1", "PATCH /Systems/1", "GET /Systems/1")...)
		})
	}
}

func TestT16FutureStateResourceTakesTheOverride(t *testing.T) {
	t.Parallel()
	const path, sd = "/redfish/v1/Systems/1", "/redfish/v1/Systems/1/SD"
	for name, tt := range map[string]struct {
		more    string
		traffic []string
	}{
		"announced": {`,"@Redfish.Settings":{"SettingsObject":{"@odata.id":"/redfish/v1/Systems/1/SD"}}`,
			[]string{"GET /Systems/1/SD", "PATCH /Systems/1", "GET /Systems/1/SD", "PATCH /Systems/1/SD", "GET /Systems/1/SD"}},
		"unannounced": {"", []string{"PATCH /Systems/1", "GET /Systems/1/SD", "PATCH /Systems/1/SD", "GET /Systems/1/SD"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t, one(machineShowing("GIGABYTE", `"BootSourceOverrideEnabled":"Disabled","BootSourceOverrideTarget":"None"`, tt.more), map[string]string{
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
				return s.showsWhatIsSent(sd, "GIGABYTE", "")(body, h)
			}
			if err := s.armed(t); err != nil {
				t.Fatal(err)
			}
			wantWrites(t, s, fullBody, fullBody)
			if got := s.headers[1].Get("If-Match"); got != `W/"1532"` {
				t.Errorf("If-Match is %q", got)
			}
			wantTraffic(t, s, reaching(tt.traffic...)...)
		})
	}
}

// preconditions is a BMC that takes a write by its If-Match alone.
func preconditions(t *testing.T, etag string, status func(ifMatch string) int) *script {
	t.Helper()
	s := newScript(t, one(machineShowing("Acme", restingUEFI, ""), nil))
	s.etags["/redfish/v1/Systems/1"] = etag
	s.on[patchOne] = func(body string, h http.Header) *reply {
		if code := status(h.Get("If-Match")); code != 0 {
			message := map[int]string{428: "Ami.1.0.PreconditionHeaderMissing", 412: "Base.1.0.PreconditionFailed"}[code]
			return &reply{status: code, body: `{"error":{"code":"` + message + `","message":"x"}}`}
		}
		return s.showsWhatIsSent("/redfish/v1/Systems/1", "Acme", "")(body, h)
	}
	return s
}

func takesOnly(want string, otherwise int) func(string) int {
	return func(ifMatch string) int {
		if ifMatch == want {
			return 0
		}
		return otherwise
	}
}

func TestT17PreconditionIsSentFromAFreshRead(t *testing.T) {
	t.Parallel()
	s := preconditions(t, `"1"`, takesOnly(`"1"`, 428))
	if err := s.armed(t); err != nil {
		t.Error(err)
	}
	wantTraffic(t, s, reaching("PATCH /Systems/1", "GET /Systems/1")...)

	s = preconditions(t, "", takesOnly("*", 428)) // demanded, and no tag shown
	if err := s.armed(t); err != nil {
		t.Error(err)
	}
	wantTraffic(t, s, reaching("PATCH /Systems/1", "GET /Systems/1", "PATCH /Systems/1", "GET /Systems/1")...)
}

func TestT18PreconditionThatAlwaysFailsIsLeftOutInTheEnd(t *testing.T) {
	t.Parallel()
	s := preconditions(t, `"1"`, takesOnly("", 412))
	if err := s.armed(t); err != nil {
		t.Error(err)
	}
	wantTraffic(t, s, reaching(
		"PATCH /Systems/1", "GET /Systems/1", "PATCH /Systems/1", "GET /Systems/1", "PATCH /Systems/1", "GET /Systems/1")...)

	s = preconditions(t, `W/"1"`, takesOnly("never", 412))
	if err := s.armed(t); !errors.Is(err, ErrOverrideRefused) {
		t.Errorf("error is %v", err)
	}
	sent := make([]string, 0, len(s.headers))
	for _, h := range s.headers {
		sent = append(sent, h.Get("If-Match"))
	}
	if want := []string{`W/"1"`, `"1"`, "1", "", `W/"1"`, "*"}; !slices.Equal(sent, want) {
		t.Errorf("If-Match was %q, want %q", sent, want)
	}
	// Each after a read; then the next resource.
	traffic := make([]string, 0, 2*len(sent)+1)
	for range sent {
		traffic = append(traffic, "PATCH /Systems/1", "GET /Systems/1")
	}
	wantTraffic(t, s, reaching(append(traffic, "GET /Systems/1/SD")...)...)
}

func TestT19NoCompressionIsAskedSoTheTagStaysGood(t *testing.T) {
	t.Parallel()
	s := preconditions(t, "", takesOnly(`"abc"`, 412))
	s.on["GET /redfish/v1/Systems/1"] = func(_ string, h http.Header) *reply {
		if strings.Contains(h.Get("Accept-Encoding"), "gzip") {
			t.Error("gzip was asked for")
			s.etags["/redfish/v1/Systems/1"] = `"abc-gzip"`
		} else {
			s.etags["/redfish/v1/Systems/1"] = `"abc"`
		}
		return nil
	}
	if err := s.armed(t); err != nil {
		t.Error(err)
	}
	wantTraffic(t, s, reaching("PATCH /Systems/1", "GET /Systems/1")...)
}
