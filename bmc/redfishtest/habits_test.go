package redfishtest_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

const httpBody = `{"Boot":{"BootSourceOverrideTarget":"UefiHttp","BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"UEFI","HttpBootUri":"http://192.0.2.1/ipxe.efi"}}`

func TestHTTPBootReachesTheMachine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		profile     redfishtest.Profile
		under, with string
		status      int
		message     string
	}{
		{redfishtest.Generic(), "", "", 204, ""},
		{redfishtest.NVIDIA(), "/Settings", "", 204, ""},
		{redfishtest.NVIDIA(), "", "", 400, "Base.1.16.PropertyNotWritable"},
		{redfishtest.AMI(), "/SD", "*", 204, ""},
		{redfishtest.DellIDRAC10(), "/Settings", "", 200, ""},
		{redfishtest.OpenBMC(), "", "", 400, "Base.1.16.PropertyUnknown"},
		{redfishtest.SupermicroX10(), "", "", 400, "Base.v1_4_0.PropertyUnknown"},
	} {
		t.Run(tt.profile.Name+tt.under, func(t *testing.T) {
			t.Parallel()
			machine := new(redfishtest.NullMachine)
			s := start(t, redfishtest.Config{Profile: tt.profile, Machine: machine})
			c := newClient(t, s)
			got := c.with("If-Match", tt.with).do("PATCH", s.SystemPath()+tt.under, httpBody)
			wantEqual(t, "status", got.status, tt.status)
			wantEqual(t, "message", messageID(got), tt.message)
			c.do("POST", s.SystemPath()+"/Actions/ComputerSystem.Reset", resetBody("On"))
			want := defaultBoot
			if tt.status < 300 {
				want = redfishtest.Boot{Target: "UefiHttp", Mode: "UEFI", HTTPBootURI: "http://192.0.2.1/ipxe.efi"}
			}
			wantEqual(t, "boots", machine.Boots(), []redfishtest.Boot{want})
			wantEqual(t, "used up", s.Override().HTTPBootURI, "")
		})
	}
	s := start(t, redfishtest.Config{})
	got := newClient(t, s).do("PATCH", "/redfish/v1/Systems/1", `{"Boot":{"HttpBootUri":"ipxe.efi"}}`)
	wantEqual(t, "no URI", messageID(got), "Base.1.13.PropertyValueFormatError")
	targets := at(newClient(t, start(t, redfishtest.Config{Profile: redfishtest.NVIDIA()})).get("/redfish/v1/Systems/System_0"), "Boot", "BootSourceOverrideTarget@Redfish.AllowableValues")
	for _, target := range targets.([]any) {
		if target == "UefiHttp" {
			t.Error("UefiHttp is listed")
		}
	}
}

// metal-operator#997: no write is taken while the machine tests itself.
func TestHPERefusesWritesDuringPOST(t *testing.T) {
	t.Parallel()
	machine := new(redfishtest.NullMachine)
	s := start(t, redfishtest.Config{Profile: redfishtest.HPE(), Machine: machine, POST: time.Hour})
	c := newClient(t, s)
	wantEqual(t, "while off", c.do("PATCH", "/redfish/v1/Systems/1", noMode).status, 200)
	c.do("POST", resetPath("1"), resetBody("On"))
	got := c.do("PATCH", "/redfish/v1/Systems/1", noMode)
	wantEqual(t, "status", got.status, 400)
	wantEqual(t, "message", messageID(got), "iLO.2.37.UnableToModifyDuringSystemPOST")
	_ = machine.PowerOff(t.Context())
	wantEqual(t, "off again", c.do("PATCH", "/redfish/v1/Systems/1", noMode).status, 200)
}

func TestPOSTEnds(t *testing.T) {
	t.Parallel()
	s := start(t, redfishtest.Config{Profile: redfishtest.HPE(), POST: 50 * time.Millisecond})
	c := newClient(t, s)
	c.do("POST", resetPath("1"), resetBody("On"))
	eventually(t, "POST is over", func() bool { return c.do("PATCH", "/redfish/v1/Systems/1", noMode).status == 200 })
}

func TestIDRAC10(t *testing.T) {
	t.Parallel()
	const system = "/redfish/v1/Systems/System.Embedded.1"
	s := start(t, redfishtest.Config{Profile: redfishtest.DellIDRAC10(), InitialPower: true, Settling: time.Hour})
	c := newClient(t, s)
	wantEqual(t, "System", messageID(c.do("PATCH", system, full)), "Base.1.18.PropertyNotWritable")
	wantEqual(t, "Settings", c.do("PATCH", system+"/Settings", full).status, 200)
	wantEqual(t, "override", s.Override(), armed)
	reset := resetPath("System.Embedded.1")
	wantEqual(t, "action with If-Match", c.with("If-Match", "*").do("POST", reset, resetBody("ForceOff")).status, http.StatusPreconditionFailed)
	wantEqual(t, "action without", c.do("POST", reset, resetBody("ForceOff")).status, 204)
	wantEqual(t, "On too soon", c.do("POST", reset, resetBody("On")).status, http.StatusConflict)
	wantEqual(t, "power", s.PowerState(), "Off")
}

func TestSettlingEnds(t *testing.T) {
	t.Parallel()
	s := start(t, redfishtest.Config{Profile: redfishtest.DellIDRAC10(), InitialPower: true, Settling: 50 * time.Millisecond})
	c := newClient(t, s)
	c.do("POST", resetPath("System.Embedded.1"), resetBody("ForceOff"))
	eventually(t, "On is taken", func() bool { return c.do("POST", resetPath("System.Embedded.1"), resetBody("On")).status == 204 })
}

func TestCiscoCallsTheSystemByItsSerial(t *testing.T) {
	t.Parallel()
	s := start(t, redfishtest.Config{Profile: redfishtest.CiscoWithoutSystems(), Serial: "FCH1111V111"})
	c := newClient(t, s)
	wantEqual(t, "path", s.SystemPath(), "/redfish/v1/Systems/FCH1111V111")
	wantEqual(t, "Id", c.get(s.SystemPath())["Id"], any("FCH1111V111"))
	wantEqual(t, "root", c.get("/redfish/v1/")["Systems"], any(nil))
	wantEqual(t, "collection all the same", c.get("/redfish/v1/Systems")["Members@odata.count"], any(1.0))
}

func TestHuaweiBoards(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, redfishtest.Config{Profile: redfishtest.Huawei(), BoardSerial: "B1"}))
	boards := at(c.get("/redfish/v1/Chassis/1"), "Oem", "Huawei", "Boards", "@odata.id").(string)
	wantEqual(t, "boards", c.get(boards)["Members@odata.count"], any(2.0))
	wantEqual(t, "board", c.get(boards + "/chassisMainboard")["SerialNumber"], any("B1"))
}

func TestNVIDIAHasAnotherSystemAndNoSerial(t *testing.T) {
	t.Parallel()
	c := newClient(t, start(t, fullConfig(redfishtest.NVIDIA())))
	wantEqual(t, "systems", c.get("/redfish/v1/Systems")["Members@odata.count"], any(2.0))
	wantEqual(t, "serial", c.get("/redfish/v1/Systems/System_0")["SerialNumber"], any(nil))
	assemblies := c.get("/redfish/v1/Chassis/Chassis_0/FRU/Assembly")["Assemblies"].([]any)
	wantEqual(t, "board", at(assemblies[1], "SerialNumber"), any("BOARD0001"))
}

// Real BMCs lock the account after a few wrong passwords; a client must never
// get there.
func TestAccountIsLockedAfterWrongPasswords(t *testing.T) {
	t.Parallel()
	s := start(t, redfishtest.Config{Lockout: 3})
	c := newClient(t, s)
	wrong := c.with("Authorization", "Basic YWRtaW46d3Jvbmc=")
	token := c.do("POST", sessions, rightLogin).header.Get("X-Auth-Token")
	wrong.do("GET", "/redfish/v1/Systems", "")
	wrong.do("POST", sessions, `{"UserName":"admin","Password":"no"}`)
	wantEqual(t, "after two", s.Locked(), false)
	wantEqual(t, "the right one still works", c.do("GET", "/redfish/v1/Systems", "").status, 200)
	for range 3 {
		wrong.do("GET", "/redfish/v1/Systems", "")
	}
	wantEqual(t, "after three in a row", s.Locked(), true)
	wantEqual(t, "the right one does not", c.do("GET", "/redfish/v1/Systems", "").status, 401)
	wantEqual(t, "nor at the login", c.do("POST", sessions, rightLogin).status, 401)
	wantEqual(t, "an open session does", c.with("Authorization", "", "X-Auth-Token", token).do("GET", "/redfish/v1/Systems", "").status, 200)
	wantEqual(t, "refused", s.RefusedLogins(), 5)
	s.Unlock()
	wantEqual(t, "unlocked", c.do("GET", "/redfish/v1/Systems", "").status, 200)
}

func TestSessionsTimeOut(t *testing.T) {
	t.Parallel()
	s := start(t, redfishtest.Config{SessionTimeout: 30 * time.Millisecond})
	c := newClient(t, s)
	token := c.do("POST", sessions, rightLogin).header.Get("X-Auth-Token")
	eventually(t, "the session is gone", func() bool { return s.OpenSessions() == 0 })
	wantEqual(t, "with its token", c.with("Authorization", "", "X-Auth-Token", token).do("GET", "/redfish/v1/Systems", "").status, 401)
}

func TestLatencyDelaysEveryAnswer(t *testing.T) {
	t.Parallel()
	s := start(t, redfishtest.Config{Latency: 30 * time.Millisecond})
	began := time.Now()
	newClient(t, s).get("/redfish/v1/")
	if took := time.Since(began); took < 30*time.Millisecond {
		t.Errorf("the answer came after %s", took)
	}
}
