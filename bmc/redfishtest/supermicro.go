package redfishtest

import "net/http"

// Supermicro is an X11 or later board. The board serial is in the Chassis
// (Oem.Supermicro.BoardSerialNumber); reset types are in an ActionInfo; a
// property left out of a boot PATCH reverts to its default, so that a missing
// mode means Legacy (Redfishtool#106); at rest it shows Target Pxe with Enabled
// Disabled.
func Supermicro() Profile {
	p := Generic()
	p.Name, p.Manufacturer, p.Vendor, p.Product = "supermicro", "Supermicro", "Supermicro", ""
	p.RedfishVersion, p.Registry = "1.14.0", "Base.v1_10_3"
	p.Boot = BootRules{
		Targets:        []string{"None", "Pxe", "Floppy", "Cd", "Usb", "Hdd", "BiosSetup", "UsbCd", "UefiBootNext", "UefiHttp"},
		Enabled:        []string{"Disabled", "Once", "Continuous"},
		OmittedMode:    "Legacy",
		OmittedEnabled: "Once",
		RestTarget:     "Pxe",
	}
	p.Reset.ActionInfo = true
	p.Reset.Types = []string{"On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "Nmi", "ForceOn"}
	p.Media.Slots = []Slot{{ID: "VirtualMedia1", Types: []string{"CD", "DVD"}}, {ID: "VirtualMedia2", Types: []string{"USBStick"}}}
	p.Patched = supermicroSuccess()
	p.Reset.Done = supermicroSuccess()
	p.Decorate = map[Resource]func(Hardware, Document){
		ResourceSystem:  func(_ Hardware, d Document) { d["SKU"] = "To be filled by O.E.M." },
		ResourceChassis: supermicroChassis,
	}
	return p
}

// SupermicroX10 is a board of the X10 generation: its boot override has no mode
// and refuses one (metal-operator#982), and boards are known that leave the
// factory with blank serial numbers, which this profile shows as they are
// configured.
func SupermicroX10() Profile {
	p := Supermicro()
	p.Name, p.RedfishVersion, p.Registry = "supermicro-x10", "1.0.1", "Base.v1_4_0"
	p.Boot = BootRules{
		Targets: []string{"None", "Pxe", "Hdd", "Diags", "CD/DVD", "BiosSetup", "FloppyRemovableMedia", "UsbKey", "UsbHdd", "UsbFloppy", "UsbCd"},
		NoMode:  true,
	}
	p.Reset.ActionInfo = false
	p.Media = MediaRules{None: true} // it mounts Windows shares only, by an action of its own
	return p
}

func supermicroSuccess() Answer {
	return Answer{Status: http.StatusOK, Body: `{"Success":{"code":"Base.v1_10_3.Success","message":"Successfully Completed Request"}}`}
}

func supermicroChassis(h Hardware, d Document) {
	d["Oem"] = Document{"Supermicro": Document{
		"@odata.type": "#SmcChassisExtensions.v1_0_0.Chassis", "BoardSerialNumber": h.BoardSerial, "BoardID": "0x1d14",
	}}
}
