package main

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/talos-provision/provision/bmc"
)

// bmcDocument prints one document for one BMC and an array for several.
func bmcDocument[T any](a *app, all []T) error {
	if len(all) == 1 {
		return a.printJSON(all[0])
	}
	return a.printJSON(all)
}

// printResults prints a row a BMC, and what went wrong below.
func (c *bmcCommands) printResults(r *bmcRun) error {
	if r.asJSON {
		all := make([]bmcResult, 0, len(r.entries))
		for _, e := range r.entries {
			all = append(all, e.result)
		}
		return bmcDocument(c.app, all)
	}
	heading := []string{"NODE", "BMC", "RESULT"}
	columns := []func(bmcResult) string{
		func(b bmcResult) string { return orDash(b.Node) },
		func(b bmcResult) string { return b.Address },
		func(b bmcResult) string { return orDash(b.Result) },
	}
	for _, optional := range []struct {
		name  string
		value func(bmcResult) string
	}{
		{"POWER", func(b bmcResult) string { return string(b.PowerState) }},
		{"BOOT", func(b bmcResult) string { return bootText(b.Boot) }},
		{"MEDIA", func(b bmcResult) string { return mediaText(b.Media) }},
	} {
		if slices.ContainsFunc(r.entries, func(e *bmcEntry) bool { return optional.value(e.result) != "" }) {
			heading = append(heading, optional.name)
			columns = append(columns, func(b bmcResult) string { return orDash(optional.value(b)) })
		}
	}
	rows := make([][]string, 0, len(r.entries))
	for _, e := range r.entries {
		row := make([]string, 0, len(columns))
		for _, column := range columns {
			row = append(row, column(e.result))
		}
		rows = append(rows, row)
	}
	if err := table(c.out, heading, rows); err != nil {
		return err
	}
	c.printErrors(r)
	return nil
}

func (c *bmcCommands) printErrors(r *bmcRun) {
	for _, e := range r.entries {
		if e.result.Error != "" {
			say(c.errOut, "\n%s: %s\n", e.target.name(), e.result.Error)
		}
	}
}

func bootText(b *bmc.BootOverride) string {
	if b == nil || b.String() == "nothing" {
		return ""
	}
	return b.String()
}

// mediaText names what is in the drives; a BMC without drives shows nothing.
func mediaText(media []bmc.Medium) string {
	var images []string
	for _, m := range media {
		if m.Inserted {
			image := m.Image
			if image == "" {
				image = "inserted"
			}
			images = append(images, image)
		}
	}
	if len(images) == 0 && len(media) > 0 {
		return "empty"
	}
	return strings.Join(images, ", ")
}

// printInfo prints who the machines are. One BMC gets its whole document, with
// the Redfish path of each value; several get a row each.
func (c *bmcCommands) printInfo(r *bmcRun) error {
	switch {
	case r.asJSON && len(r.entries) == 1:
		c.printErrors(r)
		if e := r.entries[0]; e.result.Result == resultDone {
			return c.printJSON(e.identity)
		}
		return nil
	case r.asJSON:
		return c.infoArray(r)
	case len(r.entries) == 1 && r.entries[0].result.Result == resultDone:
		return c.infoPage(r.entries[0])
	}
	rows := make([][]string, 0, len(r.entries))
	for _, e := range r.entries {
		id := e.identity
		boot := bootText(e.result.Boot)
		rows = append(rows, []string{
			orDash(e.result.Node), e.result.Address, orDash(id.Vendor), orDash(id.Model), orDash(id.Facts.Serial),
			orDash(id.Facts.BoardSerial), orDash(id.Facts.UUID), orDash(string(id.PowerState)), orDash(boot),
		})
	}
	if err := table(c.out, []string{"NODE", "BMC", "VENDOR", "MODEL", "SERIAL", "BOARD SERIAL", "UUID", "POWER", "BOOT"}, rows); err != nil {
		return err
	}
	c.printErrors(r)
	return nil
}

// infoArray is the documents of several BMCs, each with its node and address in
// front; one that failed has an error in place of the rest.
func (c *bmcCommands) infoArray(r *bmcRun) error {
	all := make([]json.RawMessage, 0, len(r.entries))
	for _, e := range r.entries {
		head, err := json.Marshal(struct {
			Cluster string `json:"cluster,omitempty"`
			Node    string `json:"node,omitempty"`
			Address string `json:"address"`
			Error   string `json:"error,omitempty"`
		}{e.result.Cluster, e.result.Node, e.result.Address, e.result.Error})
		if err != nil {
			return err
		}
		if e.result.Result == resultDone {
			body, err := json.Marshal(e.identity)
			if err != nil {
				return err
			}
			// Both are JSON objects with at least one member.
			head = append(append(head[:len(head)-1], ','), body[1:]...)
		}
		all = append(all, head)
	}
	return c.printJSON(all)
}

// infoPage is one machine for a person.
func (c *bmcCommands) infoPage(e *bmcEntry) error {
	id := e.identity
	rows := make([][]string, 0, 9+len(id.Facts.MACs))
	for _, v := range []struct{ name, value, source string }{
		{"vendor", id.Vendor, "vendor"}, {"model", id.Model, "model"}, {"system", id.System, ""},
		{"serial", id.Facts.Serial, "serial"}, {"board serial", id.Facts.BoardSerial, "boardSerial"},
		{"chassis serial", id.Facts.ChassisSerial, "chassisSerial"}, {"uuid", id.Facts.UUID, "uuid"},
		{"power", string(id.PowerState), "powerState"}, {"boot", bootText(&id.Boot), "boot"},
	} {
		rows = append(rows, []string{v.name, orDash(v.value), orDash(id.Sources[v.source])})
	}
	for _, mac := range id.Facts.MACs {
		rows = append(rows, []string{"mac", mac, orDash(id.Sources["mac "+mac])})
	}
	return table(c.out, []string{"FACT", "VALUE", "READ FROM"}, rows)
}
