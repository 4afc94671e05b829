package bmc

import (
	"regexp"
	"strings"

	"github.com/talos-provision/provision/inventory/identity"
)

// nvidia: GB200, GH200 and DGX systems; serials are standard properties and
// Assembly entries.
func nvidia() vendor {
	return vendor{name: "NVIDIA", makers: []string{"nvidia"}, oem: []string{"Nvidia"}}
}

// ami: MegaRAC firmware as Gigabyte, ASRock Rack and others ship it wants all
// three properties of an override at a time (ironic's
// VENDORS_REQUIRING_FULL_BOOT_REQUEST; community.general#11542).
func ami() vendor {
	return vendor{
		name:   "AMI",
		makers: []string{"ami", "american megatrends", "gigabyte", "giga computing", "asrock"},
		oem:    []string{"Ami"},
		mode:   modeAlways,
	}
}

// boardName is how makers call the entry of the motherboard in an Assembly:
// Dell "SystemPlanar", OpenBMC "… Board FRU Assembly0".
var boardName = regexp.MustCompile(`(?i)SystemPlanar|Board FRU|System ?Board|Mother ?board|Baseboard|Main ?board`)

// boardOf finds the motherboard's serial in an Assembly, and where it was.
func (a *assemblyDocument) boardOf() (serial string, entry int) {
	for i, e := range a.Assemblies {
		if !boardName.MatchString(string(e.Name)) && !boardName.MatchString(string(e.Model)) {
			continue
		}
		// Dell leaves the standard property null.
		for _, s := range []string{string(e.SerialNumber), lookup(e.Oem, "Dell", "DellAssembly", "SerialNumber")} {
			if !identity.IsPlaceholder(s) {
				return s, i
			}
		}
	}
	return "", 0
}

// isBoard tells whether a chassis resource stands for the motherboard itself, as
// the DGX's CPUBaseboard does.
func (c *chassisDocument) isBoard() bool {
	part := strings.EqualFold(string(c.Type), "Module") || strings.EqualFold(string(c.Type), "Component")
	return part && (boardName.MatchString(string(c.ID)) || boardName.MatchString(string(c.Name)))
}

// isEnclosure tells whether its serial can be that of the enclosure.
func (c *chassisDocument) isEnclosure() bool {
	switch strings.ToLower(string(c.Type)) {
	case "module", "component", "card", "cartridge", "storageenclosure", "zone", "rack", "row", "pod":
		return false
	}
	return true
}

// find gives the first source that identifies anything.
func find(sources []source, system *systemDocument, chassis []*chassisDocument) (value, where string) {
	for _, s := range sources {
		documents := []*chassisDocument{{path: system.path, raw: system.raw}}
		if s.in == inChassis {
			documents = chassis
		}
		for _, d := range documents {
			if v := lookup(d.raw, s.keys...); !identity.IsPlaceholder(v) {
				return v, d.path + "#/" + strings.Join(s.keys, "/")
			}
		}
	}
	return "", ""
}
