package bmc

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// driveDocument is a VirtualMedia resource (DSP2046, VirtualMedia).
type driveDocument struct {
	path string
	etag string

	ID        text       `json:"Id"`
	Name      text       `json:"Name"`
	ETag      text       `json:"@odata.etag"`
	Types     list[text] `json:"MediaTypes"`
	Image     text       `json:"Image"`
	ImageName text       `json:"ImageName"`
	Inserted  text       `json:"Inserted"`
	Via       text       `json:"ConnectedVia"`
	Actions   object[struct {
		Insert object[driveAction] `json:"#VirtualMedia.InsertMedia"`
		Eject  object[driveAction] `json:"#VirtualMedia.EjectMedia"`
	}] `json:"Actions"`
	Oem json.RawMessage `json:"Oem"`
}

type driveAction struct {
	Target link `json:"target"`
}

// cdName is how drives without MediaTypes are known to be called.
var cdName = regexp.MustCompile(`(?i)cd|dvd|^ext\d|optical`)

func (d *driveDocument) isCD() bool {
	if len(d.Types) > 0 {
		return contains(d.Types, "CD") || contains(d.Types, "DVD")
	}
	return cdName.MatchString(string(d.ID)) || cdName.MatchString(string(d.Name))
}

// inserted believes ConnectedVia before Inserted: Supermicro goes on showing the
// image of an empty drive (community.general#7470).
func (d *driveDocument) inserted() bool {
	switch {
	case strings.EqualFold(string(d.Via), "NotConnected"):
		return false
	case d.Inserted != "":
		return strings.EqualFold(string(d.Inserted), "true")
	}
	return d.Image != ""
}

// holds tells whether the machine sees this image. Some BMCs show only the file
// name of it, or the URI in another escaping.
func (d *driveDocument) holds(uri string) bool {
	if !d.inserted() {
		return false
	}
	file := fileOf(uri)
	switch {
	case string(d.Image) == uri:
		return true
	case strings.Contains(string(d.Image), "://"):
		return unescaped(string(d.Image)) == unescaped(uri)
	case d.Image != "":
		return file != "" && path.Base(string(d.Image)) == file
	}
	return file != "" && string(d.ImageName) == file
}

func fileOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return ""
	}
	if base := path.Base(u.Path); base != "/" && base != "." {
		return base
	}
	return ""
}

func unescaped(uri string) string {
	if s, err := url.PathUnescape(uri); err == nil {
		return s
	}
	return uri
}

// driveWrite is one way to change a drive.
type driveWrite struct {
	method, path string
	payload      map[string]any
}

// vmmControl is the action of Huawei's and xFusion's iBMC, which has none of the
// standard ones.
func (d *driveDocument) vmmControl() string {
	for _, maker := range []string{"Huawei", "xFusion"} {
		if target := below(d.path, localPath(lookup(d.Oem, maker, "Actions", "#VirtualMedia.VmmControl", "target"))); target != "" {
			return target
		}
	}
	return ""
}

// target gives an action's URI; some BMCs show the action without it
// (kubevirtbmc#172).
func (d *driveDocument) target(a object[driveAction], name string) string {
	if target := below(d.path, string(a.value.Target)); target != "" {
		return target
	}
	return strings.TrimRight(d.path, "/") + "/Actions/VirtualMedia." + name
}

// insertions are the ways to insert an image, best first. The action's optional
// parameters come only when their lack is refused, because some Supermicro
// firmware refuses them (sushy). Drives without an action are written (Lenovo
// XCC).
func (d *driveDocument) insertions(uri string) []driveWrite {
	var out []driveWrite
	protocol, _, _ := strings.Cut(strings.ToUpper(uri), ":")
	if a := d.Actions.value.Insert; a.set {
		to := d.target(a, "InsertMedia")
		for _, payload := range []map[string]any{
			{"Image": uri},
			{"Image": uri, "Inserted": true, "WriteProtected": true},
			{"Image": uri, "TransferProtocolType": protocol},
			{"Image": uri, "Inserted": true, "WriteProtected": true, "TransferMethod": "Stream", "TransferProtocolType": protocol},
		} {
			out = append(out, driveWrite{http.MethodPost, to, payload})
		}
	}
	if to := d.vmmControl(); to != "" {
		out = append(out, driveWrite{http.MethodPost, to, map[string]any{"VmmControlType": "Connect", "Image": uri}})
	}
	return append(out,
		driveWrite{http.MethodPatch, d.path, map[string]any{"Image": uri, "Inserted": true, "WriteProtected": true}},
		driveWrite{http.MethodPatch, d.path, map[string]any{"Image": uri, "Inserted": true}},
	)
}

// ejections are the ways to empty a drive.
func (d *driveDocument) ejections() []driveWrite {
	var out []driveWrite
	if a := d.Actions.value.Eject; a.set {
		out = append(out, driveWrite{http.MethodPost, d.target(a, "EjectMedia"), map[string]any{}})
	}
	if to := d.vmmControl(); to != "" {
		out = append(out, driveWrite{http.MethodPost, to, map[string]any{"VmmControlType": "Disconnect"}})
	}
	return append(out,
		driveWrite{http.MethodPatch, d.path, map[string]any{"Image": nil, "Inserted": false}},
		driveWrite{http.MethodPatch, d.path, map[string]any{"Inserted": false}},
		driveWrite{http.MethodPatch, d.path, map[string]any{"Image": nil}},
	)
}

func (c *Client) readDrive(ctx context.Context, path string) (*driveDocument, error) {
	d := &driveDocument{path: path}
	etag, err := c.get(ctx, path, d)
	if err != nil {
		return nil, fmt.Errorf("read a virtual drive: %w", err)
	}
	if d.etag = etag; etag == "" {
		d.etag = string(d.ETag)
	}
	return d, nil
}

// drives reads the virtual CD drives, best first: those of the system, as newer
// services have them, else those of its managers.
func (c *Client) drives(ctx context.Context) ([]*driveDocument, error) {
	m, sys, err := c.system(ctx)
	if err != nil {
		return nil, err
	}
	if media := below(m.path, string(sys.Media)); media != "" {
		found, err := c.drivesIn(ctx, m.vendor, media)
		if len(found) > 0 || err != nil {
			return found, err
		}
	}
	managers := make([]string, 0, len(sys.Links.value.Managers))
	for _, l := range sys.Links.value.Managers {
		managers = append(managers, string(l))
	}
	if len(managers) == 0 && c.root.Managers != "" {
		managers, err = c.members(ctx, string(c.root.Managers))
		if err != nil && !absent(err) {
			return nil, fmt.Errorf("list the managers: %w", err)
		}
	}
	unlinked := len(sys.Links.value.Managers) == 0 && len(managers) > 1
	for _, path := range managers[:min(len(managers), maxDrives)] {
		var manager managerDocument
		if _, err := c.get(ctx, path, &manager); err != nil {
			if absent(err) {
				continue
			}
			return nil, fmt.Errorf("read a manager: %w", err)
		}
		media := below(path, string(manager.Media))
		if media == "" || !manager.manages(m.path, unlinked) {
			continue
		}
		found, err := c.drivesIn(ctx, m.vendor, media)
		if len(found) > 0 || err != nil {
			return found, err
		}
	}
	return nil, ErrNoMedia
}

type managerDocument struct {
	Media link `json:"VirtualMedia"`
	Links object[struct {
		Servers list[link] `json:"ManagerForServers"`
	}] `json:"Links"`
}

// manages tells whether a manager may be the system's: one that names other
// systems only would put the medium into another machine, and one of several that
// nothing links to the system might.
func (m *managerDocument) manages(system string, strict bool) bool {
	servers := m.Links.value.Servers
	return len(servers) == 0 && !strict || slices.ContainsFunc(servers, func(l link) bool { return samePath(string(l), system) })
}

// drivesIn reads the CD drives of one collection, in its order besides the
// vendor's preference: firmware boots from the first of them.
func (c *Client) drivesIn(ctx context.Context, v vendor, collection string) ([]*driveDocument, error) {
	members, err := c.members(ctx, collection)
	if err != nil {
		if absent(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("list the virtual drives: %w", err)
	}
	var out []*driveDocument
	for _, m := range members[:min(len(members), maxDrives)] {
		if below(collection, m) == "" {
			continue
		}
		d, err := c.readDrive(ctx, m)
		switch {
		case err == nil && d.isCD():
			out = append(out, d)
		case err != nil && !absent(err):
			return nil, err
		}
	}
	slices.SortStableFunc(out, func(a, b *driveDocument) int { return v.driveRank(a) - v.driveRank(b) })
	return out, nil
}

// driveRank puts a vendor's drives for images from the network first.
func (v vendor) driveRank(d *driveDocument) int {
	if slices.ContainsFunc(v.drives, func(prefix string) bool { return strings.HasPrefix(lastElement(d.path), prefix) }) {
		return 0
	}
	return 1
}
