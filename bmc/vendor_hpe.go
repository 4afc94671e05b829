package bmc

// hpe: the board serial is that of the printed circuit assembly, under Hpe on
// iLO 5 and later and under Hp on iLO 4. The mode is shown but mostly cannot be
// written (metal-operator#606).
func hpe() vendor {
	return vendor{
		name:   "HPE",
		makers: []string{"hpe", "hewlett"},
		oem:    []string{"Hpe", "Hp"},
		board: []source{
			{inSystem, []string{"Oem", "Hpe", "PCASerialNumber"}},
			{inSystem, []string{"Oem", "Hp", "PCASerialNumber"}},
		},
		mode: modeWhenDifferent,
	}
}
