package redfishtest

import "net/http"

// HPE is an iLO 5 or 6. The board serial is Oem.Hpe.PCASerialNumber of the
// System. The boot mode is shown but cannot be written (metal-operator#606), an
// override is disabled only with its target kept (metal-operator#998), success
// is an error object that says Success (community.general#3509), and a reset
// that does not fit the power state is refused (ansible-ilo#1).
func HPE() Profile {
	p := Generic()
	p.Name, p.Manufacturer, p.Vendor, p.Product = "hpe", "HPE", "HPE", "ProLiant"
	p.RedfishVersion, p.Registry = "1.6.0", "Base.1.4"
	refuse := func(id string) Answer {
		return Answer{Status: http.StatusBadRequest, Body: iloError(id, "")}
	}
	p.Boot = BootRules{
		Targets:      []string{"None", "Cd", "Hdd", "Usb", "Utilities", "Diags", "BiosSetup", "Pxe", "UefiShell", "UefiHttp", "UefiTarget"},
		Enabled:      []string{"Disabled", "Once", "Continuous"},
		ModeRefusal:  refuse("iLO.2.30.UnsupportedOperation"),
		ClearRefusal: refuse("iLO.2.30.UnsupportedOperation"),
		DuringPOST: Answer{Status: http.StatusBadRequest,
			Body: encode(Document{"error": Document{
				"code": "iLO.0.10.ExtendedInfo", "message": "See @Message.ExtendedInfo for more information.",
				"@Message.ExtendedInfo": []Document{{"MessageId": "iLO.2.37.UnableToModifyDuringSystemPOST", "MessageArgs": []string{keyTarget}}},
			}})},
	}
	wrongState := func(state string) Answer {
		return Answer{Status: http.StatusBadRequest, Body: iloError("iLO.0.10.InvalidOperationForSystemState", state)}
	}
	p.Reset = ResetRules{
		Types:      []string{"On", "ForceOff", "GracefulShutdown", "ForceRestart", "Nmi", "PushPowerButton", "GracefulRestart"},
		Done:       iloSuccess(),
		WhileOff:   wrongState("Power is off"),
		AlreadyOn:  wrongState("Power is on"),
		AlreadyOff: wrongState("Power is off"),
	}
	p.Media.Slots = []Slot{{ID: "1", Types: []string{"Floppy", "USBStick"}}, {ID: "2", Types: []string{"CD", "DVD"}}}
	p.Patched, p.Session.Deleted = iloSuccess(), iloSuccess()
	p.Decorate = map[Resource]func(Hardware, Document){
		ResourceSystem: func(h Hardware, d Document) {
			d["Oem"] = Document{"Hpe": Document{"PCASerialNumber": h.BoardSerial, "PostState": "FinishedPost"}}
		},
	}
	return p
}

// iloError has "MessageID" in a second spelling only when it has arguments, as
// firmware of that age does.
func iloError(id, argument string) string {
	info := Document{"MessageId": id}
	if argument != "" {
		info = Document{"MessageID": id, "MessageArgs": []string{argument}}
	}
	return encode(Document{"error": Document{
		"code": "iLO.0.10.ExtendedInfo", "message": "See @Message.ExtendedInfo for more information.",
		"@Message.ExtendedInfo": []Document{info},
	}})
}

func iloSuccess() Answer {
	return Answer{Status: http.StatusOK, Body: iloError("Base.1.4.Success", "")}
}
