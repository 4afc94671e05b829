package bmc

// supermicro: the boards of a Twin or MicroCloud chassis share the serials of
// system and chassis; only the board serial, an OEM property of the chassis,
// tells them apart. A boot override that omits the mode falls back to Legacy
// (Redfishtool#106), X10 boards show no mode and refuse it
// (metal-operator#982), and newer firmware reads Pxe back as UefiBootNext
// (NVIDIA libredfish supermicro.rs). The GB300, whose BMC is an OpenBMC, has the
// board serial at the chassis BMC_0.
func supermicro() vendor {
	return vendor{
		name:     "Supermicro",
		makers:   []string{"supermicro", "super micro"},
		oem:      []string{"Supermicro"},
		board:    []source{{in: inChassis, keys: []string{"Oem", "Supermicro", "BoardSerialNumber"}}},
		boardBox: []string{"BMC_0"},
		mode:     modeWhenShown,
		kept:     []string{"UefiBootNext"},
	}
}
