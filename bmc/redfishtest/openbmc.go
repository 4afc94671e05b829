package redfishtest

import "net/http"

// OpenBMC is bmcweb as the project publishes it. The board serial is in an
// Assembly entry "… Board FRU Assembly0"; reset types are in an ActionInfo; no
// If-Match is needed, and there is no UefiHttp. On Arm and Power machines there
// is no boot mode either: set Boot.NoMode for one of those.
func OpenBMC() Profile {
	p := Generic()
	p.Name, p.Manufacturer, p.Vendor, p.Product = "openbmc", "Contoso", "", ""
	p.RedfishVersion, p.Registry = "1.17.0", "Base.1.16"
	p.SystemID, p.ChassisID, p.ManagerID = "system", "chassis", "bmc"
	p.Boot = BootRules{
		Targets: []string{"None", "Pxe", "Hdd", "Cd", "Diags", "BiosSetup", "Usb"},
		Enabled: []string{"Once", "Continuous", "Disabled"},
	}
	p.Reset.ActionInfo = true
	p.Reset.Types = []string{"On", "ForceOff", "ForceOn", "ForceRestart", "GracefulRestart", "GracefulShutdown", "PowerCycle", "Nmi"}
	p.Media.Slots = []Slot{{ID: "Slot_0", Types: []string{"CD", "USBStick"}}, {ID: "Slot_1", Types: []string{"CD", "USBStick"}}}
	p.Decorate = map[Resource]func(Hardware, Document){
		ResourceManager: func(_ Hardware, d Document) { d["Model"] = "OpenBmc" },
		ResourceChassis: fruChassis,
	}
	p.ExtraFor = fruAssembly("/redfish/v1/Chassis/chassis")
	return p
}

// NVIDIA is a GB200 or GH200 node, OpenBMC with NVIDIA's additions: a second
// System HGX_Baseboard_0 that is no machine to boot, System_0 without a serial
// number, which is the Chassis' here, boot override by the settings resource only, and UefiHttp with
// HttpBootUri taken although it is not listed.
func NVIDIA() Profile {
	p := OpenBMC()
	p.Name, p.Manufacturer, p.Vendor = "nvidia", "NVIDIA", "NVIDIA"
	p.SystemID, p.ChassisID, p.ManagerID = "System_0", "Chassis_0", "BMC_0"
	p.Boot.Unlisted = []string{targetHTTP}
	p.Boot.Settings = Settings{
		ID: "Settings", Annotated: true, Keys: []string{keyTarget, keyEnabled, keyMode, keyURI},
		Refusal: fail(http.StatusBadRequest, "Base.1.16.PropertyNotWritable", "The property Boot is read-only, use the settings resource.", "Boot"),
	}
	p.Media.None = true
	p.Decorate[ResourceSystem] = func(_ Hardware, d Document) { delete(d, "SerialNumber") }
	p.Decorate[ResourceChassis] = func(h Hardware, d Document) {
		fruChassis(h, d)
		d["SerialNumber"] = h.Serial
	}
	p.Extra = []Extra{hgxRunning()}
	p.ExtraFor = fruAssembly("/redfish/v1/Chassis/Chassis_0")
	return p
}

// hgxRunning is HGX_Baseboard_0 while the host is on, see [HGXBaseboard].
func hgxRunning() Extra {
	const path = "/redfish/v1/Systems/HGX_Baseboard_0"
	return Extra{Path: path, First: true, Document: Document{
		"@odata.id": path, "@odata.type": "#ComputerSystem.v1_22_0.ComputerSystem",
		"Id": "HGX_Baseboard_0", "Name": "HGX_Baseboard_0", "SystemType": "Physical", "PowerState": "On",
		"SerialNumber": "HGX0000000001", "UUID": "0f0e0d0c-0000-4000-8000-000000000001",
	}}
}

func fruChassis(_ Hardware, d Document) {
	d["Assembly"] = link(d["@odata.id"].(string) + "/FRU/Assembly")
}

// fruAssembly shows the entries of the chassis' FRU: product and board, which
// are told apart by their names only.
func fruAssembly(chassis string) func(Hardware) []Extra {
	path := chassis + "/FRU/Assembly"
	return func(h Hardware) []Extra {
		return []Extra{{Path: path, Document: Document{
			"@odata.id": path, "@odata.type": "#Assembly.v1_3_0.Assembly", "Id": "Assembly", "Name": "Assembly data",
			"Assemblies": []Document{
				{"@odata.id": path + "#/Assemblies/0", "MemberId": "0", "Name": "Chassis_0 Product FRU Assembly0", "SerialNumber": h.ChassisSerial},
				{"@odata.id": path + "#/Assemblies/1", "MemberId": "1", "Name": "Chassis_0 Board FRU Assembly1", "SerialNumber": h.BoardSerial},
			},
		}}}
	}
}
