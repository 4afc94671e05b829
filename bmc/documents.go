package bmc

import (
	"encoding/json"
	"slices"
	"strings"
)

// The documents hold only the properties that this package acts on.

type rootDocument struct {
	Vendor         text `json:"Vendor"`
	Product        text `json:"Product"`
	Systems        link `json:"Systems"`
	Chassis        link `json:"Chassis"`
	Managers       link `json:"Managers"`
	SessionService link `json:"SessionService"`
	Links          object[struct {
		Sessions link `json:"Sessions"`
	}] `json:"Links"`
	Oem json.RawMessage `json:"Oem"`
}

// sessions is where to log in, "" when there is no such place. Some roots lack
// the link to the sessions themselves (sushy bug 1754514). The password is not
// posted to what does not look like it.
func (r *rootDocument) sessions() string {
	looks := func(l link) bool { return strings.Contains(strings.ToLower(string(l)), "session") }
	switch {
	case looks(r.Links.value.Sessions):
		return string(r.Links.value.Sessions)
	case looks(r.SessionService):
		return strings.TrimRight(string(r.SessionService), "/") + "/Sessions"
	}
	return ""
}

type collectionDocument struct {
	Members  list[link] `json:"Members"`
	NextLink link       `json:"Members@odata.nextLink"`
}

type systemDocument struct {
	path string
	raw  json.RawMessage
	etag string // the header's, else the document's

	ID           text                  `json:"Id"`
	Name         text                  `json:"Name"`
	ETag         text                  `json:"@odata.etag"`
	SystemType   text                  `json:"SystemType"`
	Manufacturer text                  `json:"Manufacturer"`
	Model        text                  `json:"Model"`
	SerialNumber text                  `json:"SerialNumber"`
	SKU          text                  `json:"SKU"`
	UUID         text                  `json:"UUID"`
	PowerState   text                  `json:"PowerState"`
	Boot         object[bootDocument]  `json:"Boot"`
	Actions      object[systemActions] `json:"Actions"`
	Interfaces   link                  `json:"EthernetInterfaces"`
	Media        link                  `json:"VirtualMedia"`
	Links        object[struct {
		Chassis  list[link] `json:"Chassis"`
		Managers list[link] `json:"ManagedBy"`
	}] `json:"Links"`
	Settings object[struct {
		Object link `json:"SettingsObject"`
	}] `json:"@Redfish.Settings"`
	Oem json.RawMessage `json:"Oem"`
}

// id is what a person names the system by.
func (s *systemDocument) id() string {
	if s.ID != "" {
		return string(s.ID)
	}
	return lastElement(s.path)
}

// settings is the resource with the settings of the next boot, "" when there is
// none below the system.
func (s *systemDocument) settings() string { return below(s.path, string(s.Settings.value.Object)) }

// below gives a path if it lies below a resource, else "". What is written to
// must: a broken document that leads to another system of the same BMC would
// otherwise arm or reset a machine that nobody asked for (I1).
func below(resource, path string) string {
	prefix := strings.TrimRight(resource, "/") + "/"
	if len(path) > len(prefix) && strings.EqualFold(path[:len(prefix)], prefix) {
		return path
	}
	return ""
}

// hasReset tells whether the system can be reset at all.
func (s *systemDocument) hasReset() bool { return s.Actions.value.Reset.set }

// bootsNetwork tells whether the system shows a boot override that knows PXE.
func (s *systemDocument) bootsNetwork() bool {
	boot := s.Boot.value
	if len(boot.Targets) > 0 {
		return contains(boot.Targets, targetPXE)
	}
	return boot.Target != nil || boot.Enabled != nil || s.Boot.set && s.settings() != ""
}

type bootDocument struct {
	// Pointers, because whether the BMC shows a property decides what it can be sent.
	Target  *text      `json:"BootSourceOverrideTarget"`
	Enabled *text      `json:"BootSourceOverrideEnabled"`
	Mode    *text      `json:"BootSourceOverrideMode"`
	URI     *text      `json:"HttpBootUri"`
	Targets list[text] `json:"BootSourceOverrideTarget@Redfish.AllowableValues"`
	Modes   list[text] `json:"BootSourceOverrideMode@Redfish.AllowableValues"`
}

// showsMode tells whether the BMC knows the property Mode.
func (b bootDocument) showsMode() bool {
	return len(b.Modes) > 0 || (b.Mode != nil && *b.Mode != "")
}

func (b bootDocument) override() BootOverride {
	return BootOverride{Target: value(b.Target), Enabled: value(b.Enabled), Mode: value(b.Mode), HTTPBootURI: value(b.URI)}
}

type systemActions struct {
	Reset object[resetAction] `json:"#ComputerSystem.Reset"`
}

type resetAction struct {
	Target link       `json:"target"`
	Types  list[text] `json:"ResetType@Redfish.AllowableValues"`
	Info   link       `json:"@Redfish.ActionInfo"`
}

type actionInfoDocument struct {
	Parameters list[struct {
		Name   text       `json:"Name"`
		Values list[text] `json:"AllowableValues"`
	}] `json:"Parameters"`
}

type chassisDocument struct {
	path string
	raw  json.RawMessage

	ID           text `json:"Id"`
	Name         text `json:"Name"`
	Type         text `json:"ChassisType"`
	SerialNumber text `json:"SerialNumber"`
	Assembly     link `json:"Assembly"`
	Adapters     link `json:"NetworkAdapters"`
	Links        object[struct {
		Systems list[link] `json:"ComputerSystems"`
	}] `json:"Links"`
	Oem json.RawMessage `json:"Oem"`
}

type assemblyDocument struct {
	Assemblies list[struct {
		Name         text            `json:"Name"`
		Model        text            `json:"Model"`
		SerialNumber text            `json:"SerialNumber"`
		Oem          json.RawMessage `json:"Oem"`
	}] `json:"Assemblies"`
}

func value(t *text) string {
	if t == nil {
		return ""
	}
	return string(*t)
}

func contains(values list[text], want string) bool {
	return slices.ContainsFunc(values, func(v text) bool { return strings.EqualFold(string(v), want) })
}
