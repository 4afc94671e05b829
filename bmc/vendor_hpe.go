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
			{in: inSystem, keys: []string{"Oem", "Hpe", "PCASerialNumber"}},
			{in: inSystem, keys: []string{"Oem", "Hp", "PCASerialNumber"}},
		},
		adapters: []source{
			{in: inSystem, keys: []string{"Oem", "Hpe", "Links", "NetworkAdapters", "@odata.id"}},
			{in: inSystem, keys: []string{"Oem", "Hp", "links", "NetworkAdapters", "href"}},
		},
		mode: modeWhenDifferent,
	}
}
