package redfishtest_test

import (
	"fmt"
	"testing/fstest"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

// A client is tested against a Supermicro BMC: it asks for one network boot and
// switches the machine on.
func Example() {
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	machine := new(redfishtest.NullMachine)
	service := redfishtest.New(redfishtest.Config{
		Profile:     redfishtest.Supermicro(),
		Serial:      "S100000X0000001",
		BoardSerial: "ZM000S000001",
		UUID:        "00000000-0000-0000-0000-0cc47a000001",
		MACs:        []string{"0c:c4:7a:00:00:01"},
		Machine:     machine,
	})
	check(service.Start("127.0.0.1:0"))
	defer service.Close()

	// Any Redfish client will do; this one is gofish.
	client, err := gofish.Connect(gofish.ClientConfig{
		Endpoint: service.URL(),
		Username: redfishtest.DefaultUsername,
		Password: redfishtest.DefaultPassword,
		Insecure: true, // or trust service.CertificatePEM()
	})
	check(err)
	systems, err := client.Service.Systems()
	check(err)
	check(systems[0].SetBoot(&schemas.Boot{
		BootSourceOverrideTarget:  schemas.PxeBootSource,
		BootSourceOverrideEnabled: schemas.OnceBootSourceOverrideEnabled,
		BootSourceOverrideMode:    schemas.UEFIBootSourceOverrideMode,
	}))
	armed := service.Override()
	fmt.Println("armed: ", armed.Target, armed.Enabled, armed.Mode)
	_, err = systems[0].Reset(schemas.OnResetType)
	check(err)
	client.Logout()

	for _, boot := range machine.Boots() {
		fmt.Println("booted:", boot.Target, boot.Mode)
	}
	fmt.Println("now:   ", service.Override().Enabled)
	fmt.Printf("logins %d, sessions left open %d\n", service.Logins(), service.OpenSessions())
	// Output:
	// armed:  Pxe Once UEFI
	// booted: Pxe UEFI
	// now:    Disabled
	// logins 1, sessions left open 0
}

// A BMC that says yes to everything and keeps nothing: a client must read back
// what it wrote, and must not restart the machine.
func ExampleService_Inject() {
	service := redfishtest.New(redfishtest.Config{Profile: redfishtest.Dell()})
	defer service.Close()
	service.Inject(redfishtest.Fault{
		Method: "PATCH",
		Path:   "/redfish/v1/Systems/*",
		Action: redfishtest.IgnoreWrite(),
	})
	// The first two logins meet a BMC that is still starting.
	service.Inject(redfishtest.Fault{
		Method: "POST",
		Path:   "/redfish/v1/SessionService/Sessions",
		Times:  2,
		Action: redfishtest.Respond(503, redfishtest.ErrorBody("Base.1.12.GeneralError", "IDRAC.2.8.SYS518", "The data sources are unavailable.")),
	})
}

// Firmware that deviates from its vendor's profile in one document.
func ExampleProfile_With() {
	profile := redfishtest.Lenovo().With(redfishtest.ResourceSystem,
		func(_ redfishtest.Hardware, d redfishtest.Document) {
			d["SerialNumber"] = nil
		})
	service := redfishtest.New(redfishtest.Config{Profile: profile})
	defer service.Close()
}

// A profile from the dump of a real BMC, here one that fits on a screen. A dump
// made by Redfish-Mockup-Creator is read with os.DirFS("folder").
func ExampleFromDump() {
	dump := fstest.MapFS{
		"redfish/v1/index.json": {Data: []byte(`{"Vendor":"Acme","Systems":{"@odata.id":"/redfish/v1/Systems"},
			"SessionService":{"@odata.id":"/redfish/v1/SessionService"}}`)},
		"redfish/v1/Systems/index.json": {Data: []byte(`{"Members":[{"@odata.id":"/redfish/v1/Systems/Blade"}]}`)},
		"redfish/v1/Systems/Blade/index.json": {Data: []byte(`{"Id":"Blade","Manufacturer":"Acme","SerialNumber":"ACME0001",
			"Boot":{"BootSourceOverrideTarget@Redfish.AllowableValues":["None","Pxe"]},
			"Actions":{"#ComputerSystem.Reset":{"ResetType@Redfish.AllowableValues":["On","ForceOff"]}}}`)},
	}
	profile, err := redfishtest.FromDump("acme", dump)
	if err != nil {
		fmt.Println(err)
		return
	}
	// What a dump cannot show: this BMC wants the three properties together.
	profile.Boot.RequireAll = true

	service := redfishtest.New(redfishtest.Config{Profile: profile})
	defer service.Close()
	fmt.Println(service.SystemPath(), profile.Boot.Targets, profile.Reset.Types, profile.Boot.NoMode)
	// Output:
	// /redfish/v1/Systems/Blade [None Pxe] [On ForceOff] true
}
