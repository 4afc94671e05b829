package redfishtest_test

import (
	"fmt"

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
	fmt.Printf("armed:   %+v\n", service.Override())
	_, err = systems[0].Reset(schemas.OnResetType)
	check(err)
	client.Logout()

	fmt.Printf("booted:  %+v\n", machine.Boots())
	fmt.Printf("now:     %+v\n", service.Override())
	fmt.Printf("logins %d, sessions left open %d\n", service.Logins(), service.OpenSessions())
	// Output:
	// armed:   {Target:Pxe Enabled:Once Mode:UEFI}
	// booted:  [{Target:Pxe Mode:UEFI}]
	// now:     {Target:Pxe Enabled:Disabled Mode:UEFI}
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
