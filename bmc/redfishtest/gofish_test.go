package redfishtest_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

// An independent client takes the service for a BMC.
func TestGofishProvisionsThroughTheService(t *testing.T) {
	t.Parallel()
	for _, profile := range redfishtest.Profiles() {
		if profile.Session.None {
			continue // this test logs in and out
		}
		mode := schemas.UEFIBootSourceOverrideMode
		if profile.Boot.NoMode || profile.Boot.ModeRefusal.Status != 0 {
			mode = "" // gofish sends what it is given, and leaves out what is empty
		}
		t.Run(profile.Name, func(t *testing.T) {
			t.Parallel()
			machine := new(redfishtest.NullMachine)
			s := start(t, redfishtest.Config{Profile: profile, Serial: "S1", BoardSerial: "B1", UUID: testUUID, Machine: machine})
			client, err := gofish.Connect(gofish.ClientConfig{
				Endpoint: s.URL(), Username: redfishtest.DefaultUsername, Password: redfishtest.DefaultPassword,
				HTTPClient:        &http.Client{Transport: transport(t, s), Timeout: 20 * time.Second},
				NoModifyTransport: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			systems, err := client.Service.Systems()
			if want := 1 + len(profile.Extra); err != nil || len(systems) == 0 || len(systems) > want {
				t.Fatalf("Systems() = %d systems, error %v; want at most %d", len(systems), err, want)
			}
			chassis, err := client.Service.Chassis()
			if err != nil || len(chassis) == 0 {
				t.Errorf("Chassis() = %d chassis, error %v", len(chassis), err)
			}
			system := systems[len(systems)-1] // extra ones are listed first
			if err := system.SetBoot(&schemas.Boot{
				BootSourceOverrideTarget:  schemas.PxeBootSource,
				BootSourceOverrideEnabled: schemas.OnceBootSourceOverrideEnabled,
				BootSourceOverrideMode:    mode,
			}); err != nil {
				t.Fatal(err)
			}
			types, err := system.GetSupportedResetTypes()
			if err != nil || len(types) == 0 {
				t.Errorf("GetSupportedResetTypes() = %v, error %v", types, err)
			}
			if _, err := system.Reset(schemas.OnResetType); err != nil {
				t.Fatal(err)
			}
			client.Logout()
			wantEqual(t, "boots", machine.Boots(), []redfishtest.Boot{{Target: "Pxe", Mode: "UEFI"}})
			wantEqual(t, "open sessions", s.OpenSessions(), 0)
			wantEqual(t, "logins", s.Logins(), 1)
			wantEqual(t, "override", s.Override().Enabled, "Disabled")
		})
	}
}
