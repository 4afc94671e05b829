package bmc

// lenovo: XClarity controllers give the board serial, and on multi-node
// machines the enclosure's, as OEM properties of the chassis. Their settings
// resource "Pending" has no Boot. Of the virtual drives, RDOC are for uploads and
// Remote for mounts made by an OEM action; EXT take a URI, by PATCH
// (lenovo/python-redfish-lenovo).
func lenovo() vendor {
	return vendor{
		name:    "Lenovo",
		makers:  []string{"lenovo"},
		oem:     []string{"Lenovo"},
		board:   []source{{in: inChassis, keys: []string{"Oem", "Lenovo", "SystemBoardSerialNumber"}}},
		chassis: []source{{in: inChassis, keys: []string{"Oem", "Lenovo", "SysEncloseSerialNum"}}},
		drives:  []string{"EXT"},
	}
}
