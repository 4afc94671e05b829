package redfishtest_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

// acme is a dump of an invented BMC in the layout of Redfish-Mockup-Creator.
func acme() fstest.MapFS {
	files := fstest.MapFS{}
	for folder, text := range map[string]string{
		"redfish/v1": `{"@odata.id":"/redfish/v1/","Vendor":"Acme","RedfishVersion":"1.9.0","Systems":{"@odata.id":"/redfish/v1/Systems"},
			"Chassis":{"@odata.id":"/redfish/v1/Chassis"},"Managers":{"@odata.id":"/redfish/v1/Managers"},
			"SessionService":{"@odata.id":"/redfish/v1/SessionService"},"Links":{"Sessions":{"@odata.id":"/redfish/v1/Sessions"}}}`,
		"redfish/v1/Systems":     `{"Members":[{"@odata.id":"/redfish/v1/Systems/Aux"},{"@odata.id":"/redfish/v1/Systems/Main"}]}`,
		"redfish/v1/Systems/Aux": `{"@odata.id":"/redfish/v1/Systems/Aux","Id":"Aux","PowerState":"On"}`,
		"redfish/v1/Systems/Main": `{"@odata.id":"/redfish/v1/Systems/Main","Id":"Main","Manufacturer":"Acme Corp.","SerialNumber":"ACME0001",
			"PowerState":"On","@odata.etag":"W/\"77\"","Oem":{"Acme":{"BoardSerial":"ACMEBOARD1"}},
			"Boot":{"BootOrder":["Boot0001"],"BootSourceOverrideEnabled":"Disabled","BootSourceOverrideMode":"UEFI","BootSourceOverrideTarget":"None"},
			"EthernetInterfaces":{"@odata.id":"/redfish/v1/Systems/Main/EthernetInterfaces"},
			"@Redfish.Settings":{"SettingsObject":{"@odata.id":"/redfish/v1/Systems/Main/Pending"}},
			"Links":{"Chassis":[{"@odata.id":"/redfish/v1/Chassis/Box"}],"ManagedBy":[{"@odata.id":"/redfish/v1/Managers/Ctl"}]},
			"Actions":{"#ComputerSystem.Reset":{"target":"/elsewhere","@Redfish.ActionInfo":"/redfish/v1/Systems/Main/ResetActionInfo"}}}`,
		"redfish/v1/Systems/Main/ResetActionInfo": `{"Parameters":[{"Name":"ResetType","AllowableValues":["On","ForceOff"]}]}`,
		"redfish/v1/Systems/Main/Pending": `{"@odata.id":"/redfish/v1/Systems/Main/Pending","Boot":{
			"BootSourceOverrideTarget":"None","BootSourceOverrideEnabled":"Disabled","BootSourceOverrideMode":"UEFI",
			"BootSourceOverrideTarget@Redfish.AllowableValues":["None","Pxe","Cd"]}}`,
		"redfish/v1/Systems/Main/EthernetInterfaces":   `{"Members":[{"@odata.id":"/redfish/v1/Systems/Main/EthernetInterfaces/A"}]}`,
		"redfish/v1/Systems/Main/EthernetInterfaces/A": `{"MACAddress":"02:00:00:00:00:01"}`,
		"redfish/v1/Chassis":                           `{"Members":[{"@odata.id":"/redfish/v1/Chassis/Box"}]}`,
		"redfish/v1/Chassis/Box":                       `{"@odata.id":"/redfish/v1/Chassis/Box","SerialNumber":"ACMEBOX1"}`,
		"redfish/v1/Managers":                          `{"Members":[{"@odata.id":"/redfish/v1/Managers/Ctl"}]}`,
		"redfish/v1/Managers/Ctl":                      `{"@odata.id":"/redfish/v1/Managers/Ctl","FirmwareVersion":"9.9"}`,
		"redfish/v1/Managers/Ctl/VirtualMedia":         `{"Members":[{"@odata.id":"/redfish/v1/Managers/Ctl/VirtualMedia/Drive"}]}`,
		"redfish/v1/Managers/Ctl/VirtualMedia/Drive": `{"MediaTypes":["CD","DVD"],
			"Actions":{"#VirtualMedia.InsertMedia":{"target":"x"},"#VirtualMedia.EjectMedia":{"target":"y"}}}`,
		"redfish/v1/Oem/Acme": `{"Hello":"world"}`,
	} {
		files[folder+"/index.json"] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

func TestADumpBecomesAProfile(t *testing.T) {
	t.Parallel()
	p, err := redfishtest.FromDump("acme", acme())
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "system, chassis, manager", []string{p.SystemID, p.ChassisID, p.ManagerID}, []string{"Main", "Box", "Ctl"})
	wantEqual(t, "resets", p.Reset.Types, []string{"On", "ForceOff"})
	wantEqual(t, "targets", p.Boot.Targets, []string{"None", "Pxe", "Cd"})
	wantEqual(t, "slots", p.Media.Slots, []redfishtest.Slot{{ID: "Drive", Types: []string{"CD", "DVD"}}})

	machine := new(redfishtest.NullMachine)
	s := start(t, redfishtest.Config{Profile: p, Machine: machine})
	c := newClient(t, s)
	main := c.get("/redfish/v1/Systems/Main")
	for what, pair := range map[string][2]any{
		"vendor":        {c.get("/redfish/v1/")["Vendor"], "Acme"},
		"serial":        {main["SerialNumber"], "ACME0001"},
		"OEM":           {at(main, "Oem", "Acme", "BoardSerial"), "ACMEBOARD1"},
		"boot order":    {at(main, "Boot", "BootOrder"), []any{"Boot0001"}},
		"allowable":     {at(main, "Boot", "BootSourceOverrideTarget@Redfish.AllowableValues"), nil},
		"power is live": {main["PowerState"], "Off"},
		"chassis":       {c.get("/redfish/v1/Chassis/Box")["SerialNumber"], "ACMEBOX1"},
		"manager":       {c.get("/redfish/v1/Managers/Ctl")["FirmwareVersion"], "9.9"},
		"MAC":           {c.get("/redfish/v1/Systems/Main/EthernetInterfaces/A")["MACAddress"], "02:00:00:00:00:01"},
		"anything else": {c.get("/redfish/v1/Oem/Acme")["Hello"], "world"},
		"the other one": {c.get("/redfish/v1/Systems/Aux")["Id"], "Aux"},
	} {
		wantEqual(t, what, pair[0], pair[1])
	}
	wantEqual(t, "members", at(c.get("/redfish/v1/Systems"), "Members@odata.count"), any(2.0))

	pending := "/redfish/v1/Systems/Main/Pending"
	wantEqual(t, "login", c.do("POST", sessions, rightLogin).status, http.StatusCreated)
	wantEqual(t, "arm", c.do("PATCH", pending, full).status, http.StatusNoContent)
	wantEqual(t, "insert", c.do("POST", "/redfish/v1/Managers/Ctl/VirtualMedia/Drive/Actions/VirtualMedia.InsertMedia", `{"Image":"http://a/b.iso"}`).status, http.StatusNoContent)
	wantEqual(t, "on", c.do("POST", resetPath("Main"), resetBody("On")).status, http.StatusNoContent)
	want := []redfishtest.Boot{{Target: "Pxe", Mode: "UEFI", Media: "http://a/b.iso"}}
	if diff := cmp.Diff(want, machine.Boots()); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
}

func TestADumpThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	broken, half := acme(), acme()
	broken["redfish/v1/Chassis/Box/index.json"].Data = []byte("{")
	delete(half, "redfish/v1/Systems/Main/index.json")
	for what, tt := range map[string]struct {
		dump fstest.MapFS
		want string
	}{
		"empty":     {fstest.MapFS{}, "index.json"},
		"not JSON":  {broken, "redfish/v1/Chassis/Box/index.json"},
		"no system": {half, "dump the whole tree"},
	} {
		if _, err := redfishtest.FromDump("x", tt.dump); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", what, err, tt.want)
		}
	}
}
