package bmc

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

const (
	fullBody  = `{"Boot":{"BootSourceOverrideTarget":"Pxe","BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"UEFI"}}`
	shortBody = `{"Boot":{"BootSourceOverrideTarget":"Pxe","BootSourceOverrideEnabled":"Once"}}`
	patchOne  = "PATCH /redfish/v1/Systems/1"
)

// machineShowing is a system with this maker, these Boot properties and more.
func machineShowing(maker, boot, more string) string {
	return fmt.Sprintf(`{"Id":"1","Manufacturer":%q,"PowerState":"Off","Boot":{%s},"Actions":{"#ComputerSystem.Reset":{"target":"/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"}}%s}`, maker, boot, more)
}

const restingUEFI = `"BootSourceOverrideEnabled":"Disabled","BootSourceOverrideMode":"UEFI","BootSourceOverrideTarget":"None","BootSourceOverrideTarget@Redfish.AllowableValues":["None","Pxe","Hdd"]`

// keeps answers 200 and shows the document for Systems/1 from then on.
func (s *script) keeps(document string) func(string, http.Header) *reply {
	return func(string, http.Header) *reply {
		s.docs["/redfish/v1/Systems/1"] = document
		return &reply{status: 200}
	}
}

// showsWhatIsSent keeps the Boot object of the PATCH.
func (s *script) showsWhatIsSent(path, maker, more string) func(string, http.Header) *reply {
	return func(body string, _ http.Header) *reply {
		var sent struct{ Boot json.RawMessage }
		if json.Unmarshal([]byte(body), &sent) != nil {
			return &reply{status: 400}
		}
		s.docs[path] = machineShowing(maker, strings.Trim(string(sent.Boot), "{}"), more)
		return &reply{status: 204}
	}
}

func refuses(status int, messageID string, args ...string) *reply {
	list, _ := json.Marshal(args)
	return &reply{status: status, body: fmt.Sprintf(`{"error":{"code":"Base.v1_4_0.GeneralError","message":"x","@Message.ExtendedInfo":[{"MessageId":%q,"MessageArgs":%s}]}}`, messageID, list)}
}

func arm(t *testing.T, s *script) (BootOverride, error) {
	t.Helper()
	return dial(t, s.config(t)).ArmNetworkBoot(t.Context())
}

func wantWrites(t *testing.T, s *script, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, s.written()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// T1: Supermicro gets all three properties; what is left out goes to Legacy.
func TestSupermicroIsSentAllThreeProperties(t *testing.T) {
	t.Parallel()
	s := service(t, hardware(redfishtest.Supermicro()))
	if _, err := dial(t, configFor(t, s)).ArmNetworkBoot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := s.Override(), (redfishtest.Override{Target: "Pxe", Enabled: "Once", Mode: "UEFI"}); got != want {
		t.Errorf("override is %v, want %v", got, want)
	}
}

// metal-operator#80: a mode that is set already starts a job on iDRACs.
func TestDellAndHPEAreNotSentAModeTheyHave(t *testing.T) {
	t.Parallel()
	for _, maker := range []string{"Dell Inc.", "HPE"} {
		s := newScript(t, one(machineShowing(maker, restingUEFI, ""), nil))
		s.on[patchOne] = s.keeps(machineShowing(maker, `"BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"UEFI","BootSourceOverrideTarget":"Pxe"`, ""))
		if _, err := arm(t, s); err != nil {
			t.Error(err)
		}
		wantWrites(t, s, shortBody)
	}
}

// T10: an X10 board knows no mode.
func TestModeIsNotSentToABoardWithoutOne(t *testing.T) {
	t.Parallel()
	s := newScript(t, one(machineShowing("Supermicro", `"BootSourceOverrideEnabled":"Disabled","BootSourceOverrideTarget":"None","BootSourceOverrideTarget@Redfish.AllowableValues":["None","Pxe","Hdd","CD/DVD","UsbCd"]`, ""), nil))
	s.on[patchOne] = func(body string, h http.Header) *reply {
		if strings.Contains(body, "Mode") {
			return refuses(400, "Base.v1_4_0.PropertyUnknown", "BootSourceOverrideMode")
		}
		return s.showsWhatIsSent("/redfish/v1/Systems/1", "Supermicro", "")(body, h)
	}
	if _, err := arm(t, s); err != nil {
		t.Error(err)
	}
	wantWrites(t, s, shortBody)
}

// T11, bmclib#459: said yes, kept nothing. No reset follows (I4).
func TestOverrideThatIsNotKeptIsAnError(t *testing.T) {
	t.Parallel()
	s := newScript(t, one(supermicro1, nil))
	s.on[patchOne] = s.keeps(machineShowing("Supermicro", `"BootSourceOverrideEnabled":"Disabled","BootSourceOverrideMode":"Legacy","BootSourceOverrideTarget":"Pxe"`, ""))
	now, err := arm(t, s)
	if !errors.Is(err, ErrOverrideNotKept) || now.Armed() {
		t.Fatalf("override %v, error %v", now, err)
	}
	if want := "did not keep it: it shows Pxe Disabled Legacy; the machine was not reset"; !strings.Contains(err.Error(), want) {
		t.Errorf("error does not say %q: %v", want, err)
	}
	wantWrites(t, s, fullBody)
}

// The same with a service that lies for every vendor.
func TestLyingPatchIsFoundOutForEveryVendor(t *testing.T) {
	t.Parallel()
	for _, p := range redfishtest.Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			s := service(t, hardware(p))
			s.Inject(redfishtest.Fault{Method: "PATCH", Action: redfishtest.IgnoreWrite()})
			if _, err := dial(t, configFor(t, s)).ArmNetworkBoot(t.Context()); !errors.Is(err, ErrOverrideNotKept) {
				t.Errorf("error is %v", err)
			}
			if len(s.Resets()) != 0 {
				t.Errorf("resets followed: %v", s.Resets())
			}
		})
	}
}

// T12: Supermicro shows UefiBootNext where Pxe was sent; others must not.
func TestUefiBootNextIsKeptOnSupermicroOnly(t *testing.T) {
	t.Parallel()
	for maker, kept := range map[string]bool{"Supermicro": true, "Acme": false} {
		s := newScript(t, one(machineShowing(maker, restingUEFI, ""), nil))
		s.on[patchOne] = s.keeps(machineShowing(maker, `"BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"UEFI","BootSourceOverrideTarget":"UefiBootNext"`, ""))
		if _, err := arm(t, s); (err == nil) != kept {
			t.Errorf("%s: error is %v", maker, err)
		}
	}
}

// T13: the mode cannot be written.
func TestUnwritableModeIsLeftOut(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, shown, after string
		kept               bool
	}{
		{"it is right already", "UEFI", "UEFI", true},
		{"it is shown as null", "", "UEFI", true},
		{"it is wrong", "Legacy", "Legacy", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t, one(machineShowing("Acme", fmt.Sprintf(`"BootSourceOverrideEnabled":"Disabled","BootSourceOverrideTarget":"None","BootSourceOverrideMode":%q`, tt.shown), ""), nil))
			s.on[patchOne] = func(body string, _ http.Header) *reply {
				if strings.Contains(body, "Mode") {
					return &reply{status: 400, body: `{"error":{"code":"iLO.0.10.ExtendedInfo","message":"See @Message.ExtendedInfo for more information.","@Message.ExtendedInfo":[{"MessageId":"iLO.2.30.UnsupportedOperation"}]}}`}
				}
				s.docs["/redfish/v1/Systems/1"] = machineShowing("Acme", fmt.Sprintf(`"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Pxe","BootSourceOverrideMode":%q`, tt.after), "")
				return &reply{status: 200, body: `{"error":{"@Message.ExtendedInfo":[{"MessageId":"Base.1.4.Success"}]}}`}
			}
			_, err := arm(t, s)
			if tt.kept {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, ErrOverrideNotKept) || !strings.Contains(err.Error(), "boot mode cannot be changed to UEFI") || !strings.Contains(err.Error(), "bmc.bootMode") {
				t.Errorf("error is %v", err)
			}
		})
	}
}

// T14: a BMC that is busy while the machine starts.
func TestWriteDuringPOSTWaits(t *testing.T) {
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
	if _, err := arm(t, s); err != nil {
		t.Error(err)
	}
	if n := s.count(patchOne); n != 4 {
		t.Errorf("%d writes, want 4", n)
	}

	s = newScript(t, one(machineShowing("HPE", restingUEFI, ""), nil))
	s.on[patchOne] = func(string, http.Header) *reply { return &post }
	cfg := s.config(t)
	cfg.Timeouts.Operation, cfg.Timeouts.Poll = 2*time.Second, 100*time.Millisecond
	_, err := dial(t, cfg).ArmNetworkBoot(t.Context())
	if !errors.Is(err, ErrOverrideRefused) || !strings.Contains(err.Error(), "UnableToModifyDuringSystemPOST") || !strings.Contains(err.Error(), "gave up after 2s") {
		t.Errorf("error is %v", err)
	}
}

// T15: BMCs that want the clearing said in their own way.
func TestOverrideIsClearedInWaysTheBMCTakes(t *testing.T) {
	t.Parallel()
	const armed = `"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Pxe","BootSourceOverrideMode":"UEFI"`
	for name, refuse := range map[string]func(body string) *reply{
		"Target None refused": func(body string) *reply {
			if strings.Contains(body, `"None"`) {
				return refuses(400, "iLO.2.30.UnsupportedOperation")
			}
			return nil
		},
		"mode required": func(body string) *reply {
			if !strings.Contains(body, "Mode") {
				return refuses(400, "Base.1.4.PropertyMissing", "BootSourceOverrideMode is a required property")
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t, one(machineShowing("HPE", armed, ""), nil))
			s.on[patchOne] = func(body string, h http.Header) *reply {
				if r := refuse(body); r != nil {
					return r
				}
				return s.showsWhatIsSent("/redfish/v1/Systems/1", "HPE", "")(body, h)
			}
			c := dial(t, s.config(t))
			if err := c.ClearBootOverride(t.Context()); err != nil {
				t.Fatal(err)
			}
			if now, err := c.BootOverride(t.Context()); err != nil || now.Armed() {
				t.Errorf("override is %v, %v", now, err)
			}
			writes := len(s.written())
			if err := c.ClearBootOverride(t.Context()); err != nil || len(s.written()) != writes {
				t.Errorf("clearing twice wrote again (%v)", err)
			}
		})
	}
}

func TestLegacyModeIsAskedForWhereTheNodeWantsIt(t *testing.T) {
	t.Parallel()
	s := service(t, hardware(redfishtest.Supermicro()))
	cfg := configFor(t, s)
	cfg.BootMode = "legacy"
	now, err := dial(t, cfg).ArmNetworkBoot(t.Context())
	if err != nil || now != (BootOverride{Target: "Pxe", Enabled: "Once", Mode: "Legacy"}) {
		t.Errorf("override is %v, %v", now, err)
	}
}

func TestArmed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		override BootOverride
		want     bool
	}{
		{BootOverride{Target: "Pxe", Enabled: "Once", Mode: "UEFI"}, true},
		{BootOverride{Target: "Pxe", Enabled: "Continuous", Mode: ""}, true},
		{BootOverride{Target: "UefiBootNext", Enabled: "Once", Mode: "UEFI"}, true},
		{BootOverride{Target: "UefiHttp", Enabled: "Once", Mode: "UEFI"}, true},
		{BootOverride{Target: "Pxe", Enabled: "Disabled", Mode: "UEFI"}, false}, // Supermicro at rest
		{BootOverride{Target: "Hdd", Enabled: "Once", Mode: "UEFI"}, false},
		{BootOverride{Target: "None", Enabled: "Once", Mode: "UEFI"}, false},
		{BootOverride{Target: "Pxe", Enabled: "", Mode: ""}, false},
		{BootOverride{}, false},
	} {
		if got := tt.override.Armed(); got != tt.want {
			t.Errorf("%v armed is %v", tt.override, got)
		}
	}
}
