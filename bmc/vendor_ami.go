package bmc

// ami: MegaRAC firmware as Gigabyte, ASRock Rack and others ship it wants all
// three properties of an override at a time (ironic's
// VENDORS_REQUIRING_FULL_BOOT_REQUEST; community.general#11542), and takes them
// on the future state resource SD (Redfish-Tacklebox#144).
func ami() vendor {
	return vendor{
		name:   "AMI",
		makers: []string{"ami", "american megatrends", "gigabyte", "giga computing", "asrock"},
		oem:    []string{"Ami"},
		mode:   modeAlways,
	}
}
