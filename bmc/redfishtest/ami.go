package redfishtest

import "net/http"

// AMI is a MegaRAC SP-X as Gigabyte, ASRock Rack and ZT ship it. Boot is taken
// by the future state resource Systems/Self/SD only, complete and with If-Match
// (Tacklebox#144, gofish#171), and does not act on a soft reboot. Entity tags
// are weak. It shows no board serial.
func AMI() Profile {
	p := Generic()
	p.Name, p.Manufacturer, p.Vendor, p.Product = "ami", "GIGABYTE", "AMI", "AMI Redfish Server"
	p.RedfishVersion, p.Registry = "1.11.0", "Base.1.11"
	p.SystemID, p.ChassisID, p.ManagerID = "Self", "Self", "Self"
	p.Boot = BootRules{
		Targets:          []string{"None", "Pxe", "Floppy", "Cd", "Usb", "Hdd", "BiosSetup", "UefiHttp"},
		Enabled:          []string{"Disabled", "Once", "Continuous"},
		HideAllowable:    true,
		RequireAll:       true,
		IgnoredByRestart: true,
		Settings: Settings{
			ID:        "SD",
			Annotated: true,
			Keys:      []string{keyTarget, keyEnabled, keyMode, keyURI},
			Refusal: fail(http.StatusBadRequest, "Ami.1.0.OperationSupportedInFutureStateURI",
				"The property Boot can be changed at /redfish/v1/Systems/Self/SD only."),
		},
	}
	p.ETag = ETagRules{
		Weak: true,
		Required: fail(http.StatusPreconditionRequired, "Ami.1.0.PreconditionHeaderMissing",
			"The If-Match header is required."),
	}
	p.Decorate = nil
	return p
}
