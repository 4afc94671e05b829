package inventory

// Node is one machine of the inventory after its defaults were merged in.
// Scalars keep the text of the file: "0123" and "1e5" are not numbers here.
type Node struct {
	// Name is the hostname: the file's stem.
	Name string `json:"name"`
	// Cluster is the first folder below the root, unless the key cluster says otherwise.
	Cluster string `json:"cluster"`
	// File is the node's own file, relative to the inventory's root.
	File string `json:"file"`

	Install      bool   `json:"install"`
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

	BMC BMC `json:"bmc,omitzero"`
}

// BMC is how a node's baseboard management controller is reached. The password
// itself is never part of the inventory.
type BMC struct {
	Address      string `json:"address,omitempty"` // https://host[:port], or a bare host
	Username     string `json:"username,omitempty"`
	PasswordEnv  string `json:"passwordEnv,omitempty"`
	PasswordFile string `json:"passwordFile,omitempty"`
	Insecure     bool   `json:"insecure,omitempty"`
	CAFile       string `json:"caFile,omitempty"`
	System       string `json:"system,omitempty"`
	BootMode     string `json:"bootMode,omitempty"` // uefi (default) or legacy
}
