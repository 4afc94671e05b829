package bmc

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/talos-provision/provision/inventory/identity"
)

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
			v := lookup(d.raw, s.keys...)
			if !identity.IsPlaceholder(v) && (s.form == nil || s.form.MatchString(v)) {
				return v, d.path + "#/" + strings.Join(s.keys, "/")
			}
		}
	}
	return "", ""
}

// genericBoard looks for the motherboard's serial in the places that the
// standard gives: Assembly entries, then chassis that are boards.
func (c *Client) genericBoard(ctx context.Context, _ vendor, chassis []*chassisDocument) (serial, where string) {
	for _, d := range chassis {
		if d.Assembly == "" {
			continue
		}
		var a assemblyDocument
		if _, err := c.fetch(ctx, request{method: http.MethodGet, path: string(d.Assembly)}, 2, &a); err != nil {
			c.log.DebugContext(ctx, "skip an assembly", "path", string(d.Assembly), "reason", err)
			continue
		}
		if s, i := a.boardOf(); s != "" {
			return s, fmt.Sprintf("%s#/Assemblies/%d/SerialNumber", d.Assembly, i)
		}
	}
	for _, d := range chassis {
		if d.isBoard() && !identity.IsPlaceholder(string(d.SerialNumber)) {
			return string(d.SerialNumber), d.path + "#/SerialNumber"
		}
	}
	return "", ""
}
