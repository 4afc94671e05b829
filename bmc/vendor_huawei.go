package bmc

// huawei: iBMC, which xFusion goes on with, keeps the boards of a machine beside
// the standard, as a collection of the chassis; the mainboard's entry is spelt in
// two ways (chassisMainboard, chassisMainBoard) across firmware versions. Its
// virtual media have an OEM action only (ironic's ibmc driver).
func huawei() vendor {
	return vendor{
		name:   "Huawei",
		makers: []string{"huawei"},
		oem:    []string{"Huawei"},
		boards: boardCollection{
			links: []source{
				{in: inChassis, keys: []string{"Oem", "Huawei", "Boards", "@odata.id"}},
				{in: inChassis, keys: []string{"Boards", "@odata.id"}},
			},
			path: "Boards", member: "chassisMainboard",
		},
	}
}

// xfusion: the same controllers under the name of the company that took them over.
func xfusion() vendor {
	v := huawei()
	v.name, v.makers, v.oem = "xFusion", []string{"xfusion"}, []string{"xFusion"}
	v.boards.links = append([]source{{in: inChassis, keys: []string{"Oem", "xFusion", "Boards", "@odata.id"}}}, v.boards.links...)
	return v
}
