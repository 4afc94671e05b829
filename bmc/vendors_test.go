package bmc

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/inventory/identity"
)

// Where makers beyond the first four have their serials, with the requests that
// finding them takes.
func TestBoardSerialsOfOtherMakers(t *testing.T) {
	t.Parallel()
	const chassis = `"Links":{"Chassis":[{"@odata.id":"/redfish/v1/Chassis/1"}]}`
	for _, tt := range []struct {
		name    string
		docs    map[string]string
		vendor  string
		want    identity.Facts
		where   string
		traffic []string
	}{
		{
			"Huawei, linked", one(`{"Id":"1","Manufacturer":"Huawei","SerialNumber":"H1",`+chassis+`}`, map[string]string{
				"/redfish/v1/Chassis/1":                         `{"Id":"1","SerialNumber":"C1","Oem":{"Huawei":{"Boards":{"@odata.id":"/redfish/v1/Chassis/1/Boards"}}}}`,
				"/redfish/v1/Chassis/1/Boards":                  `{"Members":[{"@odata.id":"/redfish/v1/Chassis/1/Boards/mainboardRiserCard1"},{"@odata.id":"/redfish/v1/Chassis/1/Boards/chassisMainBoard"}]}`,
				"/redfish/v1/Chassis/1/Boards/chassisMainBoard": `{"SerialNumber":"B1"}`,
			}), "Huawei", identity.Facts{Serial: "H1", BoardSerial: "B1", ChassisSerial: "C1"},
			"/redfish/v1/Chassis/1/Boards/chassisMainBoard#/SerialNumber",
			[]string{"GET /Chassis/1", "GET /Chassis/1/Boards", "GET /Chassis/1/Boards/chassisMainBoard"},
		},
		{
			"xFusion, the collection cannot be listed", one(`{"Id":"1","Manufacturer":"XFUSION","SerialNumber":"H1",`+chassis+`}`, map[string]string{
				"/redfish/v1/Chassis/1":                         `{"Id":"1","SerialNumber":"C1"}`,
				"/redfish/v1/Chassis/1/Boards/chassisMainBoard": `{"SerialNumber":"B1"}`,
			}), "xFusion", identity.Facts{Serial: "H1", BoardSerial: "B1", ChassisSerial: "C1"},
			"/redfish/v1/Chassis/1/Boards/chassisMainBoard#/SerialNumber",
			[]string{"GET /Chassis/1", "GET /Chassis/1/Boards", "GET /Chassis/1/Boards/chassisMainboard", "GET /Chassis/1/Boards/chassisMainBoard"},
		},
		{
			"Cisco, the Id is the serial", one(`{"Id":"FCH0000V00A","Manufacturer":"Cisco Systems Inc","SerialNumber":"","TotalSystemMemoryGiB":"N/A"}`, nil),
			"Cisco", identity.Facts{Serial: "FCH0000V00A"}, "", []string{"GET /Chassis"},
		},
		{
			"Cisco, an Id that is none", one(`{"Id":"1","Manufacturer":"Cisco Systems Inc"}`, nil),
			"Cisco", identity.Facts{}, "", []string{"GET /Chassis"},
		},
		{
			"NVIDIA GB200, the board is a chassis of its own", one(`{"Id":"System_0","Manufacturer":"NVIDIA","UUID":"1f000000-0000-4000-8000-000000000001",`+chassis+`}`, map[string]string{
				"/redfish/v1/Chassis/1":     `{"Id":"Chassis_0","ChassisType":"RackMount","SerialNumber":"1333000000001"}`,
				"/redfish/v1/Chassis/BMC_0": `{"Id":"BMC_0","SerialNumber":"HA0000000001"}`,
			}), "NVIDIA", identity.Facts{Serial: "1333000000001", BoardSerial: "HA0000000001", ChassisSerial: "1333000000001", UUID: "1f000000-0000-4000-8000-000000000001"},
			"/redfish/v1/Chassis/BMC_0#/SerialNumber", []string{"GET /Chassis/1", "GET /Chassis/BMC_0"},
		},
		{
			"AMI, nothing but placeholders", one(`{"Id":"Self","Manufacturer":"GIGABYTE","SerialNumber":"To be filled by O.E.M.",`+chassis+`}`, map[string]string{
				"/redfish/v1/Chassis/1": `{"Id":"Self","SerialNumber":"01234567890123456789AB"}`,
			}), "AMI", identity.Facts{ChassisSerial: "01234567890123456789AB"}, "", []string{"GET /Chassis/1"},
		},
		{
			"OpenBMC by its Oem", one(`{"Id":"system","SerialNumber":"S1","Oem":{"OpenBmc":{}},`+chassis+`}`, map[string]string{
				"/redfish/v1/Chassis/1":          `{"Id":"chassis","SerialNumber":"C1","Assembly":{"@odata.id":"/redfish/v1/Chassis/1/Assembly"}}`,
				"/redfish/v1/Chassis/1/Assembly": `{"Assemblies":[{"Name":"MB Board FRU Assembly0","SerialNumber":"B1"}]}`,
			}), "OpenBMC", identity.Facts{Serial: "S1", BoardSerial: "B1", ChassisSerial: "C1"},
			"/redfish/v1/Chassis/1/Assembly#/Assemblies/0/SerialNumber", []string{"GET /Chassis/1", "GET /Chassis/1/Assembly"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t, tt.docs)
			id, err := s.identified(t, s.config(t))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, id.Facts); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
			if id.Vendor != tt.vendor || id.Sources["boardSerial"] != tt.where {
				t.Errorf("vendor is %q, the board serial is from %q", id.Vendor, id.Sources["boardSerial"])
			}
			wantTraffic(t, s, reaching(tt.traffic...)...)
		})
	}
}

// The profiles of these makers, end to end.
func TestSerialsOfOtherProfiles(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		profile redfishtest.Profile
		vendor  string
		board   string
	}{
		{redfishtest.Huawei(), "Huawei", "ZM000S000001"},
		{redfishtest.Cisco(), "Cisco", ""},
		{redfishtest.CiscoWithoutSystems(), "Cisco", ""},
		{redfishtest.NVIDIA(), "NVIDIA", "ZM000S000001"},
		{redfishtest.OpenBMC(), "Contoso", "ZM000S000001"},
		{redfishtest.DellIDRAC10(), "Dell", "ZM000S000001"},
	} {
		t.Run(tt.profile.Name, func(t *testing.T) {
			t.Parallel()
			id, err := dial(t, configFor(t, service(t, hardware(tt.profile)))).Identify(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if id.Vendor != tt.vendor || id.Facts.BoardSerial != tt.board || id.Facts.Serial != "S100000X0000001" {
				t.Errorf("identity is %+v", id)
			}
		})
	}
}

// EthernetInterfaces are empty on many BMCs until an operating system has run.
func TestMACsOfNetworkAdapters(t *testing.T) {
	t.Parallel()
	const (
		adapters = "/redfish/v1/Chassis/1/NetworkAdapters"
		nic      = adapters + "/1"
		chassis  = `{"Id":"1","SerialNumber":"A1","NetworkAdapters":{"@odata.id":"` + adapters + `"}}`
	)
	base := func(more map[string]string) map[string]string {
		docs := one(`{"Id":"1","Manufacturer":"HPE","SerialNumber":"A1","Oem":{"Hpe":{"PCASerialNumber":"B1"}},"EthernetInterfaces":{"@odata.id":"/redfish/v1/Systems/1/EthernetInterfaces"},"Links":{"Chassis":["/redfish/v1/Chassis/1"]}}`, map[string]string{
			"/redfish/v1/Systems/1/EthernetInterfaces": `{"Members":[]}`,
			"/redfish/v1/Chassis/1":                    chassis,
			adapters:                                   `{"Members":[{"@odata.id":"` + nic + `"}]}`,
		})
		for path, doc := range more {
			docs[path] = doc
		}
		return docs
	}
	for _, tt := range []struct {
		name, source string
		docs         map[string]string
	}{
		{"functions", nic + "/NetworkDeviceFunctions/1#/Ethernet/PermanentMACAddress", base(map[string]string{
			nic:                               `{"NetworkDeviceFunctions":{"@odata.id":"` + nic + `/NetworkDeviceFunctions"},"Ports":{"@odata.id":"` + nic + `/Ports"}}`,
			nic + "/NetworkDeviceFunctions":   `{"Members":[{"@odata.id":"` + nic + `/NetworkDeviceFunctions/1"}]}`,
			nic + "/NetworkDeviceFunctions/1": `{"Ethernet":{"MACAddress":"0C:C4:7A:00:00:01","PermanentMACAddress":"0C:C4:7A:00:00:01"}}`,
		})},
		{"ports", nic + "/Ports/1#/Ethernet/AssociatedMACAddresses", base(map[string]string{
			nic:              `{"NetworkDeviceFunctions":{"@odata.id":"` + nic + `/gone"},"Ports":{"@odata.id":"` + nic + `/Ports"}}`,
			nic + "/Ports":   `{"Members":[{"@odata.id":"` + nic + `/Ports/1"}]}`,
			nic + "/Ports/1": `{"Ethernet":{"AssociatedMACAddresses":["0c:c4:7a:00:00:01"]}}`,
		})},
		{"old ports", nic + "/NetworkPorts/1#/AssociatedNetworkAddresses", base(map[string]string{
			nic:                     `{"NetworkPorts":{"@odata.id":"` + nic + `/NetworkPorts"}}`,
			nic + "/NetworkPorts":   `{"Members":[{"@odata.id":"` + nic + `/NetworkPorts/1"}]}`,
			nic + "/NetworkPorts/1": `{"AssociatedNetworkAddresses":["0c:c4:7a:00:00:01", "50:06:0b:00:00:c2:62:00"]}`,
		})},
		{"HPE's base adapters", "/redfish/v1/Systems/1/BaseNetworkAdapters/1#/PhysicalPorts", map[string]string{
			"/redfish/v1/Systems":                         systemsOne,
			"/redfish/v1/Systems/1":                       `{"Id":"1","Manufacturer":"HPE","SerialNumber":"A1","Oem":{"Hpe":{"PCASerialNumber":"B1","Links":{"NetworkAdapters":{"@odata.id":"/redfish/v1/Systems/1/BaseNetworkAdapters"}}}}}`,
			"/redfish/v1/Systems/1/BaseNetworkAdapters":   `{"Members":[{"@odata.id":"/redfish/v1/Systems/1/BaseNetworkAdapters/1"}]}`,
			"/redfish/v1/Systems/1/BaseNetworkAdapters/1": `{"PhysicalPorts":[{"MacAddress":"0c:c4:7a:00:00:01"},{"MacAddress":null}]}`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			id := identify(t, tt.docs)
			if want := []string{"0c:c4:7a:00:00:01"}; !cmp.Equal(id.Facts.MACs, want) {
				t.Errorf("MACs are %v", id.Facts.MACs)
			}
			if got := id.Sources["mac 0c:c4:7a:00:00:01"]; got != tt.source {
				t.Errorf("source is %q", got)
			}
		})
	}
}
