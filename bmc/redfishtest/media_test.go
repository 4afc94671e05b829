package redfishtest_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

const (
	iso        = "http://192.0.2.1/metal-amd64.iso"
	insertBody = `{"Image":"` + iso + `","Inserted":true,"WriteProtected":true}`
)

// drive finds the first drive that takes CDs, from the document kind.
func drive(t *testing.T, c *client, from string) string {
	t.Helper()
	collection, ok := at(c.get(from), "VirtualMedia", "@odata.id").(string)
	if !ok {
		t.Fatalf("%s leads to no virtual media", from)
	}
	members, _ := c.get(collection)["Members"].([]any)
	for _, m := range members {
		path := at(m, "@odata.id").(string)
		types, _ := c.get(path)["MediaTypes"].([]any)
		for _, kind := range types {
			if kind == "CD" && path[len(path)-5:] != "RDOC1" {
				return path
			}
		}
	}
	t.Fatalf("no CD drive in %s", collection)
	return ""
}

// Every vendor: insert, see it, boot from it, eject.
func TestVirtualMediaReachesTheMachine(t *testing.T) {
	t.Parallel()
	for _, p := range redfishtest.Profiles() {
		if p.Media.None {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			machine := new(redfishtest.NullMachine)
			s := start(t, redfishtest.Config{Profile: p, Machine: machine})
			c := newClient(t, s).with("If-Match", "*")
			if p.ETag.RefuseOnActions {
				c = newClient(t, s)
			}
			from := "/redfish/v1/Managers/" + p.ManagerID
			if p.Media.On != nil && p.Media.On[0] == redfishtest.ResourceSystem {
				from = s.SystemPath()
			}
			path := drive(t, c, from)
			insert := func() reply {
				if p.Media.ByPatch {
					return c.do("PATCH", path, insertBody)
				}
				return c.do("POST", path+"/Actions/VirtualMedia.InsertMedia", insertBody)
			}
			control := path + "/Oem/" + p.Media.Control + "/Actions/VirtualMedia.VmmControl"
			taken := 204
			if p.Tasks.Media {
				taken = 202
			}
			if p.Media.Control != "" {
				insert = func() reply { return c.do("POST", control, `{"VmmControlType":"Connect","Image":"`+iso+`"}`) }
			}
			wantEqual(t, "at first", at(c.get(path), "Inserted"), any(false))
			wantEqual(t, "insert", insert().status, taken)
			wantEqual(t, "insert again", messageID(insert()), p.Registry+".ResourceInUse")
			shown := c.get(path)
			wantEqual(t, "image", shown["Image"], any(iso))
			wantEqual(t, "inserted", shown["Inserted"], any(true))
			wantEqual(t, "write protected", shown["WriteProtected"], any(true))

			s.SetOverride(redfishtest.Override{Target: "Cd", Enabled: "Once", Mode: "UEFI"})
			wantEqual(t, "on", c.do("POST", resetPath(p.SystemID), resetBody("On")).status < 300, true)
			want := []redfishtest.Boot{{Target: "Cd", Mode: "UEFI", Media: iso}}
			if diff := cmp.Diff(want, machine.Boots()); diff != "" {
				t.Errorf("boots (-want +got):\n%s", diff)
			}
			eject, body := "POST", "{}"
			target := path + "/Actions/VirtualMedia.EjectMedia"
			if p.Media.ByPatch {
				eject, target, body = "PATCH", path, `{"Inserted":false,"Image":null}`
			}
			if p.Media.Control != "" {
				target, body = control, `{"VmmControlType":"Disconnect"}`
			}
			wantEqual(t, "eject", c.do(eject, target, body).status, taken)
			wantEqual(t, "ejected", c.get(path)["Image"], any(nil))
			wantEqual(t, "media", s.Media(), "")
		})
	}
}

func TestVirtualMediaRefusals(t *testing.T) {
	t.Parallel()
	licence, lying := redfishtest.Generic(), redfishtest.Generic()
	licence.Media.Refusal = redfishtest.Answer{Status: 403, Body: redfishtest.ErrorBody("Base.1.13.GeneralError", "SMC.1.0.OemLicenseNotPassed", "Not licensed.", "DCMS ")}
	const manager = "/redfish/v1/Managers/1/VirtualMedia/"
	const cd = manager + "CD1/Actions/VirtualMedia.InsertMedia"
	tests := []struct {
		name               string
		profile            redfishtest.Profile
		method, path, body string
		status             int
		message            string
	}{
		{"no image", redfishtest.Generic(), "POST", cd, `{}`, 400, "Base.1.13.ActionParameterMissing"},
		{"no URI", redfishtest.Generic(), "POST", cd, `{"Image":"talos.iso"}`, 400, "Base.1.13.ActionParameterValueFormatError"},
		{"unknown scheme", redfishtest.Generic(), "POST", cd, `{"Image":"gopher://a/b"}`, 400, "Base.1.13.ActionParameterValueFormatError"},
		{"not JSON", redfishtest.Generic(), "POST", cd, `{`, 400, "Base.1.13.MalformedJSON"},
		{"unknown drive", redfishtest.Generic(), "POST", manager + "CD9/Actions/VirtualMedia.InsertMedia", insertBody, 404, "Base.1.13.ResourceMissingAtURI"},
		{"from the System, which does not lead there", redfishtest.Generic(), "GET", "/redfish/v1/Systems/1/VirtualMedia", "", 404, "Base.1.13.ResourceMissingAtURI"},
		{"a PATCH where there are actions", redfishtest.Generic(), "PATCH", manager + "CD1", insertBody, 405, "Base.1.13.OperationNotAllowed"},
		{"an action where there is none", redfishtest.Lenovo(), "POST", manager + "EXT1/Actions/VirtualMedia.InsertMedia", insertBody, 404, "Base.1.12.ResourceMissingAtURI"},
		{"a drive without a network", redfishtest.Lenovo(), "PATCH", manager + "RDOC1", insertBody, 400, "Base.1.12.ActionNotSupported"},
		{"no licence", licence, "POST", cd, insertBody, 403, "SMC.1.0.OemLicenseNotPassed"},
		{"a standard action on Huawei", redfishtest.Huawei(), "POST", manager + "CD/Actions/VirtualMedia.InsertMedia", insertBody, 404, "Base.1.0.ResourceMissingAtURI"},
		{"Huawei's action without an image", redfishtest.Huawei(), "POST", manager + "CD/Oem/Huawei/Actions/VirtualMedia.VmmControl", `{"VmmControlType":"Connect"}`, 400, "Base.1.0.ActionParameterMissing"},
		{"Huawei's action elsewhere", redfishtest.HPE(), "POST", manager + "2/Oem/Huawei/Actions/VirtualMedia.VmmControl", `{"VmmControlType":"Disconnect"}`, 404, "Base.1.4.ResourceMissingAtURI"},
		{"none at all", redfishtest.NVIDIA(), "GET", "/redfish/v1/Managers/BMC_0/VirtualMedia", "", 404, "Base.1.16.ResourceMissingAtURI"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, redfishtest.Config{Profile: tt.profile})
			got := newClient(t, s).with("If-Match", "*").do(tt.method, tt.path, tt.body)
			wantEqual(t, "status", got.status, tt.status)
			wantEqual(t, "message", messageID(got), tt.message)
			wantEqual(t, "media", s.Media(), "")
		})
	}
	t.Run("a lie", func(t *testing.T) {
		t.Parallel()
		s := start(t, redfishtest.Config{Profile: lying})
		s.Inject(redfishtest.Fault{Method: "POST", Action: redfishtest.IgnoreWrite()})
		wantEqual(t, "insert", newClient(t, s).do("POST", cd, insertBody).status, http.StatusNoContent)
		wantEqual(t, "media", s.Media(), "")
	})
}

// What is in a floppy drive is nothing that a machine boots an ISO image from.
func TestOnlyCDDrivesCount(t *testing.T) {
	t.Parallel()
	s := start(t, redfishtest.Config{Profile: redfishtest.HPE()})
	got := newClient(t, s).do("POST", "/redfish/v1/Managers/1/VirtualMedia/1/Actions/VirtualMedia.InsertMedia", insertBody)
	wantEqual(t, "insert", got.status, 204)
	wantEqual(t, "media", s.Media(), "")
}
