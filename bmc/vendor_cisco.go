package bmc

import "regexp"

// ciscoSerial is the form of Cisco serial numbers: a site of three letters, the
// year and week, and four characters.
var ciscoSerial = regexp.MustCompile(`^[A-Z]{3}[0-9]{4}[0-9A-Z]{4}$`)

// cisco: CIMC names the system by its serial number, which therefore is known
// even where SerialNumber is blank. It leaves Systems out of the root now and
// then (check_redfish#148), and writes "N/A" where numbers belong (gofish#409).
// No board serial has been seen.
func cisco() vendor {
	return vendor{
		name:   "Cisco",
		makers: []string{"cisco"},
		oem:    []string{"Cisco"},
		serial: []source{
			{in: inSystem, keys: []string{"SerialNumber"}},
			{in: inSystem, keys: []string{"Id"}, form: ciscoSerial},
		},
	}
}
