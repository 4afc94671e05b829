package bmc

// lenovo: XClarity controllers give the board serial, and on multi-node
// machines the enclosure's, as OEM properties of the chassis. Their settings
// resource "Pending" has no Boot.
func lenovo() vendor {
	return vendor{
		name:    "Lenovo",
		makers:  []string{"lenovo"},
		oem:     []string{"Lenovo"},
		board:   []source{{inChassis, []string{"Oem", "Lenovo", "SystemBoardSerialNumber"}}},
		chassis: []source{{inChassis, []string{"Oem", "Lenovo", "SysEncloseSerialNum"}}},
	}
}
