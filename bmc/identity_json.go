package bmc

import (
	"encoding/json"

	"github.com/talos-provision/provision/inventory/identity"
)

// identityDocument is Identity as the document that scripts read: flat, every
// key there, "" and [] for what is not known.
type identityDocument struct {
	Vendor        string            `json:"vendor"`
	Model         string            `json:"model"`
	System        string            `json:"system"`
	Serial        string            `json:"serial"`
	BoardSerial   string            `json:"boardSerial"`
	ChassisSerial string            `json:"chassisSerial"`
	UUID          string            `json:"uuid"`
	MACs          []string          `json:"macs"`
	PowerState    PowerState        `json:"powerState"`
	Boot          BootOverride      `json:"boot"`
	Sources       map[string]string `json:"sources"`
}

// MarshalJSON writes {"vendor","model","system","serial","boardSerial",
// "chassisSerial","uuid","macs","powerState","boot":{…},"sources":{…}}.
func (id Identity) MarshalJSON() ([]byte, error) {
	d := identityDocument{
		Vendor: id.Vendor, Model: id.Model, System: id.System,
		Serial: id.Facts.Serial, BoardSerial: id.Facts.BoardSerial, ChassisSerial: id.Facts.ChassisSerial,
		UUID: id.Facts.UUID, MACs: id.Facts.MACs, PowerState: id.PowerState, Boot: id.Boot, Sources: id.Sources,
	}
	if d.MACs == nil {
		d.MACs = []string{}
	}
	if d.Sources == nil {
		d.Sources = map[string]string{}
	}
	return json.Marshal(d)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (id *Identity) UnmarshalJSON(b []byte) error {
	var d identityDocument
	if err := json.Unmarshal(b, &d); err != nil {
		return err
	}
	*id = Identity{
		Vendor: d.Vendor, Model: d.Model, System: d.System, PowerState: d.PowerState, Boot: d.Boot, Sources: d.Sources,
		Facts: identity.Facts{
			Serial: d.Serial, BoardSerial: d.BoardSerial, ChassisSerial: d.ChassisSerial, UUID: d.UUID, MACs: d.MACs,
		},
	}
	return nil
}
