package bmc

// openbmc: bmcweb without a maker's own additions. Boards are chassis or Assembly
// entries named "… Board FRU Assembly". The mode of an override exists only where
// the firmware has one (not on Arm and Power), and no ETag is asked for (bmcweb
// systems.hpp).
func openbmc() vendor {
	return vendor{
		name:     "OpenBMC",
		makers:   []string{"openbmc"},
		oem:      []string{"OpenBMC", "OpenBmc"},
		boardBox: []string{"BMC_0"},
	}
}
