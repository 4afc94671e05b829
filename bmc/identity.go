package bmc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/talos-provision/provision/inventory/identity"
)

// Identity is what a BMC says of its machine.
type Identity struct {
	// Vendor is Supermicro, Dell, HPE, Lenovo, NVIDIA or AMI, else the
	// manufacturer as the BMC spells it.
	Vendor string
	Model  string
	// System is the Id of the ComputerSystem.
	System string
	// Facts hold no placeholders: what a vendor left unset is empty.
	Facts      identity.Facts
	PowerState PowerState
	// Sources says where each value was read: serial, boardSerial,
	// chassisSerial, uuid, and "mac <address>" for each address, to a Redfish
	// path with the property after "#".
	Sources map[string]string
}

// Bounds of what is read of one machine, far above real ones.
const (
	maxChassis    = 32
	maxInterfaces = 64
)

// Identify reads the machine's identity and power state. It changes nothing.
func (c *Client) Identify(ctx context.Context) (Identity, error) {
	ctx, cancel := c.operation(ctx)
	defer cancel()
	_, sys, err := c.system(ctx)
	if err != nil {
		return Identity{}, c.explain("identify the machine", err)
	}
	id, err := c.describe(ctx, sys)
	return id, c.explain("identify the machine", err)
}

// describe collects the facts of one system.
func (c *Client) describe(ctx context.Context, sys *systemDocument) (Identity, error) {
	chassis, err := c.chassisOf(ctx, sys)
	if err != nil {
		return Identity{}, err
	}
	v := detect(&c.root, sys, chassis)
	id := Identity{
		Vendor: v.name, Model: string(sys.Model), System: sys.id(),
		PowerState: powerState(sys.PowerState), Sources: map[string]string{},
	}
	set := func(fact string, into *string, sources []source) {
		if value, where := find(sources, sys, chassis); value != "" {
			*into, id.Sources[fact] = value, where
		}
	}
	set("serial", &id.Facts.Serial, slices.Concat(v.serial, []source{{inSystem, []string{"SerialNumber"}}}))
	set("boardSerial", &id.Facts.BoardSerial, v.board)
	set("uuid", &id.Facts.UUID, []source{{inSystem, []string{"UUID"}}})
	enclosures := slices.DeleteFunc(slices.Clone(chassis), func(d *chassisDocument) bool { return !d.isEnclosure() })
	if value, where := find(slices.Concat(v.chassis, []source{{inChassis, []string{"SerialNumber"}}}), sys, enclosures); value != "" {
		id.Facts.ChassisSerial, id.Sources["chassisSerial"] = value, where
	}
	if id.Facts.BoardSerial == "" {
		if value, where := c.genericBoard(ctx, chassis); value != "" {
			id.Facts.BoardSerial, id.Sources["boardSerial"] = value, where
		}
	}
	c.readMACs(ctx, sys, &id)
	return id, context.Cause(ctx)
}

// chassisOf reads every chassis that holds the system: those it links, else
// those that link it, else the only one there is. A drive enclosure beside the
// server (Lenovo's Chassis/3) links no system and must not lend its serial.
func (c *Client) chassisOf(ctx context.Context, sys *systemDocument) ([]*chassisDocument, error) {
	linked := sys.Links.value.Chassis
	paths := make([]string, 0, len(linked))
	for _, l := range linked {
		paths = append(paths, string(l))
	}
	if len(paths) == 0 && c.root.Chassis != "" {
		members, err := c.members(ctx, string(c.root.Chassis))
		if err != nil && !absent(err) {
			return nil, fmt.Errorf("list the chassis: %w", err)
		}
		paths = members
	}
	var all []*chassisDocument
	for _, p := range paths[:min(len(paths), maxChassis)] {
		d, err := c.readChassis(ctx, p)
		switch {
		case err == nil:
			all = append(all, d)
		case absent(err):
			c.log.DebugContext(ctx, "skip a chassis", "path", p, "reason", err)
		default:
			return nil, err
		}
	}
	if len(linked) > 0 {
		return all, nil
	}
	holding := slices.DeleteFunc(slices.Clone(all), func(d *chassisDocument) bool {
		return !slices.ContainsFunc(d.Links.value.Systems, func(l link) bool { return samePath(string(l), sys.path) })
	})
	if len(holding) == 0 && len(all) == 1 && len(all[0].Links.value.Systems) == 0 {
		return all, nil
	}
	return holding, nil
}

func (c *Client) readChassis(ctx context.Context, path string) (*chassisDocument, error) {
	var raw json.RawMessage
	if _, err := c.get(ctx, path, &raw); err != nil {
		return nil, fmt.Errorf("read a chassis: %w", err)
	}
	d := &chassisDocument{path: path, raw: raw}
	if err := json.Unmarshal(raw, d); err != nil {
		return nil, fmt.Errorf("read a chassis: %w", &badDocument{path: path, err: err})
	}
	return d, nil
}

// absent tells that a resource is not there, or not for this account.
func absent(err error) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && (r.status == http.StatusNotFound || r.status == http.StatusForbidden || r.status == http.StatusGone ||
		r.status == http.StatusMethodNotAllowed || r.status == http.StatusNotImplemented)
}

// genericBoard looks for the motherboard's serial in the places that the
// standard gives: Assembly entries, then chassis that are boards.
func (c *Client) genericBoard(ctx context.Context, chassis []*chassisDocument) (serial, where string) {
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

// readMACs collects the host's addresses. They only ever confirm a machine, so
// an interface that cannot be read is passed over.
func (c *Client) readMACs(ctx context.Context, sys *systemDocument, id *Identity) {
	if sys.Interfaces == "" {
		return
	}
	members, err := c.members(ctx, string(sys.Interfaces))
	if err != nil {
		c.log.DebugContext(ctx, "skip the network interfaces", "reason", err)
	}
	for _, p := range members[:min(len(members), maxInterfaces)] {
		var nic interfaceDocument
		if _, err := c.fetch(ctx, request{method: http.MethodGet, path: p}, 2, &nic); err != nil {
			c.log.DebugContext(ctx, "skip a network interface", "path", p, "reason", err)
			if ctx.Err() != nil {
				return
			}
			continue
		}
		for _, address := range []struct{ value, property string }{
			{string(nic.Permanent), "PermanentMACAddress"}, {string(nic.MAC), "MACAddress"},
		} {
			mac := identity.NormalizeMAC(address.value)
			if mac == "" || slices.Contains(id.Facts.MACs, mac) {
				continue
			}
			id.Facts.MACs = append(id.Facts.MACs, mac)
			id.Sources["mac "+mac] = p + "#/" + address.property + nic.note()
		}
	}
}

// note marks the USB link between host and BMC, which is no way to the network.
func (n *interfaceDocument) note() string {
	for _, s := range []text{n.Name, n.Description} {
		if l := strings.ToLower(string(s)); strings.Contains(l, "usb") || strings.Contains(l, "host interface") || strings.Contains(l, "tomanager") {
			return " (link between host and BMC)"
		}
	}
	return ""
}
