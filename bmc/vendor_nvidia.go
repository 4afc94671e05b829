package bmc

// nvidia: GB200, GH200 and DGX systems. Beside the machine they show a baseboard
// of accelerators as a system. Serials are standard properties of chassis and
// Assembly entries; the board that carries the BMC is a chassis which links no
// system. The override is written to the settings resource, and UefiHttp is
// taken though it is not listed (NVIDIA libredfish).
func nvidia() vendor {
	return vendor{
		name:   "NVIDIA",
		makers: []string{"nvidia"},
		oem:    []string{"Nvidia"},
		serial: []source{
			{in: inSystem, keys: []string{"SerialNumber"}},
			{in: inChassis, keys: []string{"SerialNumber"}}, // GB200: System_0 has none
		},
		boardBox: []string{"BMC_0"},
	}
}
