package bmc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/talos-provision/provision/inventory/identity"
)

// Identity is what a BMC says of its machine.
type Identity struct {
	// Vendor is Supermicro, Dell, HPE, Lenovo, Huawei, xFusion, Cisco, NVIDIA,
	// AMI or OpenBMC, else the manufacturer as the BMC spells it.
	Vendor string
	Model  string
	// System is the Id of the ComputerSystem.
	System string
	// Facts hold no placeholders: what a vendor left unset is empty.
	Facts      identity.Facts
	PowerState PowerState
	// Boot is the boot override, as BootOverride gives it.
	Boot BootOverride
	// Sources says where each value was read: vendor, model, serial,
	// boardSerial, chassisSerial, uuid, powerState, boot, and "mac <address>"
	// for each address, to a Redfish path with the property after "#".
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
	m, sys, err := c.system(ctx)
	if err != nil {
		return Identity{}, c.explain("identify the machine", err)
	}
	id, err := c.describe(ctx, sys)
	if err == nil {
		err = c.addBoot(ctx, m, sys, &id)
	}
	return id, c.explain("identify the machine", err)
}

// addBoot adds the boot override. A settings resource that cannot be read costs
// only what it would have shown.
func (c *Client) addBoot(ctx context.Context, m *machine, sys *systemDocument, id *Identity) error {
	var at string
	var err error
	if id.Boot, at, err = c.overrideAt(ctx, m, sys); err != nil {
		if ctx.Err() != nil || errors.Is(err, ErrUnauthorized) {
			return err
		}
		c.log.DebugContext(ctx, "skip the settings of the system", "reason", err)
	}
	if id.Boot != (BootOverride{}) {
		id.Sources["boot"] = at + "#/Boot"
	}
	return nil
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
	for fact, property := range map[string]string{"vendor": "Manufacturer", "model": "Model", "powerState": "PowerState"} {
		if lookup(sys.raw, property) != "" {
			id.Sources[fact] = sys.path + "#/" + property
		}
	}
	set := func(fact string, into *string, sources []source) {
		if value, where := find(sources, sys, chassis); value != "" {
			*into, id.Sources[fact] = value, where
		}
	}
	set("serial", &id.Facts.Serial, slices.Concat(v.serial, []source{{in: inSystem, keys: []string{"SerialNumber"}}}))
	set("boardSerial", &id.Facts.BoardSerial, v.board)
	set("uuid", &id.Facts.UUID, []source{{in: inSystem, keys: []string{"UUID"}}})
	enclosures := slices.DeleteFunc(slices.Clone(chassis), func(d *chassisDocument) bool { return !d.isEnclosure() })
	if value, where := find(slices.Concat(v.chassis, []source{{in: inChassis, keys: []string{"SerialNumber"}}}), sys, enclosures); value != "" {
		id.Facts.ChassisSerial, id.Sources["chassisSerial"] = value, where
	}
	for _, search := range []func(context.Context, vendor, []*chassisDocument) (string, string){c.vendorBoard, c.genericBoard, c.boxBoard} {
		if id.Facts.BoardSerial != "" {
			break
		}
		if value, where := search(ctx, v, chassis); value != "" {
			id.Facts.BoardSerial, id.Sources["boardSerial"] = value, where
		}
	}
	c.readMACs(ctx, v, sys, chassis, &id)
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
