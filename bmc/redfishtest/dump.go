package redfishtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// FromDump makes a profile of a real BMC from a dump of its documents, in the
// layout of the DMTF's Redfish-Mockup-Creator: a file index.json in a folder for
// each resource, from redfish/v1/ down. Every document is shown as it was
// dumped, serial numbers included; power state, boot override, resets, sessions
// and virtual media work as in any profile. What a dump cannot show is how the
// BMC answers writes: that is the standard's way, until the fields of the
// returned profile say otherwise.
//
// A dump holds serial numbers and addresses of a real machine. Replace them
// before it leaves your house.
func FromDump(name string, dump fs.FS) (Profile, error) {
	d, err := readDump(dump)
	if err != nil {
		return Profile{}, fmt.Errorf("make the profile %s from a dump: %w", name, err)
	}
	p := Generic()
	p.Name = name
	for _, step := range []func(dumped, *Profile) error{
		dumped.identify, dumped.bootRules, dumped.resetRules, dumped.mediaRules, dumped.documents,
	} {
		if err := step(d, &p); err != nil {
			return Profile{}, fmt.Errorf("make the profile %s from a dump: %w", name, err)
		}
	}
	return p, nil
}

// dumped are the documents by path, as they were written.
type dumped map[string]json.RawMessage

func readDump(dump fs.FS) (dumped, error) {
	d := dumped{}
	err := fs.WalkDir(dump, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Base(name) != "index.json" {
			return err
		}
		content, err := fs.ReadFile(dump, name)
		if err != nil {
			return err
		}
		if !json.Valid(content) {
			return fmt.Errorf("%s is not JSON", name)
		}
		where := path.Dir(name)
		if i := strings.Index("/"+where+"/", "/redfish/v1/"); i >= 0 {
			where = where[i:]
		} else {
			where = path.Join("redfish/v1", where)
		}
		d["/"+strings.Trim(where, "/")] = content
		return nil
	})
	if err == nil && len(d) == 0 {
		err = errors.New("there is no index.json in it; give the folder that holds redfish/v1/index.json")
	}
	return d, err
}

// read decodes a document; one that is missing or no object is empty.
func (d dumped) read(where string) Document {
	var doc Document
	_ = json.Unmarshal(d[strings.TrimSuffix(where, "/")], &doc)
	return doc
}

// follow goes down the members down to an @odata.id; of a list it takes the first.
func follow(doc Document, members ...string) string {
	value := any(doc)
	for _, name := range append(members, "@odata.id") {
		if list, ok := value.([]any); ok && len(list) > 0 {
			value = list[0]
		}
		object, ok := value.(Document)
		if !ok {
			return ""
		}
		value = object[name]
	}
	text, _ := value.(string)
	return strings.TrimSuffix(text, "/")
}

func child(doc Document, members ...string) Document {
	for _, name := range members {
		doc, _ = doc[name].(Document)
	}
	return doc
}

func texts(value any) []string {
	list, _ := value.([]any)
	var all []string
	for _, v := range list {
		if s, ok := v.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

func text(value any) string {
	s, _ := value.(string)
	return s
}

// members are the paths of a collection's members.
func (d dumped) members(collection string) []string {
	list, _ := d.read(collection)["Members"].([]any)
	var all []string
	for _, m := range list {
		if object, ok := m.(Document); ok {
			all = append(all, follow(object))
		}
	}
	return all
}

// identify finds the machine: the System that can be reset and has Boot.
func (d dumped) identify(p *Profile) error {
	root := d.read("/redfish/v1")
	var system string
	for _, candidate := range d.members("/redfish/v1/Systems") {
		doc := d.read(candidate)
		if doc["Boot"] != nil && child(doc, "Actions", "#ComputerSystem.Reset") != nil {
			system = candidate
			break
		}
	}
	if system == "" {
		return errors.New("no System in redfish/v1/Systems has both Boot and the action #ComputerSystem.Reset; dump the whole tree")
	}
	doc := d.read(system)
	p.SystemID = path.Base(system)
	p.Manufacturer, p.Vendor, p.Product = text(doc["Manufacturer"]), text(root["Vendor"]), text(root["Product"])
	p.RedfishVersion = text(root["RedfishVersion"])
	p.ChassisID, p.ManagerID = p.Name+"-chassis", p.Name+"-manager"
	for id, found := range map[*string][]string{
		&p.ChassisID: append([]string{follow(doc, "Links", "Chassis")}, d.members("/redfish/v1/Chassis")...),
		&p.ManagerID: append([]string{follow(doc, "Links", "ManagedBy")}, d.members("/redfish/v1/Managers")...),
	} {
		if i := slices.IndexFunc(found, func(s string) bool { return d[s] != nil }); i >= 0 {
			*id = path.Base(found[i])
		}
	}
	p.Session.None = root["SessionService"] == nil && child(root, "Links")["Sessions"] == nil
	tag := text(doc["@odata.etag"])
	p.ETag.None, p.ETag.Weak = tag == "", strings.HasPrefix(tag, "W/")
	return nil
}

func (d dumped) system(p *Profile) string { return "/redfish/v1/Systems/" + p.SystemID }

// bootRules reads what the BMC shows of the boot override.
func (d dumped) bootRules(p *Profile) error {
	doc := d.read(d.system(p))
	boot := child(doc, "Boot")
	rules := BootRules{Targets: texts(boot[keyTarget+"@Redfish.AllowableValues"]), Enabled: texts(boot[keyEnabled+"@Redfish.AllowableValues"])}
	_, mode := boot[keyMode]
	rules.NoMode = !mode && boot[keyMode+"@Redfish.AllowableValues"] == nil
	_, uri := boot[keyURI]
	rules.NoHTTPBootURI = !uri
	rules.RestTarget = text(boot[keyTarget])
	if where := follow(doc, "@Redfish.Settings", "SettingsObject"); path.Dir(where) == d.system(p) && d[where] != nil {
		rules.Settings = Settings{ID: path.Base(where), Annotated: true}
		pending := child(d.read(where), "Boot")
		for _, key := range []string{keyTarget, keyEnabled, keyMode, keyURI} {
			if _, shown := pending[key]; shown || pending[key+"@Redfish.AllowableValues"] != nil {
				rules.Settings.Keys = append(rules.Settings.Keys, key)
			}
		}
		if len(rules.Targets) == 0 {
			rules.Targets = texts(pending[keyTarget+"@Redfish.AllowableValues"])
			rules.HideAllowable = len(rules.Targets) > 0
		}
	}
	if len(rules.Targets) == 0 {
		rules.Targets = p.Boot.Targets
	}
	p.Boot = rules
	return nil
}

func (d dumped) resetRules(p *Profile) error {
	action := child(d.read(d.system(p)), "Actions", "#ComputerSystem.Reset")
	types := texts(action["ResetType@Redfish.AllowableValues"])
	if where := text(action["@Redfish.ActionInfo"]); len(types) == 0 && d[where] != nil {
		parameters, _ := d.read(where)["Parameters"].([]any)
		for _, parameter := range parameters {
			if object, ok := parameter.(Document); ok && text(object["Name"]) == "ResetType" {
				types = texts(object["AllowableValues"])
			}
		}
		p.Reset.ActionInfo = true
	}
	if len(types) > 0 {
		p.Reset.Types = types
	}
	return nil
}

func (d dumped) mediaRules(p *Profile) error {
	p.Media = MediaRules{None: true}
	for kind, where := range map[Resource]string{
		ResourceManager: "/redfish/v1/Managers/" + p.ManagerID, ResourceSystem: d.system(p),
	} {
		for _, member := range d.members(where + "/VirtualMedia") {
			doc := d.read(member)
			slot := Slot{ID: path.Base(member), Types: texts(doc["MediaTypes"])}
			if !slices.ContainsFunc(p.Media.Slots, func(s Slot) bool { return s.ID == slot.ID }) {
				p.Media.Slots = append(p.Media.Slots, slot)
			}
			p.Media.None = false
			p.Media.ByPatch = child(doc, "Actions", "#VirtualMedia.InsertMedia") == nil
			if !slices.Contains(p.Media.On, kind) {
				p.Media.On = append(p.Media.On, kind)
			}
		}
	}
	return nil
}

// documents shows the dump's documents. Those that the service keeps alive are
// laid over its own; the rest stands as it is.
func (d dumped) documents(p *Profile) error {
	live := map[string]Resource{
		"/redfish/v1":                          ResourceRoot,
		d.system(p):                            ResourceSystem,
		"/redfish/v1/Chassis/" + p.ChassisID:   ResourceChassis,
		"/redfish/v1/Managers/" + p.ManagerID:  ResourceManager,
		d.system(p) + "/" + p.Boot.Settings.ID: ResourceSettings,
	}
	p.Decorate = map[Resource]func(Hardware, Document){}
	own := []string{"/redfish", "/redfish/v1/Systems", "/redfish/v1/Chassis", "/redfish/v1/Managers", d.system(p) + "/ResetActionInfo"}
	before := true
	for _, where := range slices.Sorted(maps.Keys(d)) {
		kind, alive := live[where]
		switch {
		case alive:
			p.Decorate[kind] = d.overlay(kind, where)
			before = before && kind != ResourceSystem
		case slices.Contains(own, where), strings.Contains(where, "/VirtualMedia"),
			strings.HasPrefix(where, "/redfish/v1/SessionService"), strings.HasPrefix(where, taskServicePath):
		default:
			p.Extra = append(p.Extra, Extra{Path: where, First: before, Document: d.read(where), Instead: true})
		}
	}
	return nil
}

// overlay lays a dumped document over the service's own, but for the members
// that only the running service knows.
func (d dumped) overlay(kind Resource, where string) func(Hardware, Document) {
	kept := []string{"@odata.id", "@odata.etag", "PowerState", "Boot", "Actions", "VirtualMedia", "@Redfish.Settings"}
	if kind == ResourceRoot {
		kept = append(kept, "SessionService", "Tasks", "Links")
	}
	return func(_ Hardware, doc Document) {
		dump := d.read(where) // decoded anew each time: the caller may edit it
		if kind == ResourceRoot {
			for _, name := range []string{"Systems", "Chassis", "Managers"} {
				if dump[name] == nil {
					delete(doc, name)
				}
			}
		}
		for name, value := range dump {
			if !slices.Contains(kept, name) {
				doc[name] = value
			}
		}
		own := child(doc, "Boot")
		for name, value := range child(dump, "Boot") {
			if _, known := own[name]; !known && own != nil {
				own[name] = value // BootOrder, BootNext and what else there is
			}
		}
	}
}
