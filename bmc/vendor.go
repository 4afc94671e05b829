package bmc

import (
	"regexp"
	"slices"
	"strings"
)

// vendor is what is known of one maker's BMCs, as data. What is not known here
// still works with the standard properties.
type vendor struct {
	// name is the spelling of Identity.Vendor.
	name string
	// makers are lower-case beginnings of Manufacturer, or of Vendor in the root.
	makers []string
	// oem are the keys in Oem objects that give the firmware away.
	oem []string
	// serial, board and chassis are where the three serials are, best first.
	// Standard properties follow for serial and chassis.
	serial, board, chassis []source
	// boards is a collection with the board's serial, for makers that have one.
	boards boardCollection
	// boardBox are names of chassis that are the board and link no system.
	boardBox []string
	// adapters are the links to collections of network adapters beside those of
	// the chassis.
	adapters []source
	// mode says when a boot override has to name the boot mode.
	mode modeHabit
	// kept are values, besides Pxe, that reading back shows for a kept override.
	kept []string
	// drives are beginnings of the names of the virtual drives that take images
	// from the network, where a BMC has others too.
	drives []string
}

// source is a property of the system or of its chassis.
type source struct {
	in   place
	keys []string
	form *regexp.Regexp // what the value must look like; nil is anything
}

// boardCollection is where a maker lists the boards of a chassis.
type boardCollection struct {
	links  []source // to the collection, best first
	path   string   // below the chassis, where no link is shown
	member string   // the last part of the mainboard's path, in any case
}

type place int

const (
	inSystem place = iota
	inChassis
)

type modeHabit int

const (
	// modeWhenShown sends the mode to a BMC that shows one.
	modeWhenShown modeHabit = iota
	// modeWhenDifferent sends it only to change it.
	modeWhenDifferent
	// modeAlways sends it in any case.
	modeAlways
)

func vendors() []vendor {
	return []vendor{supermicro(), dell(), hpe(), lenovo(), xfusion(), huawei(), cisco(), nvidia(), ami(), openbmc()}
}

// detect finds the vendor: the machine's maker decides before the firmware's,
// because makers put their serials where they like on top of AMI's firmware.
func detect(root *rootDocument, system *systemDocument, chassis []*chassisDocument) vendor {
	oem := keysOf(system.Oem)
	for _, c := range chassis {
		oem = append(oem, keysOf(c.Oem)...)
	}
	all := vendors()
	for _, found := range []func(vendor) bool{
		func(v vendor) bool { return v.makes(string(system.Manufacturer)) },
		func(v vendor) bool {
			return slices.ContainsFunc(v.oem, func(k string) bool { return slices.Contains(oem, k) })
		},
		func(v vendor) bool { return v.makes(string(root.Vendor)) },
	} {
		if i := slices.IndexFunc(all, found); i >= 0 {
			return all[i]
		}
	}
	return vendor{name: string(system.Manufacturer)}
}

func (v vendor) makes(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(v.makers, func(m string) bool { return strings.HasPrefix(name, m) })
}
