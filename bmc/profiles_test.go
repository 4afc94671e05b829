package bmc

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/inventory/identity"
)

func hardware(p redfishtest.Profile) redfishtest.Config {
	return redfishtest.Config{
		Profile: p, Serial: "S100000X0000001", BoardSerial: "ZM000S000001", ChassisSerial: "C100000AA000001",
		UUID: "00000000-0000-0000-0000-0cc47a000001", Model: "SYS-1", MACs: []string{"0C:C4:7A:00:00:01", "0C:C4:7A:00:00:02"},
		InitialPower: true,
	}
}

// Every vendor profile goes the whole way of a provisioning run.
func TestEveryVendorIsIdentifiedArmedAndCycled(t *testing.T) {
	t.Parallel()
	for _, p := range redfishtest.Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			s := service(t, hardware(p))
			c := dial(t, configFor(t, s))

			id, err := c.Identify(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if id.PowerState != On || id.Model != "SYS-1" || id.System == "" {
				t.Errorf("identity is %+v", id)
			}
			if want := []string{"0c:c4:7a:00:00:01", "0c:c4:7a:00:00:02"}; !slices.Equal(id.Facts.MACs, want) {
				t.Errorf("MACs are %v, want %v", id.Facts.MACs, want)
			}
			armed, err := c.ArmNetworkBoot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !armed.Armed() {
				t.Errorf("armed override is %v", armed)
			}
			if len(s.Resets()) != 0 {
				t.Errorf("arming reset the machine: %v", s.Resets())
			}
			if err := c.PowerCycle(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got, want := s.Resets(), []string{"ForceOff", "On"}; !slices.Equal(got, want) {
				t.Errorf("resets are %v, want %v", got, want)
			}
			if state, err := c.PowerState(t.Context()); err != nil || state != On {
				t.Errorf("power is %v, %v", state, err)
			}
			if err := c.ClearBootOverride(t.Context()); err != nil {
				t.Fatal(err)
			}
			now, err := c.BootOverride(t.Context())
			if err != nil || now.Armed() {
				t.Errorf("after clearing the override is %v, %v", now, err)
			}
		})
	}
}

func TestArmedOverrideIsCleared(t *testing.T) {
	t.Parallel()
	for _, p := range redfishtest.Profiles() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			s := service(t, hardware(p))
			c := dial(t, configFor(t, s))
			if _, err := c.ArmNetworkBoot(t.Context()); err != nil {
				t.Fatal(err)
			}
			if now, err := c.BootOverride(t.Context()); err != nil || !now.Armed() {
				t.Fatalf("the override is %v, %v", now, err)
			}
			if err := c.ClearBootOverride(t.Context()); err != nil {
				t.Fatal(err)
			}
			if now, err := c.BootOverride(t.Context()); err != nil || now.Armed() {
				t.Errorf("after clearing the override is %v, %v", now, err)
			}
		})
	}
}

func TestSerialsAreFoundWhereTheVendorKeepsThem(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		profile redfishtest.Profile
		vendor  string
		facts   identity.Facts
		sources map[string]string
	}{
		{
			redfishtest.Supermicro(), "Supermicro",
			identity.Facts{Serial: "S100000X0000001", BoardSerial: "ZM000S000001", ChassisSerial: "C100000AA000001"},
			map[string]string{
				"serial": "/redfish/v1/Systems/1#/SerialNumber", "boardSerial": "/redfish/v1/Chassis/1#/Oem/Supermicro/BoardSerialNumber",
				"chassisSerial": "/redfish/v1/Chassis/1#/SerialNumber", "uuid": "/redfish/v1/Systems/1#/UUID",
			},
		},
		{
			redfishtest.Dell(), "Dell",
			identity.Facts{Serial: "S100000X0000001", BoardSerial: "ZM000S000001", ChassisSerial: "C100000AA000001"},
			map[string]string{
				"serial":        "/redfish/v1/Systems/System.Embedded.1#/SKU",
				"boardSerial":   "/redfish/v1/Systems/System.Embedded.1#/SerialNumber",
				"chassisSerial": "/redfish/v1/Systems/System.Embedded.1#/Oem/Dell/DellSystem/ChassisServiceTag",
				"uuid":          "/redfish/v1/Systems/System.Embedded.1#/UUID",
			},
		},
		{
			redfishtest.HPE(), "HPE",
			identity.Facts{Serial: "S100000X0000001", BoardSerial: "ZM000S000001", ChassisSerial: "C100000AA000001"},
			map[string]string{
				"serial": "/redfish/v1/Systems/1#/SerialNumber", "boardSerial": "/redfish/v1/Systems/1#/Oem/Hpe/PCASerialNumber",
				"chassisSerial": "/redfish/v1/Chassis/1#/SerialNumber", "uuid": "/redfish/v1/Systems/1#/UUID",
			},
		},
		{
			redfishtest.Lenovo(), "Lenovo",
			identity.Facts{Serial: "S100000X0000001", BoardSerial: "ZM000S000001", ChassisSerial: "C100000AA000001"},
			map[string]string{
				"serial": "/redfish/v1/Systems/1#/SerialNumber", "boardSerial": "/redfish/v1/Chassis/1#/Oem/Lenovo/SystemBoardSerialNumber",
				"chassisSerial": "/redfish/v1/Chassis/1#/Oem/Lenovo/SysEncloseSerialNum", "uuid": "/redfish/v1/Systems/1#/UUID",
			},
		},
	} {
		t.Run(tt.vendor, func(t *testing.T) {
			t.Parallel()
			s := service(t, hardware(tt.profile))
			c := dial(t, configFor(t, s))
			id, err := c.Identify(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			tt.facts.UUID = "00000000-0000-0000-0000-0cc47a000001"
			tt.facts.MACs = id.Facts.MACs
			if diff := cmp.Diff(tt.facts, id.Facts); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
			if id.Vendor != tt.vendor {
				t.Errorf("vendor is %q", id.Vendor)
			}
			for fact, want := range tt.sources {
				if got := id.Sources[fact]; got != want {
					t.Errorf("%s comes from %q, want %q", fact, got, want)
				}
			}
		})
	}
}
