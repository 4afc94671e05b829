package httpboot

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/talos-provision/provision/inventory/identity"
)

// unknownNode is an inventory file in the order in which a person writes one.
type unknownNode struct {
	Install     bool     `yaml:"install"`
	Arch        string   `yaml:"arch,omitempty"`
	Serial      string   `yaml:"serial,omitempty"`
	BoardSerial string   `yaml:"boardSerial,omitempty"`
	UUID        string   `yaml:"uuid,omitempty"`
	MAC         string   `yaml:"mac,omitempty"`
	MACs        []string `yaml:"macs,omitempty,flow"`
}

// InventoryYAML is the machine as a file for the inventory, ready to be saved as
// <node name>.yaml: with everything that identifies it, placeholders left out,
// and install: false until a person decides otherwise. A comment says what the
// machine is.
func (r Request) InventoryYAML() string {
	n := unknownNode{
		Arch: r.Arch, Serial: known(r.Facts.Serial), BoardSerial: known(r.Facts.BoardSerial),
	}
	if identity.NormalizeUUID(r.Facts.UUID) != "" {
		n.UUID = strings.ToLower(r.Facts.UUID) // in the byte order that the machine shows
	}
	macs := r.MACs()
	switch len(macs) {
	case 0:
	case 1:
		n.MAC = macs[0]
	default:
		n.MACs = macs
	}
	text, err := yaml.Marshal(n)
	if err != nil {
		return "" // strings and lists of strings are always YAML
	}
	var b strings.Builder
	about := []string{"Asked for a boot script"}
	if r.Source.IsValid() {
		about[0] += " from " + r.Source.String()
	}
	if machine := strings.TrimSpace(r.Manufacturer + " " + r.Product); machine != "" {
		about = append(about, machine)
	}
	if r.Asset != "" {
		about = append(about, "asset "+r.Asset)
	}
	if r.Platform != "" {
		about = append(about, "booted by "+r.Platform)
	}
	fmt.Fprintf(&b, "# %s.\n", strings.Join(about, "; "))
	if n.Serial == "" && n.BoardSerial == "" && n.UUID == "" && len(macs) == 0 {
		b.WriteString("# It sent nothing that tells it from other machines: give it a bmc.address.\n")
	}
	b.Write(text)
	return b.String()
}

// known is the serial as the machine sent it, or "" for a placeholder.
func known(serial string) string {
	if identity.NormalizeSerial(serial) == "" {
		return ""
	}
	return serial
}

// MACs are all network cards that the machine told of, normalised: the one that
// it booted from first.
func (r Request) MACs() []string {
	var macs []string
	for _, raw := range append(slices.Clone(r.Facts.MACs), r.NICs...) {
		if mac := identity.NormalizeMAC(raw); mac != "" && !slices.Contains(macs, mac) {
			macs = append(macs, mac)
		}
	}
	return macs
}
