// Package inventory reads a tree of YAML files into the nodes of a fleet: it
// merges defaults from the root down, remembers where each value came from, and
// reports everything that is wrong in one pass.
package inventory

import (
	"reflect"

	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/inventory/schematic"
)

// Node is one machine of the inventory after its defaults were merged in.
// Scalars keep the text of the file: "0123" and "1e5" are not numbers here.
type Node struct {
	// Name is the hostname: the file's stem.
	Name string `json:"name"`
	// Cluster is the first folder below the root, unless the key cluster says otherwise.
	Cluster string `json:"cluster"`
	// File is the node's own file, relative to the inventory's root.
	File string `json:"file"`

	Install bool `json:"install"`
	// SchematicID names the Talos image; it is computed where Schematic is given.
	SchematicID  string `json:"schematicID,omitempty"`
	TalosVersion string `json:"talosVersion,omitempty"`
	KernelArgs   string `json:"kernelArgs,omitempty"`
	Arch         string `json:"arch"` // amd64 (default) or arm64

	IP        string `json:"ip,omitempty"`
	Netmask   string `json:"netmask,omitempty"`
	Gateway   string `json:"gateway,omitempty"`
	Interface string `json:"interface,omitempty"`
	VLAN      string `json:"vlan,omitempty"`
	DNS0      string `json:"dns0,omitempty"`
	DNS1      string `json:"dns1,omitempty"`
	NTP       string `json:"ntp,omitempty"`

	Serial      string   `json:"serial,omitempty"`
	BoardSerial string   `json:"boardSerial,omitempty"`
	UUID        string   `json:"uuid,omitempty"`
	MACs        []string `json:"macs,omitempty"`

	// Schematic is what the image is made of; nil when only its id is given.
	Schematic *schematic.Schematic `json:"schematic,omitempty"`
	// SecureBoot makes the node boot the signed image (UKI), which takes no kernel
	// arguments from outside, and no address: that comes from DHCP.
	SecureBoot bool `json:"secureBoot,omitempty"`

	// Labels are the user's own, for selection; they have no meaning here.
	Labels map[string]string `json:"labels,omitempty"`

	// LocalBoot is how iPXE sends the machine to its own disk; "" is auto.
	LocalBoot string `json:"localBoot,omitempty"`

	// MachineConfig, ConfigPatches and Talosconfig are paths of files, as written: see
	// provisioner/machineconfig for how they are read.
	MachineConfig string   `json:"machineConfig,omitempty"`
	ConfigPatches []string `json:"configPatches,omitempty"`
	Talosconfig   string   `json:"talosconfig,omitempty"`

	BMC BMC `json:"bmc,omitzero"`

	values *values // where the values came from; nil for a node not loaded from files
}

// ID names the node across clusters: "cluster/name".
func (n Node) ID() string { return n.Cluster + "/" + n.Name }

// Equal tells whether two nodes have the same values, wherever they came from.
func (n Node) Equal(other Node) bool {
	n.values, other.values = nil, nil
	return reflect.DeepEqual(n, other)
}

// Facts is what the inventory says of the machine's identity.
func (n Node) Facts() identity.Facts {
	return identity.Facts{Serial: n.Serial, BoardSerial: n.BoardSerial, UUID: n.UUID, MACs: n.MACs}
}

// BMC is how a node's baseboard management controller is reached. The password
// itself is never part of the inventory.
type BMC struct {
	Address         string   `json:"address,omitempty"` // https://host[:port], or a bare host
	Username        string   `json:"username,omitempty"`
	PasswordEnv     string   `json:"passwordEnv,omitempty"`
	PasswordFile    string   `json:"passwordFile,omitempty"`
	PasswordCommand []string `json:"passwordCommand,omitempty"` // run without a shell, see Password
	Insecure        bool     `json:"insecure,omitempty"`
	CAFile          string   `json:"caFile,omitempty"`
	Fingerprint     string   `json:"fingerprint,omitempty"` // SHA-256 of the certificate's public key, hex or base64
	LegacyTLS       bool     `json:"legacyTLS,omitempty"`   // accept TLS 1.0, 1.1 and RSA key exchange
	System          string   `json:"system,omitempty"`
	BootMode        string   `json:"bootMode,omitempty"` // uefi (default) or legacy
	Boot            string   `json:"boot,omitempty"`     // pxe (default), uefi-http or virtual-media
}
