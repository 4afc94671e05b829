package redfishtest

// Generic is a BMC that follows the Redfish standard and shows serial numbers
// in the standard places: the board's in an Assembly of the Chassis.
func Generic() Profile {
	return Profile{
		Name:           "generic",
		Manufacturer:   "Contoso",
		Vendor:         "Contoso",
		Product:        "Generic BMC",
		RedfishVersion: "1.15.0",
		Registry:       "Base.1.13",
		SystemID:       "1",
		ChassisID:      "1",
		ManagerID:      "1",
		Boot: BootRules{
			Targets: []string{"None", "Pxe", "Hdd", "Cd", "Usb", "BiosSetup", "UefiHttp"},
			Enabled: []string{"Disabled", "Once", "Continuous"},
		},
		Reset: ResetRules{Types: []string{
			"On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "PowerCycle", "PushPowerButton",
		}},
		Decorate: map[Resource]func(Hardware, Document){
			ResourceChassis: func(h Hardware, d Document) {
				if h.BoardSerial != "" {
					d["Assembly"] = link(d["@odata.id"].(string) + "/Assembly")
				}
			},
		},
	}
}
