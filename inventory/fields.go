package inventory

import "github.com/talos-provision/provision/inventory/schematic"

// kind is the form that a field's value takes in YAML.
type kind int

const (
	text    kind = iota // any scalar, kept as written
	flag                // true or false
	list                // of scalars
	words               // a list of scalars, or one scalar that white space splits
	section             // a mapping with fields of its own
	free                // a mapping of any keys to scalars
	image               // the mapping of an Image Factory schematic, one value as a whole
)

// field is one key of the inventory.
type field struct {
	path    string // "serial", "bmc.address"
	kind    kind
	format  format                  // of each scalar of a text or list
	whole   func([]string) *problem // of all words together
	doc     string                  // for people, one sentence or two
	example string                  // YAML of the value
	set     func(*Node, value)      // nil for a section
}

// value is what a leaf holds, according to its field's kind.
type value struct {
	text      string
	flag      bool
	list      []string
	schematic *schematic.Schematic // with its id as text
}

// fields is the whole vocabulary of an inventory file. To add a field, add an
// entry here and to Node; schema and documentation follow from it.
var fields = []field{
	{
		path: "arch", format: archFormat, example: "arm64", set: func(n *Node, v value) { n.Arch = v.text },
		doc: "CPU architecture of the machine, amd64 (default) or arm64.",
	},
	{path: "bmc", kind: section, example: "{address: 10.99.0.11, username: provisioner, passwordEnv: BMC_PASSWORD}", doc: "How the machine's BMC is reached."},
	{
		path: "bmc.address", format: bmcFormat, example: "10.99.0.11", set: func(n *Node, v value) { n.BMC.Address = v.text },
		doc: "Host, host:port or https URL of the BMC. With it a node needs no serial: its identity is learnt from the BMC.",
	},
	{
		path: "bmc.boot", format: bootFormat, example: "uefi-http", set: func(n *Node, v value) { n.BMC.Boot = v.text },
		doc: "How the machine is told to boot: pxe (default), uefi-http or virtual-media.",
	},
	{
		path: "bmc.bootMode", format: bootModeFormat, example: "legacy", set: func(n *Node, v value) { n.BMC.BootMode = v.text },
		doc: "Firmware mode of the boot from the network, uefi (default) or legacy.",
	},
	{
		path: "bmc.caFile", example: "/etc/provision/bmc-ca.pem", set: func(n *Node, v value) { n.BMC.CAFile = v.text },
		doc: "PEM file of the authority that signed the BMC's certificate.",
	},
	{
		path: "bmc.fingerprint", format: fingerprintFormat, example: "0yLxDTFKw1Q6RyHtGzdTUjgFrT6Sk6cqFxQHhTxC2vU=", set: func(n *Node, v value) { n.BMC.Fingerprint = v.text },
		doc: "SHA-256 of the public key in the BMC's certificate, in base64 or hex: only that key is accepted, whoever signed it.",
	},
	{
		path: "bmc.insecure", kind: flag, example: "true", set: func(n *Node, v value) { n.BMC.Insecure = v.flag },
		doc: "Accept any certificate. Better: caFile or fingerprint.",
	},
	{
		path: "bmc.legacyTLS", kind: flag, example: "true", set: func(n *Node, v value) { n.BMC.LegacyTLS = v.flag },
		doc: "Accept what old BMCs speak: TLS 1.0 and 1.1, and ciphers without forward secrecy.",
	},
	{
		path: "bmc.passwordCommand", kind: words, whole: checkPasswordCommand, example: "[pass, show, bmc/rack-1]", set: func(n *Node, v value) { n.BMC.PasswordCommand = v.list },
		doc: "Program that prints the BMC's password on its first line: a list, or one string split at spaces. It runs without a shell, for at most 10 s.",
	},
	{
		path: "bmc.passwordEnv", format: envFormat, example: "BMC_PASSWORD", set: func(n *Node, v value) { n.BMC.PasswordEnv = v.text },
		doc: "Name of the environment variable that holds the BMC's password.",
	},
	{
		path: "bmc.passwordFile", example: "/run/secrets/bmc", set: func(n *Node, v value) { n.BMC.PasswordFile = v.text },
		doc: "File that holds the BMC's password.",
	},
	{
		path: "bmc.system", example: "System.Embedded.1", set: func(n *Node, v value) { n.BMC.System = v.text },
		doc: "Redfish name of the system, where one BMC serves several.",
	},
	{
		path: "bmc.username", example: "provisioner", set: func(n *Node, v value) { n.BMC.Username = v.text },
		doc: "Account at the BMC.",
	},
	{
		path: "boardSerial", format: serialFormat, example: "ZM123S000004", set: func(n *Node, v value) { n.BoardSerial = v.text },
		doc: "Serial of the motherboard (SMBIOS type 2). It tells the boards of one chassis apart.",
	},
	{
		path: "cluster", format: clusterFormat, example: "k8s-prod", set: func(n *Node, v value) { n.Cluster = v.text },
		doc: "Cluster of the node, when it is not the first folder of its path.",
	},
	{
		path: "configPatches", kind: list, format: pathFormat, example: "[../configs/k8s-prod/common.yaml]", set: func(n *Node, v value) { n.ConfigPatches = v.list },
		doc: "Files of strategic patches for machineConfig, applied in this order. Their paths are read like that of machineConfig.",
	},
	{
		path: "dns0", format: ipFormat, example: "1.1.1.1", set: func(n *Node, v value) { n.DNS0 = v.text },
		doc: "First DNS server of the node.",
	},
	{
		path: "dns1", format: ipFormat, example: "8.8.8.8", set: func(n *Node, v value) { n.DNS1 = v.text },
		doc: "Second DNS server of the node.",
	},
	{
		path: "gateway", format: ipFormat, example: "10.20.0.1", set: func(n *Node, v value) { n.Gateway = v.text },
		doc: "Default gateway of the node, in the network of ip.",
	},
	{
		path: "install", kind: flag, example: "true", set: func(n *Node, v value) { n.Install = v.flag },
		doc: "Whether the node may be installed. One that is not marked is never powered and boots its own disk.",
	},
	{
		path: "interface", format: interfaceFormat, example: "ens1", set: func(n *Node, v value) { n.Interface = v.text },
		doc: "Network interface that gets ip, as Linux names it. Without it Talos takes the first.",
	},
	{
		path: "ip", format: ipFormat, example: "10.20.0.11", set: func(n *Node, v value) { n.IP = v.text },
		doc: "Address of the node, without a mask. Without it the node boots with DHCP.",
	},
	{
		path: "kernelArgs", format: argsFormat, example: "talos.platform=metal slab_nomerge pti=on console=tty0", set: func(n *Node, v value) { n.KernelArgs = v.text },
		doc: "Kernel arguments after ip= and vlan=, which are made from the other fields.",
	},
	{
		path: labelsPath, kind: free, example: "{role: worker, rack: r07}",
		doc: "Words of your own, for --selector. Keys and values are free.",
	},
	{
		path: "localBoot", format: localBootFormat, example: "sanboot", set: func(n *Node, v value) { n.LocalBoot = v.text },
		doc: "How iPXE sends the machine to its own disk when it is not being installed: auto (default), exit1, exit0, sanboot, http404 or poweroff.",
	},
	{
		path: "mac", format: macFormat, example: "0c:c4:7a:00:00:01", set: func(n *Node, v value) { n.MACs = append(n.MACs, v.text) },
		doc: "MAC of a network card of the host, not of its BMC.",
	},
	{
		path: "machineConfig", format: pathFormat, example: "../configs/k8s-prod/{{ .name }}.yaml", set: func(n *Node, v value) { n.MachineConfig = v.text },
		doc: "File of the machine config that the node gets, relative to the file that says so. The path may be a template over the node's values; so is the content of a file whose name ends in .tmpl.",
	},
	{
		path: "macs", kind: list, format: macFormat, example: "[0c:c4:7a:00:00:01, 0c:c4:7a:00:00:02]", set: func(n *Node, v value) { n.MACs = append(n.MACs, v.list...) },
		doc: "Several such MACs; mac adds one to them.",
	},
	{
		path: "netmask", format: netmaskFormat, example: "255.255.255.0", set: func(n *Node, v value) { n.Netmask = v.text },
		doc: "Netmask of ip, dotted or as a number of bits.",
	},
	{
		path: "ntp", format: hostFormat, example: "10.20.0.1", set: func(n *Node, v value) { n.NTP = v.text },
		doc: "Time server of the node. Give an address: for a name Talos drops ip= and vlan= altogether.",
	},
	{
		path: schematicPath, kind: image, example: "{customization: {extraKernelArgs: [net.ifnames=0]}}", set: func(n *Node, v value) { n.Schematic, n.SchematicID = v.schematic, v.text },
		doc: "Schematic of the Talos image, as the Image Factory reads it, in place of schematicID: the id is computed from it. It is one value and never merged with another.",
	},
	{
		path: "schematicID", format: schematicFormat, example: "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba", set: func(n *Node, v value) { n.SchematicID = v.text },
		doc: "Schematic of the Talos image, as the Image Factory shows it.",
	},
	{
		path: "secureBoot", kind: flag, example: "true", set: func(n *Node, v value) { n.SecureBoot = v.flag },
		doc: "Boot the signed image (UKI) by UEFI HTTP boot, for machines with Secure Boot switched on. It needs a mac or uuid, and takes no kernel arguments that are not in the image.",
	},
	{
		path: "serial", format: serialFormat, example: "S123456X0000001", set: func(n *Node, v value) { n.Serial = v.text },
		doc: "Serial of the machine: that of system, board or chassis. The boards of one chassis may share it.",
	},
	{
		path: "talosVersion", format: versionFormat, example: "v1.13.9", set: func(n *Node, v value) { n.TalosVersion = v.text },
		doc: "Version of Talos, " + supportedRange() + ".",
	},
	{
		path: "talosconfig", format: pathFormat, example: "../configs/k8s-prod/talosconfig", set: func(n *Node, v value) { n.Talosconfig = v.text },
		doc: "File with the credentials for the cluster's Talos API, as talosctl uses it. Its path is read like that of machineConfig.",
	},
	{
		path: "uuid", format: uuidFormat, example: "4c4c4544-0042-4310-8031-b2c04f333334", set: func(n *Node, v value) { n.UUID = v.text },
		doc: "SMBIOS UUID of the machine, in either byte order.",
	},
	{
		path: "vlan", format: vlanFormat, example: "1234", set: func(n *Node, v value) { n.VLAN = v.text },
		doc: "VLAN of ip on interface, from 1 to 4094.",
	},
}

// slotOf numbers the fields by path.
var slotOf = func() map[string]int {
	slots := make(map[string]int, len(fields))
	for i, f := range fields {
		slots[f.path] = i
	}
	return slots
}()

// schematicPath is the field that holds a schematic.
const schematicPath = "schematic"

// labelsPath is the field whose keys are the user's own.
const labelsPath = "labels"

// misplaced explains keys, by path, that people expect and that are given
// otherwise.
var misplaced = map[string]string{
	"bmc.host":     "did you mean bmc.address?",
	"bmc.hostname": "did you mean bmc.address?",
	"bmc.ip":       "did you mean bmc.address?",
	"bmc.url":      "did you mean bmc.address?",
	"bmc.user":     "did you mean bmc.username?",
	"hostname":     "a node's hostname is the name of its file",
	"name":         "a node's hostname is the name of its file",
	"secureboot":   "did you mean secureBoot?",
	"filename":     "a node's hostname is the name of its file",
	"version":      "did you mean talosVersion?",
	"dns":          "did you mean dns0 and dns1?",
	"<<":           "merge keys are not read: put shared values into a _defaults.yaml, or write them out",
}

// FieldInfo describes one field of the inventory for people.
type FieldInfo struct {
	Path    string // as in the files, those of bmc with a dot
	Text    string
	Example string // YAML of a value
}

// Fields describes every field, sorted by path.
func Fields() []FieldInfo {
	infos := make([]FieldInfo, 0, len(fields))
	for _, f := range fields {
		infos = append(infos, FieldInfo{Path: f.path, Text: f.doc, Example: f.example})
	}
	return infos
}
