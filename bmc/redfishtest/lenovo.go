package redfishtest

import "net/http"

// Lenovo is an XClarity Controller. The board serial is in the Chassis
// (Oem.Lenovo.SystemBoardSerialNumber); Chassis/3 is a drive enclosure with a
// serial number of its own and no System; the settings resource Pending has no
// Boot; an override is Once or Disabled; a PATCH needs If-Match
// (ansible#56150); virtual media is inserted and ejected by a PATCH of Image and
// Inserted, and its RDOC slots take no network share.
func Lenovo() Profile {
	p := Generic()
	p.Name, p.Manufacturer, p.Vendor, p.Product = "lenovo", "Lenovo", "Lenovo", "XClarity Controller"
	p.RedfishVersion, p.Registry = "1.15.0", "Base.1.12"
	p.Boot = BootRules{
		Targets:  []string{"None", "Pxe", "Cd", "Usb", "Hdd", "BiosSetup", "Diags", "UefiTarget"},
		Enabled:  []string{"Once", "Disabled"},
		Settings: Settings{ID: "Pending", Annotated: true},
	}
	p.Reset.Types = []string{"On", "Nmi", "GracefulShutdown", "GracefulRestart", "ForceOn", "ForceOff", "ForceRestart"}
	p.ETag.Required = fail(http.StatusPreconditionRequired, "Base.1.12.PreconditionRequired",
		"A precondition header or annotation is required to change this resource.")
	p.Media = MediaRules{
		On: []Resource{ResourceManager, ResourceSystem}, ByPatch: true,
		Slots: []Slot{{ID: "RDOC1", Types: []string{"CD"}, Closed: true}, {ID: "EXT1", Types: []string{"CD", "DVD"}}, {ID: "EXT2", Types: []string{"CD", "DVD"}}},
	}
	p.Decorate = map[Resource]func(Hardware, Document){ResourceChassis: lenovoChassis}
	p.Extra = []Extra{{
		Path: "/redfish/v1/Chassis/3",
		Document: Document{
			"@odata.id": "/redfish/v1/Chassis/3", "@odata.type": "#Chassis.v1_21_0.Chassis",
			"Id": "3", "Name": "Drive Enclosure", "ChassisType": "StorageEnclosure", "SerialNumber": "R4SH00000", "Links": Document{},
		},
	}}
	return p
}

func lenovoChassis(h Hardware, d Document) {
	enclosure := any(nil)
	if h.ChassisSerial != "" && h.ChassisSerial != h.Serial {
		enclosure = h.ChassisSerial
	}
	// Rack servers show the system's serial here, and null for the enclosure.
	d["SerialNumber"] = h.Serial
	d["Oem"] = Document{"Lenovo": Document{"SystemBoardSerialNumber": h.BoardSerial, "SysEncloseSerialNum": enclosure}}
}
