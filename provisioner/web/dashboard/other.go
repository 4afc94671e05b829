package dashboard

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/web"
	"github.com/talos-provision/provision/pxe/httpboot"
)

// unknownPage is how many unknown machines a page has.
const unknownPage = 25

// unknownRow is a machine that is nobody's.
type unknownRow struct {
	store.Unknown
	YAML string
	Name string // for a person
}

func (u unknownRow) rowID() string {
	return elementID("u", append([]string{u.Facts.Serial, u.Facts.BoardSerial, u.Facts.UUID}, u.Facts.MACs...)...)
}

// Key is the id of the machine's element.
func (u unknownRow) Key() string { return u.rowID() }

type unknownData struct {
	Machines []unknownRow
	Total    int
	Pages    pages
}

func (s *site) unknown(r *http.Request, _ Viewer) (view, error) {
	p, err := s.fleet.get(r.Context())
	if err != nil {
		return view{}, err
	}
	d := unknownData{Total: len(p.unknown)}
	d.Pages.Count = max(1, (d.Total+unknownPage-1)/unknownPage)
	number, _ := strconv.Atoi(r.URL.Query().Get("page")) // anything else is the first
	d.Pages.Number = min(max(number, 1), d.Pages.Count)
	from := (d.Pages.Number - 1) * unknownPage
	for _, m := range p.unknown[from:min(from+unknownPage, d.Total)] {
		d.Machines = append(d.Machines, unknownRow{Unknown: m, YAML: asked(m).InventoryYAML(), Name: nameOf(m)})
	}
	d.Pages.From, d.Pages.To = from+1, from+len(d.Machines)
	if d.Pages.Number > 1 {
		d.Pages.Before = "/unknown?page=" + strconv.Itoa(d.Pages.Number-1)
	}
	if d.Pages.Number < d.Pages.Count {
		d.Pages.Next = "/unknown?page=" + strconv.Itoa(d.Pages.Number+1)
	}
	rows := make([]row, 0, len(d.Machines))
	for _, m := range d.Machines {
		rows = append(rows, m)
	}
	return view{title: "Unknown machines", section: "unknown", name: "unknown", data: d, pieces: []piece{
		{template: "unknown-rows", data: d, row: "unknown-row", rows: rows}, {template: "unknown-counts", data: d, every: calmly},
	}}, nil
}

// asked is what an unknown machine sent when it asked last.
func asked(m store.Unknown) httpboot.Request {
	source, _ := netip.ParseAddr(m.Source) // for a comment: none is as good
	// They stand in a comment of a file that somebody will save: on its line they stay.
	line := func(s string) string { return strings.Join(strings.Fields(clip(s, 100)), " ") }
	return httpboot.Request{
		Facts: m.Facts, Arch: m.Arch, Platform: m.Platform, Manufacturer: line(m.Manufacturer), Product: line(m.Product), Asset: line(m.Asset),
		NICs: m.NICs, Source: source,
	}
}

// nameOf is what a person may find a machine by.
func nameOf(m store.Unknown) string {
	for _, serial := range []string{m.Facts.Serial, m.Facts.BoardSerial} {
		if identity.NormalizeSerial(serial) != "" {
			return clip(serial, 80)
		}
	}
	if identity.NormalizeUUID(m.Facts.UUID) != "" {
		return clip(m.Facts.UUID, 80)
	}
	if len(m.Facts.MACs) > 0 {
		return clip(m.Facts.MACs[0], 80)
	}
	return "a machine without any number"
}

func (s *site) collisions(r *http.Request, _ Viewer) (view, error) {
	p, err := s.fleet.get(r.Context())
	if err != nil {
		return view{}, err
	}
	return view{
		title: "Collisions", section: "collisions", name: "collisions", data: p.collisions,
		pieces: []piece{{template: "collision-list", data: p.collisions}},
	}, nil
}

type inventoryData struct {
	*web.InventoryInfo
	Viewer Viewer
}

func (s *site) inventory(r *http.Request, v Viewer) (view, error) {
	p, err := s.fleet.get(r.Context())
	if err != nil {
		return view{}, err
	}
	d := inventoryData{p.inventory, v}
	return view{
		title: "Inventory", section: "inventory", name: "inventory", data: d, pieces: []piece{{template: "inventory-state", data: d}},
	}, nil
}
