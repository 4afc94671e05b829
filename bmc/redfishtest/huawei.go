package redfishtest

import "net/http"

// Huawei is an iBMC, as xFusion ships it too. The board serial is that of
// Chassis/1/Boards/chassisMainboard, a collection which the Chassis links as an
// OEM member; a PATCH needs If-Match. Its virtual media is an action of its own
// (VirtualMedia.VmmControl), answered by a task without Location. One firmware is
// reported to take NFS and CIFS shares only; set Media.Refusal for that.
func Huawei() Profile {
	p := Generic()
	p.Name, p.Manufacturer, p.Vendor, p.Product = "huawei", "Huawei", "Huawei", "iBMC"
	p.RedfishVersion, p.Registry = "1.0.2", "Base.1.0"
	p.Boot = BootRules{
		Targets: []string{"None", "Pxe", "Floppy", "Cd", "Hdd", "BiosSetup"},
		Enabled: []string{"Once", "Disabled", "Continuous"},
	}
	p.Reset.Types = []string{"On", "ForceOff", "GracefulShutdown", "ForceRestart", "Nmi", "ForcePowerCycle"}
	p.ETag.Required = fail(http.StatusPreconditionFailed, "Base.1.0.PreconditionFailed",
		"The If-Match header is missing or does not match.")
	p.Patched = Answer{Status: http.StatusOK, Body: `{}`}
	p.Media = MediaRules{Control: "Huawei", Slots: []Slot{{ID: "CD", Types: []string{"CD", "DVD"}}, {ID: "USBStick", Types: []string{"USBStick"}}}}
	p.Tasks = TaskRules{Media: true, NoLocation: true}
	p.Decorate = map[Resource]func(Hardware, Document){ResourceChassis: huaweiChassis}
	p.ExtraFor = huaweiBoards
	return p
}

const huaweiBoardsPath = "/redfish/v1/Chassis/1/Boards"

func huaweiChassis(_ Hardware, d Document) {
	d["Oem"] = Document{"Huawei": Document{"Boards": link(huaweiBoardsPath)}}
}

func huaweiBoards(h Hardware) []Extra {
	board, riser := huaweiBoardsPath+"/chassisMainboard", huaweiBoardsPath+"/mainboardRiserCard1"
	return []Extra{
		{Path: huaweiBoardsPath, Document: collection(huaweiBoardsPath, "BoardCollection", []string{riser, board})},
		{Path: riser, Document: Document{
			"@odata.id": riser, "@odata.type": "#HwBoard.v1_0_0.HwBoard", "Id": "mainboardRiserCard1",
			"Name": "mainboardRiserCard1", "DeviceType": "RiserCard", "SerialNumber": "RISER00001",
		}},
		{Path: board, Document: Document{
			"@odata.id": board, "@odata.type": "#HwBoard.v1_0_0.HwBoard", "Id": "chassisMainboard",
			"Name": "chassisMainboard", "DeviceType": "MainBoard", "DeviceLocator": "Mainboard", "SerialNumber": h.BoardSerial,
		}},
	}
}
