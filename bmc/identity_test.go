package bmc

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/inventory/identity"
)

const (
	systemsOne  = `{"Members":[{"@odata.id":"/redfish/v1/Systems/1"}]}`
	supermicro1 = `{"@odata.id":"/redfish/v1/Systems/1","@odata.etag":"\"a1\"","Id":"1","Manufacturer":"Supermicro",
		"SerialNumber":"S100000X0000001","SKU":"To be filled by O.E.M.","UUID":"00000000-0000-0000-0000-0CC47A000001","PowerState":"On",
		"Boot":{"BootSourceOverrideEnabled":"Disabled","BootSourceOverrideMode":"UEFI","BootSourceOverrideTarget":"Pxe",
			"BootSourceOverrideTarget@Redfish.AllowableValues":["None","Pxe","Hdd","UefiBootNext"]},
		"Links":{"Chassis":[{"@odata.id":"/redfish/v1/Chassis/1"}]},
		"Actions":{"#ComputerSystem.Reset":{"target":"/redfish/v1/Systems/1/Actions/ComputerSystem.Reset","@Redfish.ActionInfo":"/redfish/v1/Systems/1/ResetActionInfo"}}}`
	supermicroChassis1 = `{"@odata.id":"/redfish/v1/Chassis/1","Id":"1","ChassisType":"RackMount","SerialNumber":"C100000AA000001",
		"Links":{"ComputerSystems":[{"@odata.id":"/redfish/v1/Systems/1"}]},"Oem":{"Supermicro":{"BoardSerialNumber":"ZM000S000001","BoardID":"0x1"}}}`
)

func identify(t *testing.T, docs map[string]string) Identity {
	t.Helper()
	id, err := dial(t, newScript(t, docs).config(t)).Identify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func one(system string, rest map[string]string) map[string]string {
	docs := map[string]string{"/redfish/v1/Systems": systemsOne, "/redfish/v1/Systems/1": system}
	for p, d := range rest {
		docs[p] = d
	}
	return docs
}

// T1, T3, T4, T5, T6, T7 and documents with mistakes in them.
func TestIdentityFromRecordedShapes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		docs   map[string]string
		vendor string
		want   identity.Facts
	}{
		{
			"T1 Supermicro", one(supermicro1, map[string]string{"/redfish/v1/Chassis/1": supermicroChassis1}), "Supermicro",
			identity.Facts{Serial: "S100000X0000001", BoardSerial: "ZM000S000001", ChassisSerial: "C100000AA000001", UUID: "00000000-0000-0000-0000-0CC47A000001"},
		},
		{
			"T3 X10 with blank serials", one(
				`{"Id":"1","Manufacturer":"Supermicro","SerialNumber":"          ","UUID":"00000000-0000-0000-0000-0CC47A000001","Links":{"Chassis":[{"@odata.id":"/redfish/v1/Chassis/1"}]}}`,
				map[string]string{"/redfish/v1/Chassis/1": `{"SerialNumber":"","Oem":{"Supermicro":{"BoardSerialNumber":"          "}}}`}), "Supermicro",
			identity.Facts{UUID: "00000000-0000-0000-0000-0CC47A000001"},
		},
		{
			"T5 Dell", one(`{"Id":"System.Embedded.1","Manufacturer":"Dell Inc.","SerialNumber":"CN0000000A0001","SKU":"ABC1234","UUID":"4c4c4544-0042-4310-8031-b2c04f333334",
				"Oem":{"Dell":{"DellSystem":{"NodeID":"ABC1234","ChassisServiceTag":"ENC9999","smbiosGUID":"44454c4c-4200-1043-8031-b2c04f333334"}}}}`, nil), "Dell",
			identity.Facts{Serial: "ABC1234", BoardSerial: "CN0000000A0001", ChassisSerial: "ENC9999", UUID: "4c4c4544-0042-4310-8031-b2c04f333334"},
		},
		{
			"T6 HPE", one(`{"Manufacturer":"HPE","SerialNumber":"MXQ0000001","Oem":{"Hpe":{"PCASerialNumber":"PWAMT%%LMB0001","PostState":"InPost"}}}`, nil), "HPE",
			identity.Facts{Serial: "MXQ0000001", BoardSerial: "PWAMT%%LMB0001"},
		},
		{
			"iLO 4", one(`{"Manufacturer":"HP","SerialNumber":"MXQ0000001","Oem":{"Hp":{"PCASerialNumber":"PWAMT0001"}}}`, nil), "HPE",
			identity.Facts{Serial: "MXQ0000001", BoardSerial: "PWAMT0001"},
		},
		{
			"T7 Lenovo, the drive enclosure is ignored", one(`{"Id":"1","Manufacturer":"Lenovo","SerialNumber":"J1000001"}`, map[string]string{
				"/redfish/v1/Chassis":   `{"Members":[{"@odata.id":"/redfish/v1/Chassis/3"},{"@odata.id":"/redfish/v1/Chassis/1"}]}`,
				"/redfish/v1/Chassis/1": `{"SerialNumber":"J1000001","Links":{"ComputerSystems":[{"@odata.id":"/redfish/v1/Systems/1"}]},"Oem":{"Lenovo":{"SystemBoardSerialNumber":"C1KS00R0001","SysEncloseSerialNum":null}}}`,
				"/redfish/v1/Chassis/3": `{"SerialNumber":"R4SH00000"}`,
			}), "Lenovo",
			identity.Facts{Serial: "J1000001", BoardSerial: "C1KS00R0001", ChassisSerial: "J1000001"},
		},
		{
			"board serial of an Assembly", one(`{"Id":"1","Manufacturer":"Acme","SerialNumber":"A1","Links":{"Chassis":"/redfish/v1/Chassis/1"}}`, map[string]string{
				"/redfish/v1/Chassis/1":          `{"SerialNumber":"A1","ChassisType":"RackMount","Assembly":{"@odata.id":"/redfish/v1/Chassis/1/Assembly"}}`,
				"/redfish/v1/Chassis/1/Assembly": `{"Assemblies":[{"Name":"Product FRU Assembly","SerialNumber":"P1"},{"Name":"MB Board FRU Assembly0","SerialNumber":"B1"}]}`,
			}), "Acme",
			identity.Facts{Serial: "A1", BoardSerial: "B1", ChassisSerial: "A1"},
		},
		{
			"DGX: a chassis that is the board", one(`{"Id":"1","Manufacturer":"NVIDIA","SerialNumber":"B1","Links":{"Chassis":[{"@odata.id":"/redfish/v1/Chassis/CPUBaseboard"},{"@odata.id":"/redfish/v1/Chassis/DGX"}]}}`, map[string]string{
				"/redfish/v1/Chassis/CPUBaseboard": `{"Id":"CPUBaseboard","ChassisType":"Module","SerialNumber":"B1"}`,
				"/redfish/v1/Chassis/DGX":          `{"Id":"DGX","ChassisType":"RackMount","SerialNumber":"C1"}`,
			}), "NVIDIA",
			identity.Facts{Serial: "B1", BoardSerial: "B1", ChassisSerial: "C1"},
		},
		{
			"placeholders are nothing", one(`{"Id":"1","Manufacturer":"Acme","SerialNumber":"To be filled by O.E.M.","UUID":"00000000-0000-0000-0000-000000000000"}`, nil), "Acme",
			identity.Facts{},
		},
		{
			"mistyped, with a byte order mark and a trailing comma", one("\xef\xbb\xbf"+`{"Id":1,"Manufacturer":"Acme","SerialNumber":123,"TotalSystemMemoryGiB":"64","Status":[],"Boot":[],"Links":[],"Actions":"x",}`, nil), "Acme",
			identity.Facts{Serial: "123"},
		},
		{
			"MACs", one(`{"Id":"1","SerialNumber":"A1","EthernetInterfaces":{"href":"/redfish/v1/Systems/1/EthernetInterfaces/"}}`, map[string]string{
				"/redfish/v1/Systems/1/EthernetInterfaces": `{"Members":["/redfish/v1/Systems/1/EthernetInterfaces/1",{"@odata.id":"https://10.1.2.3/redfish/v1/Systems/1/EthernetInterfaces/2"},{"@odata.id":"/redfish/v1/gone"}],
					"Members@odata.nextLink":"/redfish/v1/Systems/1/EthernetInterfaces"}`,
				"/redfish/v1/Systems/1/EthernetInterfaces/1": `{"MACAddress":"0C-C4-7A-00-00-01","PermanentMACAddress":"0cc47a000001"}`,
				"/redfish/v1/Systems/1/EthernetInterfaces/2": `{"MACAddress":"be:3a:f2:b6:05:9f","Description":"USB host interface"}`,
			}), "",
			identity.Facts{Serial: "A1", MACs: []string{"0c:c4:7a:00:00:01", "be:3a:f2:b6:05:9f"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			id := identify(t, tt.docs)
			if diff := cmp.Diff(tt.want, id.Facts); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
			if id.Vendor != tt.vendor {
				t.Errorf("vendor is %q, want %q", id.Vendor, tt.vendor)
			}
		})
	}
}

// T4, T5, T6: what Redfish says and what the firmware says is one machine.
func TestRedfishAndFirmwareAgree(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		system string
		seen   identity.Facts
	}{
		{"T4 UUID in the other byte order", `{"UUID":"005CB4E7-0989-EB11-8000-7CC255000001"}`, identity.Facts{UUID: "e7b45c00-8909-11eb-8000-7cc255000001"}},
		{"T5 Dell with dots", `{"Manufacturer":"Dell Inc.","SerialNumber":"CN0000000A0001","SKU":"ABC1234"}`, identity.Facts{Serial: "ABC1234", BoardSerial: ".ABC1234.CN0000000A0001.01a."}},
		{"T5 Dell with slashes", `{"Manufacturer":"Dell Inc.","SerialNumber":"CN0000000A0001","SKU":"ABC1234"}`, identity.Facts{BoardSerial: "/ABC1234/CN0000000A0001/"}},
		{"T6 HPE", `{"Manufacturer":"HPE","SerialNumber":"MXQ0000001","Oem":{"Hpe":{"PCASerialNumber":"PWAMT%%LMB0001"}}}`, identity.Facts{BoardSerial: "PWAMT%%LMB0001"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			id := identify(t, one(tt.system, nil))
			v := identity.NewIndex([]identity.Candidate{{Name: "node", Facts: []identity.Facts{id.Facts}}}).Match(tt.seen)
			if v.Outcome != identity.Match {
				t.Errorf("BMC %+v and firmware %+v: %s", id.Facts, tt.seen, v.Reason)
			}
		})
	}
}

// T2: four boards of one chassis are four machines.
func TestBoardsOfOneChassisAreToldApart(t *testing.T) {
	t.Parallel()
	boards := []string{"1", "2", "3", "4"}
	candidates := make([]identity.Candidate, 0, len(boards))
	for _, n := range boards {
		h := hardware(redfishtest.Supermicro())
		h.BoardSerial, h.UUID, h.MACs = "ZM000S00000"+n, "00000000-0000-0000-0000-0CC47A00000"+n, nil
		id, err := dial(t, configFor(t, service(t, h))).Identify(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		candidates = append(candidates, identity.Candidate{Name: "node-" + n, Facts: []identity.Facts{id.Facts}})
	}
	v := identity.NewIndex(candidates).Match(identity.Facts{Serial: "S100000X0000001", BoardSerial: "ZM000S000003"})
	if v.Outcome != identity.Match || v.Name != "node-3" {
		t.Errorf("verdict is %+v", v)
	}
}

// T8, T9 and the rest of the choice among several systems.
func TestSystemIsChosen(t *testing.T) {
	t.Parallel()
	const (
		collection = `{"Members":[{"@odata.id":"/redfish/v1/Systems/A"},{"@odata.id":"/redfish/v1/Systems/B"}]}`
		boot       = `"Boot":{"BootSourceOverrideTarget":"None","BootSourceOverrideTarget@Redfish.AllowableValues":["None","Pxe"]},`
		reset      = `"Actions":{"#ComputerSystem.Reset":{"target":"/x"}},`
	)
	able := func(id, serial string) string {
		return `{` + boot + reset + `"Id":"` + id + `","SerialNumber":"` + serial + `"}`
	}
	for _, tt := range []struct {
		name     string
		a, b     string
		system   string
		expected identity.Facts
		want     string
		kind     error
		says     string
	}{
		{name: "T8 a baseboard that answers 503", b: able("B", "S2"), want: "B"},
		{name: "T8 a baseboard without Boot and Actions", a: `{"Id":"A"}`, b: able("B", "S2"), want: "B"},
		{name: "T9 a hypervisor", a: `{` + reset + `"Id":"A","SystemType":"OS"}`, b: able("B", "S2"), want: "B"},
		{name: "by id", a: able("A", "S1"), b: able("B", "S2"), system: "b", want: "B"},
		{name: "by URI", a: able("A", "S1"), b: able("B", "S2"), system: "https://bmc/redfish/v1/Systems/A/", want: "A"},
		{name: "by an Id unlike the path", a: able("blade7", "S1"), b: able("B", "S2"), system: "blade7", want: "blade7"},
		{name: "by the expected serial", a: able("A", "S1"), b: able("B", "S2"), expected: identity.Facts{Serial: "s2"}, want: "B"},
		{name: "an unknown id", a: able("A", "S1"), b: able("B", "S2"), system: "C", kind: ErrNoSystem, says: "it has A, B"},
		{name: "nothing tells them apart", a: able("A", "S1"), b: able("B", "S2"), kind: ErrAmbiguousSystem, says: "A (S1), B (S2); set bmc.system"},
		{name: "expected is neither", a: able("A", "S1"), b: able("B", "S2"), expected: identity.Facts{Serial: "S9"}, kind: ErrAmbiguousSystem, says: "A (S1), B (S2)"},
		{name: "the only able one is another machine", a: `{"Id":"A"}`, b: able("B", "S2"), expected: identity.Facts{Serial: "S9"}, kind: ErrAmbiguousSystem, says: "this is another machine"},
		{name: "expected is shared", a: able("A", "S1"), b: able("B", "S1"), expected: identity.Facts{Serial: "S1"}, kind: ErrAmbiguousSystem, says: "A (S1), B (S1)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t, map[string]string{
				"/redfish/v1/Systems": collection, "/redfish/v1/Systems/A": tt.a, "/redfish/v1/Systems/B": tt.b,
			})
			if tt.a == "" {
				s.on["GET /redfish/v1/Systems/A"] = func(string, http.Header) *reply {
					return &reply{status: 503, body: `{"error":{"code":"Ami.1.0.HMCCommuicationFailed","message":"x"}}`}
				}
			}
			cfg := s.config(t)
			cfg.System, cfg.Expected = tt.system, tt.expected
			id, err := dial(t, cfg).Identify(t.Context())
			if tt.kind == nil {
				if err != nil || id.System != tt.want {
					t.Errorf("system is %q (%v), want %q", id.System, err, tt.want)
				}
				if n := s.count("GET /redfish/v1/Systems/A"); n > 2 {
					t.Errorf("%d reads of the other system", n)
				}
				return
			}
			if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

// T7b: no systems is an error, not an empty success.
func TestNoSystemsIsAnError(t *testing.T) {
	t.Parallel()
	for name, docs := range map[string]map[string]string{
		"not in the root":    {"/redfish/v1": `{"Id":"RootService","Links":{"Sessions":{"@odata.id":"/redfish/v1/SessionService/Sessions"}}}`},
		"an empty list":      {"/redfish/v1/Systems": `{"Members":[]}`},
		"a list of nothings": {"/redfish/v1/Systems": `{"Members":[null,{},7,{"@odata.id":""}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := dial(t, newScript(t, docs).config(t)).Identify(t.Context())
			if !errors.Is(err, ErrNoSystem) || !strings.Contains(err.Error(), "check that bmc.address") {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestSystemsAreFoundWithoutALinkInTheRoot(t *testing.T) {
	t.Parallel()
	docs := one(`{"Id":"FCH0000V000","SerialNumber":"FCH0000V000"}`, nil)
	docs["/redfish/v1"] = `{"Id":"RootService","Links":{"Sessions":{"@odata.id":"/redfish/v1/SessionService/Sessions"}}}`
	if id := identify(t, docs); id.Facts.Serial != "FCH0000V000" {
		t.Errorf("identity is %+v", id)
	}
}
