package bmc

// dell: the service tag, which SMBIOS and labels call the serial, is the SKU;
// SerialNumber is the board's (ironic bug 2146585). A blade knows its
// enclosure's tag. Naming a boot mode that is set already starts a Lifecycle
// Controller job that makes PXE unreliable (metal-operator#80, #107).
func dell() vendor {
	system := []string{"Oem", "Dell", "DellSystem"}
	return vendor{
		name:   "Dell",
		makers: []string{"dell"},
		oem:    []string{"Dell"},
		serial: []source{
			{in: inSystem, keys: []string{"SKU"}},
			{in: inSystem, keys: append(system[:3:3], "NodeID")},
		},
		board: []source{{in: inSystem, keys: []string{"SerialNumber"}}},
		chassis: []source{
			{in: inSystem, keys: append(system[:3:3], "ChassisServiceTag")},
			{in: inSystem, keys: []string{"SKU"}},
		},
		mode: modeWhenDifferent,
	}
}
