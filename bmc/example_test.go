package bmc_test

import (
	"context"
	"fmt"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/bmc/redfishtest"
)

// Identify a machine, make its next boot a network boot, and start it.
func Example() {
	h := redfishtest.Config{Profile: redfishtest.Supermicro(), Serial: "S100000X0000001", BoardSerial: "ZM000S000001"}
	machine := redfishtest.New(h)
	if err := machine.Start("127.0.0.1:0"); err != nil {
		fmt.Println(err)
		return
	}
	defer machine.Close()

	ctx := context.Background()
	client, err := bmc.Dial(ctx, bmc.Config{
		Address: machine.URL(), Username: redfishtest.DefaultUsername, Password: redfishtest.DefaultPassword,
		Insecure: true, // better: CAFile, or Fingerprint
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() {
		if err := client.Close(ctx); err != nil {
			fmt.Println(err)
		}
	}()

	id, err := client.Identify(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(id.Vendor, "board", id.Facts.BoardSerial, "from", id.Sources["boardSerial"])

	override, err := client.Arm(ctx, bmc.BootRequest{Kind: bmc.BootPXE})
	if err != nil {
		fmt.Println(err) // and do not reset the machine
		return
	}
	fmt.Println("next boot:", override)

	if err := client.PowerCycle(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("resets:", machine.Resets())
	// Output:
	// Supermicro board ZM000S000001 from /redfish/v1/Chassis/1#/Oem/Supermicro/BoardSerialNumber
	// next boot: Pxe Once UEFI
	// resets: [On]
}
