package dashboard

import (
	"slices"
	"strings"

	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/web"
)

// observers of a machine, in the order of the table's columns.
const (
	byInventory = iota
	byBMC
	byFirmware
	byTalos
	observers
)

// fact is a row of what the observers say of a machine.
type fact struct {
	Name   string
	Values [observers]string
	// Verdict says in words whether they agree; Level is its style: same, differs, or "".
	Verdict, Level string
}

// compare puts beside each other what is known of a machine.
func compare(d web.NodeDetail) []fact {
	var facts [observers]identity.Facts
	var inv web.InventoryNode
	if d.Inventory != nil {
		inv, facts[byInventory] = *d.Inventory, d.Inventory.Facts
	}
	if d.Record != nil {
		facts[byBMC], facts[byTalos] = d.Record.Facts, d.Record.TalosFacts
	}
	if d.Boot != nil {
		facts[byFirmware] = d.Boot.Facts
	}
	serial := valuesOf("Serial", facts, func(f identity.Facts) string { return f.Serial }, identity.NormalizeSerial)
	rows := append(make([]fact, 0, 9),
		otherSerial(serial, facts),
		valuesOf("Board serial", facts, func(f identity.Facts) string { return f.BoardSerial }, identity.NormalizeSerial),
		valuesOf("Chassis serial", facts, func(f identity.Facts) string { return f.ChassisSerial }, identity.NormalizeSerial),
		valuesOf("UUID", facts, func(f identity.Facts) string { return f.UUID }, identity.NormalizeUUID),
		macsOf(facts),
	)
	model := fact{Name: "Model"}
	arch, version, address := fact{Name: "Architecture"}, fact{Name: "Talos version"}, fact{Name: "Address"}
	arch.Values[byInventory], version.Values[byInventory], address.Values[byInventory] = inv.Arch, inv.TalosVersion, inv.IP
	if r := d.Record; r != nil {
		model.Values[byBMC] = strings.TrimSpace(r.Vendor + " " + r.Model)
		version.Values[byTalos] = r.TalosVersion
		// Before Talos is up, the address is where its firmware was seen.
		if g := groupOf(r.State); g == groupUp || g == groupDone {
			address.Values[byTalos] = r.Address
		} else {
			address.Values[byFirmware] = r.Address
		}
	}
	if b := d.Boot; b != nil {
		model.Values[byFirmware] = strings.TrimSpace(b.Manufacturer + " " + b.Product)
		arch.Values[byFirmware] = b.Arch
	}
	same := func(s string) string { return s }
	rows = append(rows, arch.judged(same), version.judged(same), address.judged(same), model)
	return slices.DeleteFunc(rows, func(f fact) bool { return f.Values == [observers]string{} })
}

// valuesOf is a row of one value each.
func valuesOf(name string, facts [observers]identity.Facts, value func(identity.Facts) string, normalise func(string) string) fact {
	f := fact{Name: name}
	for i := range facts {
		f.Values[i] = value(facts[i])
	}
	return f.judged(normalise)
}

var observerNames = [observers]string{"the inventory", "the BMC", "the firmware", "Talos"}

// judged says whether the values agree.
func (f fact) judged(normalise func(string) string) fact {
	var seen []string
	by := -1
	for i, v := range f.Values {
		if v == "" {
			continue
		}
		n := normalise(v)
		if n == "" {
			f.Verdict = "a placeholder: it identifies nothing"
			continue
		}
		seen, by = append(seen, n), i
	}
	switch distinct := slices.Compact(slices.Sorted(slices.Values(seen))); {
	case len(seen) == 0:
	case len(distinct) > 1:
		f.Verdict, f.Level = "different", "differs"
	case len(seen) == 1:
		f.Verdict = "only " + observerNames[by] + " says"
	default:
		f.Verdict, f.Level = "equal", "same"
	}
	return f
}

// otherSerial says that the inventory's serial, which may be any serial of the machine, is one of another row.
func otherSerial(f fact, facts [observers]identity.Facts) fact {
	mine := identity.NormalizeSerial(f.Values[byInventory])
	if mine == "" || f.Level == "same" {
		return f
	}
	for _, seen := range []identity.Facts{facts[byBMC], facts[byFirmware], facts[byTalos]} {
		switch mine {
		case identity.NormalizeSerial(seen.BoardSerial):
			f.Verdict, f.Level = "equal to its board serial", "same"
		case identity.NormalizeSerial(seen.ChassisSerial):
			f.Verdict, f.Level = "equal to its chassis serial", "same"
		}
	}
	return f
}

// macsOf is the row of MACs, of which each observer may see some.
func macsOf(facts [observers]identity.Facts) fact {
	f := fact{Name: "MAC"}
	var seen [][]string
	by := -1
	for i := range facts {
		var macs []string
		for _, m := range facts[i].MACs {
			if n := identity.NormalizeMAC(m); n != "" {
				macs = append(macs, n)
			}
		}
		if f.Values[i] = strings.Join(facts[i].MACs, ", "); len(macs) > 0 {
			f.Values[i] = strings.Join(macs, ", ")
			seen, by = append(seen, macs), i
		}
	}
	switch {
	case len(seen) == 0:
	case len(seen) == 1:
		f.Verdict = "only " + observerNames[by] + " says"
	case !meet(seen):
		f.Verdict, f.Level = "different", "differs"
	default:
		f.Verdict, f.Level = "equal, as far as each sees", "same"
	}
	return f
}

// meet says whether every two lists have something in common.
func meet(lists [][]string) bool {
	for i, a := range lists {
		for _, b := range lists[i+1:] {
			if !slices.ContainsFunc(a, func(m string) bool { return slices.Contains(b, m) }) {
				return false
			}
		}
	}
	return true
}

// identification says by what the machine is known to be the node.
type identification struct{ Who, Text, Level string }

func identifications(d web.NodeDetail) []identification {
	if d.Inventory == nil {
		return nil
	}
	var list []identification
	if d.Record != nil && d.Record.IdentifiedBy != "" {
		list = append(list, identification{"Told from all others", "by its " + keyAndValue(d.Record.IdentifiedBy, d.Record.Facts), "same"})
	}
	known := []identity.Facts{d.Inventory.Facts}
	if d.Record != nil && !isBlank(d.Record.Facts) {
		if isBlank(d.Inventory.Facts) {
			list = append(list, identification{"BMC", "it is the node's by bmc.address alone: the inventory has no serial, UUID or MAC of the machine", "same"})
		} else {
			list = append(list, verdict("BMC", known, d.Record.Facts))
		}
		known = append(known, d.Record.Facts)
	}
	if d.Boot != nil && !isBlank(d.Boot.Facts) {
		list = append(list, verdict("Firmware", known, d.Boot.Facts))
	}
	if d.Record != nil && !isBlank(d.Record.TalosFacts) {
		list = append(list, verdict("Talos", known, d.Record.TalosFacts))
	}
	return list
}

// keyAndValue is such as "board serial B1".
func keyAndValue(key identity.Key, f identity.Facts) string {
	values := map[identity.Key]string{
		identity.KeySerial: f.Serial, identity.KeyBoardSerial: f.BoardSerial, identity.KeyChassisSerial: f.ChassisSerial,
		identity.KeyUUID: f.UUID, identity.KeyMAC: strings.Join(f.MACs, ", "),
	}
	return strings.TrimSpace(string(key) + " " + values[key])
}

func verdict(who string, known []identity.Facts, seen identity.Facts) identification {
	key, agrees, text := identity.Compare(known, seen)
	switch {
	case agrees:
		return identification{who, "it is the node's machine: " + text, "same"}
	case key == "":
		return identification{who, text, ""}
	}
	return identification{who, text, "differs"}
}

func isBlank(f identity.Facts) bool {
	return f.Serial == "" && f.BoardSerial == "" && f.ChassisSerial == "" && f.UUID == "" && len(f.MACs) == 0
}
