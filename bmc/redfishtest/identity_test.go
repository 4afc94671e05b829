package redfishtest_test

import (
	"net/http"
	"testing"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

func fullConfig(p redfishtest.Profile) redfishtest.Config {
	return redfishtest.Config{
		Profile: p, Serial: "SYS0001", BoardSerial: "BOARD0001", ChassisSerial: "CHASSIS0001",
		UUID: testUUID, Model: "M-1", MACs: []string{"0C:C4:7A:00:00:01", "0C:C4:7A:00:00:02"},
	}
}

func TestEveryVendorShowsSerialsInItsOwnPlace(t *testing.T) {
	t.Parallel()
	const (
		systemDoc  = "system"
		chassisDoc = "chassis"
		assembly   = "assembly"
	)
	type fact struct {
		doc  string
		path []string
		want any
	}
	tests := []struct {
		profile redfishtest.Profile
		facts   []fact
	}{
		{redfishtest.Generic(), []fact{
			{systemDoc, []string{"SerialNumber"}, "SYS0001"},
			{systemDoc, []string{"Model"}, "M-1"},
			{chassisDoc, []string{"SerialNumber"}, "CHASSIS0001"},
			{assembly, []string{"Id"}, "Assembly"},
		}},
		{redfishtest.Supermicro(), []fact{
			{systemDoc, []string{"SerialNumber"}, "SYS0001"},
			{systemDoc, []string{"SKU"}, "To be filled by O.E.M."},
			{chassisDoc, []string{"SerialNumber"}, "CHASSIS0001"},
			{chassisDoc, []string{"Oem", "Supermicro", "BoardSerialNumber"}, "BOARD0001"},
		}},
		{redfishtest.SupermicroX10(), []fact{
			{chassisDoc, []string{"Oem", "Supermicro", "BoardSerialNumber"}, "BOARD0001"},
			{systemDoc, []string{"Boot", "BootSourceOverrideMode"}, nil},
		}},
		{redfishtest.Dell(), []fact{
			{systemDoc, []string{"SKU"}, "SYS0001"},
			{systemDoc, []string{"SerialNumber"}, "BOARD0001"},
			{systemDoc, []string{"Oem", "Dell", "DellSystem", "NodeID"}, "SYS0001"},
			{systemDoc, []string{"Oem", "Dell", "DellSystem", "ChassisServiceTag"}, "CHASSIS0001"},
			{systemDoc, []string{"Oem", "Dell", "DellSystem", "smbiosGUID"}, "44454c4c-4200-1043-8031-b2c04f333334"},
			{chassisDoc, []string{"SKU"}, "SYS0001"},
		}},
		{redfishtest.HPE(), []fact{
			{systemDoc, []string{"SerialNumber"}, "SYS0001"},
			{systemDoc, []string{"Oem", "Hpe", "PCASerialNumber"}, "BOARD0001"},
			{chassisDoc, []string{"SerialNumber"}, "CHASSIS0001"},
		}},
		{redfishtest.Lenovo(), []fact{
			{systemDoc, []string{"SerialNumber"}, "SYS0001"},
			{chassisDoc, []string{"Oem", "Lenovo", "SystemBoardSerialNumber"}, "BOARD0001"},
			{chassisDoc, []string{"Oem", "Lenovo", "SysEncloseSerialNum"}, "CHASSIS0001"},
		}},
		{redfishtest.AMI(), []fact{
			{systemDoc, []string{"Id"}, "Self"},
			{systemDoc, []string{"Boot", "BootSourceOverrideTarget@Redfish.AllowableValues"}, nil},
			{chassisDoc, []string{"Assembly"}, nil},
		}},
		{redfishtest.SushyTools(), []fact{
			{systemDoc, []string{"SerialNumber"}, nil},
			{systemDoc, []string{"UUID"}, testUUID},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.profile.Name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, start(t, fullConfig(tt.profile)))
			docs := map[string]map[string]any{
				systemDoc:  c.get("/redfish/v1/Systems/" + tt.profile.SystemID),
				chassisDoc: c.get("/redfish/v1/Chassis/" + tt.profile.ChassisID),
				assembly:   c.get("/redfish/v1/Chassis/" + tt.profile.ChassisID + "/Assembly"),
			}
			for _, f := range tt.facts {
				wantEqual(t, f.doc+" "+f.path[len(f.path)-1], at(docs[f.doc], f.path...), f.want)
			}
			wantEqual(t, "UUID", docs[systemDoc]["UUID"], any(testUUID))
			wantEqual(t, "manufacturer", docs[systemDoc]["Manufacturer"], any(tt.profile.Manufacturer))
		})
	}
}

// Every link of every document leads somewhere.
func TestNoLinkIsDead(t *testing.T) {
	t.Parallel()
	for _, profile := range redfishtest.Profiles() {
		t.Run(profile.Name, func(t *testing.T) {
			t.Parallel()
			s := start(t, fullConfig(profile))
			c := newClient(t, s)
			seen := map[string]bool{}
			var visit func(path string)
			visit = func(path string) {
				if seen[path] {
					return
				}
				seen[path] = true
				walk(c.get(path), visit)
			}
			visit("/redfish/v1/")
			for _, path := range []string{
				s.SystemPath() + "/EthernetInterfaces/2",
				"/redfish/v1/Managers/" + profile.ManagerID,
				"/redfish/v1/Chassis/" + profile.ChassisID,
			} {
				if !seen[path] {
					t.Errorf("no way leads from the root to %s", path)
				}
			}
		})
	}
}

// walk calls visit for each link that is not a part of its own document.
func walk(value any, visit func(string)) {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			path, isString := member.(string)
			switch {
			case isString && (name == "@odata.id" || name == "@Redfish.ActionInfo"):
				if !containsFragment(path) {
					visit(path)
				}
			case !isString:
				walk(member, visit)
			}
		}
	case []any:
		for _, member := range v {
			walk(member, visit)
		}
	}
}

func containsFragment(path string) bool {
	for _, r := range path {
		if r == '#' {
			return true
		}
	}
	return false
}

func TestBlankSerialsAreShownAsGiven(t *testing.T) {
	t.Parallel()
	blank := "          "
	c := newClient(t, start(t, redfishtest.Config{
		Profile: redfishtest.SupermicroX10(), Serial: blank, BoardSerial: blank, ChassisSerial: blank,
	}))
	wantEqual(t, "serial", c.get("/redfish/v1/Systems/1")["SerialNumber"], any(blank))
	wantEqual(t, "board", at(c.get("/redfish/v1/Chassis/1"), "Oem", "Supermicro", "BoardSerialNumber"), any(blank))
}

func TestExtraMembersStandBesideTheSystem(t *testing.T) {
	t.Parallel()
	s := start(t, redfishtest.Config{Extra: []redfishtest.Extra{redfishtest.HGXBaseboard(), redfishtest.Hypervisor()}})
	c := newClient(t, s)
	wantEqual(t, "members", c.get("/redfish/v1/Systems")["Members"], any([]any{
		map[string]any{"@odata.id": "/redfish/v1/Systems/HGX_Baseboard_0"},
		map[string]any{"@odata.id": "/redfish/v1/Systems/hypervisor"},
		map[string]any{"@odata.id": "/redfish/v1/Systems/1"},
	}))
	wantEqual(t, "HGX", c.do("GET", "/redfish/v1/Systems/HGX_Baseboard_0", "").status, http.StatusServiceUnavailable)
	wantEqual(t, "hypervisor", c.get("/redfish/v1/Systems/hypervisor")["Boot"], any(nil))
}

// Lenovo's Chassis/3 is a drive enclosure and must not be taken for the machine.
func TestLenovoHasAnUnrelatedChassis(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, redfishtest.Config{Profile: redfishtest.Lenovo()}))
	wantEqual(t, "count", c.get("/redfish/v1/Chassis")["Members@odata.count"], any(2.0))
	wantEqual(t, "links", at(c.get("/redfish/v1/Chassis/3"), "Links", "ComputerSystems"), any(nil))
}

func TestAProfileCanBeEdited(t *testing.T) {
	t.Parallel()
	p := redfishtest.HPE().With(redfishtest.ResourceSystem, func(_ redfishtest.Hardware, d redfishtest.Document) {
		d["SerialNumber"] = 123
	})
	doc := newClient(t, start(t, fullConfig(p))).get("/redfish/v1/Systems/1")
	wantEqual(t, "edited", doc["SerialNumber"], any(123.0))
	wantEqual(t, "vendor's own", at(doc, "Oem", "Hpe", "PCASerialNumber"), any("BOARD0001"))
	unchanged := newClient(t, start(t, fullConfig(redfishtest.HPE()))).get("/redfish/v1/Systems/1")
	wantEqual(t, "other services", unchanged["SerialNumber"], any("SYS0001"))
}

func TestResetTypesAreWhereTheVendorHasThem(t *testing.T) {
	t.Parallel()
	for _, p := range redfishtest.Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, start(t, redfishtest.Config{Profile: p}))
			path := "/redfish/v1/Systems/" + p.SystemID
			action := at(c.get(path), "Actions", "#ComputerSystem.Reset")
			_, inSystem := at(action, "ResetType@Redfish.AllowableValues").([]any)
			wantEqual(t, "in the System", inSystem, !p.Reset.ActionInfo)
			status := c.do("GET", path+"/ResetActionInfo", "").status
			wantEqual(t, "as ActionInfo", status == http.StatusOK, p.Reset.ActionInfo)
		})
	}
}

func TestProfileNamed(t *testing.T) {
	t.Parallel()
	for _, p := range redfishtest.Profiles() {
		got, ok := redfishtest.ProfileNamed(p.Name)
		wantEqual(t, "found "+p.Name, ok, true)
		wantEqual(t, "name", got.Name, p.Name)
	}
	_, ok := redfishtest.ProfileNamed("nobody")
	wantEqual(t, "found nobody", ok, false)
}
