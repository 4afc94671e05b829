package redfishtest

import "net/http"

// Dell is an iDRAC 9. SKU is the service tag ([Config].Serial) and SerialNumber
// the board's; Oem.Dell.DellSystem holds the service tag of node and enclosure.
// The settings resource has only the mode, and one login too many is answered
// 503 RAC0218 (gofish#75). On right after an off is 409 (ironic bug 2162995).
func Dell() Profile {
	p := Generic()
	p.Name, p.Manufacturer, p.Vendor, p.Product = "dell", "Dell Inc.", "Dell", "Integrated Dell Remote Access Controller"
	p.RedfishVersion, p.Registry = "1.17.0", "Base.1.12"
	p.SystemID, p.ChassisID, p.ManagerID = "System.Embedded.1", "System.Embedded.1", "iDRAC.Embedded.1"
	p.Boot = BootRules{
		Targets: []string{"None", "Pxe", "Floppy", "Cd", "Hdd", "BiosSetup", "Utilities", "UefiTarget", "SDCard", "UefiHttp"},
		Enabled: []string{"Disabled", "Once", "Continuous"},
		// A mode in the PATCH starts a Lifecycle Controller job.
		JobOnMode: true,
		Settings:  Settings{ID: "Settings", Annotated: true, Keys: []string{keyMode}},
	}
	p.Reset.Types = []string{"On", "ForceOff", "ForceRestart", "GracefulRestart", "GracefulShutdown", "PushPowerButton", "Nmi", "PowerCycle"}
	conflict := func(kind string) Answer {
		return fail(http.StatusConflict, "Base.1.12.ActionParameterValueConflict", "The request was not performed because of the power state.", "ResetType", kind)
	}
	p.Reset.AlreadyOn, p.Reset.AlreadyOff, p.Reset.Busy = conflict("On"), conflict("ForceOff"), conflict("On")
	p.Reset.WhileOff = conflict("ForceRestart")
	p.Session.Limit = 8
	p.Session.LimitAnswer = Answer{Status: http.StatusServiceUnavailable, Body: ErrorBody("Base.1.12.GeneralError", "IDRAC.2.8.RAC0218",
		"The maximum number of user sessions is reached.")}
	p.Patched = Answer{Status: http.StatusOK, Body: `{"@Message.ExtendedInfo":[` +
		`{"Message":"The request completed successfully.","MessageId":"Base.1.12.Success","Severity":"OK"},` +
		`{"Message":"The operation is successfully completed.","MessageId":"IDRAC.2.8.SYS413","Severity":"Informational"}]}`}
	p.Decorate = map[Resource]func(Hardware, Document){
		ResourceSystem: dellSystem,
		ResourceChassis: func(h Hardware, d Document) {
			d["SKU"], d["SerialNumber"] = h.Serial, h.BoardSerial
		},
	}
	return p
}

func dellSystem(h Hardware, d Document) {
	d["SKU"], d["SerialNumber"] = h.Serial, h.BoardSerial
	enclosure := h.ChassisSerial
	if enclosure == "" {
		enclosure = h.Serial
	}
	d["Oem"] = Document{"Dell": Document{"DellSystem": Document{
		"NodeID": h.Serial, "ChassisServiceTag": enclosure, "smbiosGUID": swapUUID(h.UUID),
	}}}
}

// swapUUID turns the first three fields of a UUID around: SMBIOS before and
// since version 2.6 disagree on their byte order. Anything else is returned as
// it is.
func swapUUID(s string) string {
	if len(s) != 36 {
		return s
	}
	return s[6:8] + s[4:6] + s[2:4] + s[0:2] + "-" + s[11:13] + s[9:11] + "-" + s[16:18] + s[14:16] + s[18:]
}
