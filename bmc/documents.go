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
	SessionService link `json:"SessionService"`
	Links          object[struct {
		Sessions link `json:"Sessions"`
	}] `json:"Links"`
	Oem json.RawMessage `json:"Oem"`
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
	Links        object[struct {
		Chassis list[link] `json:"Chassis"`
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

// hasReset tells whether the system can be reset at all.
func (s *systemDocument) hasReset() bool { return s.Actions.value.Reset.set }

// bootsNetwork tells whether the system shows a boot override that knows PXE.
func (s *systemDocument) bootsNetwork() bool {
	boot := s.Boot.value
	if len(boot.Targets) > 0 {
		return contains(boot.Targets, targetPXE)
	}
	return boot.Target != nil || boot.Enabled != nil || s.Boot.set && s.Settings.value.Object != ""
}

type bootDocument struct {
	// Pointers, because whether the BMC shows a property decides what it can be sent.
	Target  *text      `json:"BootSourceOverrideTarget"`
	Enabled *text      `json:"BootSourceOverrideEnabled"`
	Mode    *text      `json:"BootSourceOverrideMode"`
	Targets list[text] `json:"BootSourceOverrideTarget@Redfish.AllowableValues"`
	Modes   list[text] `json:"BootSourceOverrideMode@Redfish.AllowableValues"`
}

// showsMode tells whether the BMC knows the property Mode.
func (b bootDocument) showsMode() bool {
	return len(b.Modes) > 0 || (b.Mode != nil && *b.Mode != "")
}

func (b bootDocument) override() BootOverride {
	return BootOverride{Target: value(b.Target), Enabled: value(b.Enabled), Mode: value(b.Mode)}
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

type interfaceDocument struct {
	Name        text `json:"Name"`
	Description text `json:"Description"`
	MAC         text `json:"MACAddress"`
	Permanent   text `json:"PermanentMACAddress"`
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
