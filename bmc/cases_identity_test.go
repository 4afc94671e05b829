package bmc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory/identity"
)

// The cases T1 to T9: what a BMC shows, what is made of it, and what was asked
// for it, in order. script checks that no session stays open.

func TestT01SupermicroIsIdentifiedAndSentAllThreeProperties(t *testing.T) {
	t.Parallel()
	s := newScript(t, one(supermicro1, map[string]string{"/redfish/v1/Chassis/1": supermicroChassis1}))
	s.on[patchOne] = func(body string, h http.Header) *reply {
		if !strings.Contains(body, "Mode") { // what is left out goes back to Legacy (Redfishtool#106)
			body = strings.Replace(body, `"Once"`, `"Once","BootSourceOverrideMode":"Legacy"`, 1)
		}
		return s.showsWhatIsSent("/redfish/v1/Systems/1", "Supermicro", "")(body, h)
	}
	err := s.run(t, s.config(t), func(ctx context.Context, c *Client) error {
		id, err := c.Identify(ctx)
		want := identity.Facts{Serial: "S100000X0000001", BoardSerial: "ZM000S000001", ChassisSerial: "C100000AA000001", UUID: "00000000-0000-0000-0000-0CC47A000001"}
		if diff := cmp.Diff(want, id.Facts); diff != "" {
			t.Errorf("facts (-want +got):\n%s", diff)
		}
		if err != nil {
			return err
		}
		now, err := c.ArmNetworkBoot(ctx)
		if want := (BootOverride{Target: "Pxe", Enabled: "Once", Mode: "UEFI"}); now != want {
			t.Errorf("override is %v", now)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	wantWrites(t, s, fullBody)
	wantTraffic(t, s, reaching("GET /Chassis/1", "GET /Systems/1", "PATCH /Systems/1", "GET /Systems/1")...)
}

func TestT02FourNodesOfOneChassisAreToldApart(t *testing.T) {
	t.Parallel()
	for _, sameUUID := range []bool{false, true} {
		candidates := make([]identity.Candidate, 0, 4)
		for n := 1; n <= 4; n++ {
			system := supermicro1
			if !sameUUID {
				system = strings.Replace(system, "0CC47A000001", fmt.Sprintf("0CC47A00000%d", n), 1)
			}
			board := strings.Replace(supermicroChassis1, "ZM000S000001", fmt.Sprintf("ZM000S00000%d", n), 1)
			s := newScript(t, one(system, map[string]string{"/redfish/v1/Chassis/1": board}))
			id, err := s.identified(t, s.config(t))
			if err != nil {
				t.Fatal(err)
			}
			wantTraffic(t, s, reaching("GET /Chassis/1")...)
			candidates = append(candidates, identity.Candidate{Name: fmt.Sprintf("node-%d", n), Facts: []identity.Facts{id.Facts}})
		}
		v := identity.NewIndex(candidates).Match(identity.Facts{Serial: "S100000X0000001", BoardSerial: "ZM000S000003"})
		if v.Outcome != identity.Match || v.Name != "node-3" {
			t.Errorf("with one UUID %t: verdict is %+v", sameUUID, v)
		}
	}
}

func TestT03BlankSerialsIdentifyNothing(t *testing.T) {
	t.Parallel()
	s := newScript(t, one(
		`{"Id":"1","Manufacturer":"Supermicro","SerialNumber":"          ","UUID":"00000000-0000-0000-0000-0CC47A000001","Links":{"Chassis":[{"@odata.id":"/redfish/v1/Chassis/1"}]}}`,
		map[string]string{"/redfish/v1/Chassis/1": `{"SerialNumber":"","Oem":{"Supermicro":{"BoardSerialNumber":"          "}}}`}))
	id, err := s.identified(t, s.config(t))
	if err != nil {
		t.Fatal(err)
	}
	if want := (identity.Facts{UUID: "00000000-0000-0000-0000-0CC47A000001"}); !cmp.Equal(id.Facts, want) {
		t.Errorf("facts are %+v", id.Facts)
	}
	x := identity.NewIndex([]identity.Candidate{{Name: "x10", Facts: []identity.Facts{id.Facts}}})
	if v := x.Match(identity.Facts{UUID: "00000000-0000-0000-0000-0cc47a000001"}); v.Outcome != identity.Match {
		t.Errorf("by UUID: %+v", v)
	}
	if v := x.Match(identity.Facts{Serial: "", BoardSerial: "          "}); v.Outcome != identity.Nobody {
		t.Errorf("blanks match: %+v", v)
	}
	// A board serial is looked for where the GB300 of this maker has it.
	wantTraffic(t, s, reaching("GET /Chassis/1", "GET /Chassis/BMC_0")...)
}

// matches identifies a machine and holds what its firmware sends against it.
func matches(t *testing.T, s *script, seen ...identity.Facts) Identity {
	t.Helper()
	id, err := s.identified(t, s.config(t))
	if err != nil {
		t.Fatal(err)
	}
	x := identity.NewIndex([]identity.Candidate{{Name: "node", Facts: []identity.Facts{id.Facts}}})
	for _, facts := range seen {
		if v := x.Match(facts); v.Outcome != identity.Match {
			t.Errorf("BMC %+v and firmware %+v: %s", id.Facts, facts, v.Reason)
		}
	}
	return id
}

func TestT04UUIDInTheOtherByteOrderIsTheSameMachine(t *testing.T) {
	t.Parallel()
	s := newScript(t, one(`{"Id":"1","UUID":"005CB4E7-0989-EB11-8000-7CC255000001"}`, nil))
	matches(t, s, identity.Facts{UUID: "e7b45c00-8909-11eb-8000-7cc255000001"})
	wantTraffic(t, s, reaching("GET /Chassis")...)
}

func TestT05DellServiceTagBoardAndEnclosure(t *testing.T) {
	t.Parallel()
	s := newScript(t, one(`{"Id":"System.Embedded.1","Manufacturer":"Dell Inc.","SerialNumber":"CN0000000A0001","SKU":"ABC1234","UUID":"4c4c4544-0042-4310-8031-b2c04f333334",
		"Oem":{"Dell":{"DellSystem":{"NodeID":"ABC1234","ChassisServiceTag":"ENC9999","smbiosGUID":"44454c4c-4200-1043-8031-b2c04f333334"}}}}`, nil))
	id := matches(t, s,
		identity.Facts{Serial: "ABC1234", BoardSerial: ".ABC1234.CN0000000A0001.01a."},
		identity.Facts{Serial: "ABC1234", BoardSerial: "/ABC1234/CN0000000A0001/"},
		identity.Facts{UUID: "44454c4c-4200-1043-8031-b2c04f333334"})
	if id.Facts.ChassisSerial != "ENC9999" {
		t.Errorf("chassis is %q", id.Facts.ChassisSerial)
	}
	wantTraffic(t, s, reaching("GET /Chassis")...)
}

func TestT06HPEBoardSerialWithPercentSigns(t *testing.T) {
	t.Parallel()
	s := newScript(t, one(`{"Manufacturer":"HPE","SerialNumber":"MXQ0000001","Oem":{"Hpe":{"PCASerialNumber":"PWAMT%%LMB0001","PostState":"InPost"}}}`, nil))
	matches(t, s, identity.Facts{BoardSerial: "PWAMT%%LMB0001"})
	wantTraffic(t, s, reaching("GET /Chassis")...)
}

func TestT07LenovoIgnoresTheDriveEnclosureAndWritesTheSystem(t *testing.T) {
	t.Parallel()
	const settings = `,"SerialNumber":"J1000001","@Redfish.Settings":{"SettingsObject":{"@odata.id":"/redfish/v1/Systems/1/Pending"}}`
	s := newScript(t, one(machineShowing("Lenovo", restingUEFI, settings), map[string]string{
		"/redfish/v1/Systems/1/Pending": `{"@odata.id":"/redfish/v1/Systems/1/Pending","Id":"Pending"}`,
		"/redfish/v1/Chassis":           `{"Members":[{"@odata.id":"/redfish/v1/Chassis/3"},{"@odata.id":"/redfish/v1/Chassis/1"}]}`,
		"/redfish/v1/Chassis/1":         `{"SerialNumber":"J1000001","Links":{"ComputerSystems":[{"@odata.id":"/redfish/v1/Systems/1"}]},"Oem":{"Lenovo":{"SystemBoardSerialNumber":"C1KS00R0001","SysEncloseSerialNum":null}}}`,
		"/redfish/v1/Chassis/3":         `{"SerialNumber":"R4SH00000"}`,
	}))
	s.on[patchOne] = s.showsWhatIsSent("/redfish/v1/Systems/1", "Lenovo", settings)
	err := s.run(t, s.config(t), func(ctx context.Context, c *Client) error {
		id, err := c.Identify(ctx)
		want := identity.Facts{Serial: "J1000001", BoardSerial: "C1KS00R0001", ChassisSerial: "J1000001"}
		if diff := cmp.Diff(want, id.Facts); diff != "" {
			t.Errorf("facts (-want +got):\n%s", diff)
		}
		if err != nil {
			return err
		}
		_, err = c.ArmNetworkBoot(ctx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	wantWrites(t, s, fullBody)
	wantTraffic(t, s, reaching(
		"GET /Chassis", "GET /Chassis/3", "GET /Chassis/1", "GET /Systems/1/Pending",
		"GET /Systems/1", "PATCH /Systems/1", "GET /Systems/1")...)
}

func TestT07bNoSystemsIsAnErrorThatSaysSo(t *testing.T) {
	t.Parallel()
	s := newScript(t, map[string]string{"/redfish/v1": `{"Id":"RootService","Links":{"Sessions":{"@odata.id":"/redfish/v1/SessionService/Sessions"}}}`})
	_, err := s.identified(t, s.config(t))
	if !errors.Is(err, ErrNoSystem) || !strings.Contains(err.Error(), "it has no systems at all") || !strings.Contains(err.Error(), "check that bmc.address") {
		t.Errorf("error is %v", err)
	}
	wantTraffic(t, s, around("GET /Systems")...)
}

func TestT08BaseboardBesideTheMachineIsNotChosen(t *testing.T) {
	t.Parallel()
	const dgx = `{"Id":"DGX","Boot":{"BootSourceOverrideTarget":"None","BootSourceOverrideTarget@Redfish.AllowableValues":["None","Pxe"]},"Actions":{"#ComputerSystem.Reset":{"target":"/x"}}}`
	for name, baseboard := range map[string]*reply{
		"answers 503":              {status: 503, body: `{"error":{"code":"Ami.1.0.HMCCommuicationFailed","message":"x"}}`},
		"without Boot and Actions": {status: 200, body: `{"Id":"HGX_Baseboard_0"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t, map[string]string{
				"/redfish/v1/Systems":     `{"Members":[{"@odata.id":"/redfish/v1/Systems/HGX_Baseboard_0"},{"@odata.id":"/redfish/v1/Systems/DGX"}]}`,
				"/redfish/v1/Systems/DGX": dgx,
			})
			s.on["GET /redfish/v1/Systems/HGX_Baseboard_0"] = func(string, http.Header) *reply { return baseboard }
			id, err := s.identified(t, s.config(t))
			if err != nil || id.System != "DGX" {
				t.Errorf("system is %q, %v", id.System, err)
			}
			wantTraffic(t, s, around("GET /Systems", "GET /Systems/HGX_Baseboard_0", "GET /Systems/DGX", "GET /Chassis")...)
		})
	}
}

func TestT09HypervisorIsNotChosen(t *testing.T) {
	t.Parallel()
	s := newScript(t, map[string]string{
		"/redfish/v1/Systems":            `{"Members":[{"@odata.id":"/redfish/v1/Systems/system"},{"@odata.id":"/redfish/v1/Systems/hypervisor"}]}`,
		"/redfish/v1/Systems/system":     `{"Id":"system","SystemType":"Physical","Boot":{"BootSourceOverrideTarget":"None","BootSourceOverrideTarget@Redfish.AllowableValues":["None","Pxe"]},"Actions":{"#ComputerSystem.Reset":{"target":"/x"}}}`,
		"/redfish/v1/Systems/hypervisor": `{"Id":"hypervisor","SystemType":"OS","PowerState":"Off","Actions":{"#ComputerSystem.Reset":{"target":"/redfish/v1/Systems/hypervisor/Actions/ComputerSystem.Reset"}}}`,
	})
	id, err := s.identified(t, s.config(t))
	if err != nil || id.System != "system" {
		t.Errorf("system is %q, %v", id.System, err)
	}
	wantTraffic(t, s, around("GET /Systems", "GET /Systems/system", "GET /Systems/hypervisor", "GET /Chassis")...)
}
