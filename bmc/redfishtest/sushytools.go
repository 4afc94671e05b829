package redfishtest

// SushyTools behaves like the sushy-tools emulator: no sessions, no entity
// tags, and every override is Continuous whatever was asked. The System has no
// serial number.
func SushyTools() Profile {
	p := Generic()
	p.Name, p.Manufacturer, p.Vendor, p.Product = "sushy-tools", "Sushy Emulator", "", ""
	p.RedfishVersion, p.Registry = "1.0.2", "Base.1.0"
	p.Boot = BootRules{
		Targets:          []string{"Pxe", "Cd", "Hdd"},
		AlwaysContinuous: true,
	}
	p.Reset.Types = []string{"On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "Nmi", "ForceOn"}
	p.Session.None = true
	p.ETag.None = true
	p.Media.On = []Resource{ResourceSystem}
	p.Decorate = map[Resource]func(Hardware, Document){
		ResourceSystem: func(_ Hardware, d Document) { delete(d, "SerialNumber") },
	}
	return p
}
