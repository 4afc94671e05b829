package redfishtest

// Cisco is a CIMC of a UCS C-Series server: the System is called by its serial
// number, the Chassis repeats that number, and no board serial is shown.
func Cisco() Profile {
	p := Generic()
	p.Name, p.Manufacturer, p.Vendor, p.Product = "cisco", "Cisco Systems Inc.", "Cisco Systems Inc.", "Cisco Integrated Management Controller"
	p.RedfishVersion, p.Registry = "1.2.0", "Base.1.4"
	p.SystemID, p.SystemIDIsSerial, p.ManagerID = "FCH0000V000", true, "CIMC"
	p.Boot = BootRules{
		Targets: []string{"None", "Pxe", "Cd", "Hdd", "Diags", "BiosSetup"},
		Enabled: []string{"Once", "Continuous", "Disabled"},
	}
	p.Reset.Types = []string{"On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "Nmi", "PowerCycle"}
	p.ETag.None = true
	p.Media.Slots = []Slot{{ID: "0", Types: []string{"CD", "DVD"}}}
	p.Decorate = map[Resource]func(Hardware, Document){
		ResourceChassis: func(h Hardware, d Document) { d["SerialNumber"] = h.Serial },
	}
	return p
}

// CiscoWithoutSystems is a CIMC whose service root does not name the Systems,
// although the collection is there (check_redfish#147, #148). It is not among
// [Profiles].
func CiscoWithoutSystems() Profile {
	return Cisco().With(ResourceRoot, func(_ Hardware, d Document) { delete(d, "Systems") })
}
