package inventory

// kind is the form that a field's value takes in YAML.
type kind int

const (
	text    kind = iota // any scalar, kept as written
	flag                // true or false
	list                // of scalars
	section             // a mapping with fields of its own
	free                // a mapping of any keys to scalars
)

// field is one key of the inventory.
type field struct {
	path  string // "serial", "bmc.address"
	kind  kind
	check check              // for each scalar of a text or list; nil accepts all
	set   func(*Node, value) // nil for a section
}

// value is what a leaf holds, according to its field's kind.
type value struct {
	text string
	flag bool
	list []string
}

// fields is the whole vocabulary of an inventory file. To add a field, add a
// line here and to Node.
var fields = []field{
	{path: "arch", check: oneOf("amd64", "arm64"), set: func(n *Node, v value) { n.Arch = v.text }},
	{path: "bmc", kind: section},
	{path: "bmc.address", check: checkBMCAddress, set: func(n *Node, v value) { n.BMC.Address = v.text }},
	{path: "bmc.bootMode", check: oneOf("uefi", "legacy"), set: func(n *Node, v value) { n.BMC.BootMode = v.text }},
	{path: "bmc.caFile", set: func(n *Node, v value) { n.BMC.CAFile = v.text }},
	{path: "bmc.insecure", kind: flag, set: func(n *Node, v value) { n.BMC.Insecure = v.flag }},
	{path: "bmc.passwordEnv", check: checkPasswordEnv, set: func(n *Node, v value) { n.BMC.PasswordEnv = v.text }},
	{path: "bmc.passwordFile", set: func(n *Node, v value) { n.BMC.PasswordFile = v.text }},
	{path: "bmc.system", set: func(n *Node, v value) { n.BMC.System = v.text }},
	{path: "bmc.username", set: func(n *Node, v value) { n.BMC.Username = v.text }},
	{path: "boardSerial", check: checkSerial, set: func(n *Node, v value) { n.BoardSerial = v.text }},
	{path: "cluster", check: checkCluster, set: func(n *Node, v value) { n.Cluster = v.text }},
	{path: "dns0", check: checkIP, set: func(n *Node, v value) { n.DNS0 = v.text }},
	{path: "dns1", check: checkIP, set: func(n *Node, v value) { n.DNS1 = v.text }},
	{path: "gateway", check: checkIP, set: func(n *Node, v value) { n.Gateway = v.text }},
	{path: "install", kind: flag, set: func(n *Node, v value) { n.Install = v.flag }},
	{path: "interface", check: checkInterface, set: func(n *Node, v value) { n.Interface = v.text }},
	{path: "ip", check: checkIP, set: func(n *Node, v value) { n.IP = v.text }},
	{path: "kernelArgs", check: checkKernelArgs, set: func(n *Node, v value) { n.KernelArgs = v.text }},
	{path: "labels", kind: free},
	{path: "mac", check: checkMAC, set: func(n *Node, v value) { n.MACs = append(n.MACs, v.text) }},
	{path: "macs", kind: list, check: checkMAC, set: func(n *Node, v value) { n.MACs = append(n.MACs, v.list...) }},
	{path: "netmask", check: checkNetmask, set: func(n *Node, v value) { n.Netmask = v.text }},
	{path: "ntp", check: checkHost, set: func(n *Node, v value) { n.NTP = v.text }},
	{path: "schematicID", check: checkSchematic, set: func(n *Node, v value) { n.SchematicID = v.text }},
	{path: "serial", check: checkSerial, set: func(n *Node, v value) { n.Serial = v.text }},
	{path: "talosVersion", check: checkTalosVersion, set: func(n *Node, v value) { n.TalosVersion = v.text }},
	{path: "uuid", check: checkUUID, set: func(n *Node, v value) { n.UUID = v.text }},
	{path: "vlan", check: checkVLAN, set: func(n *Node, v value) { n.VLAN = v.text }},
}

// slotOf numbers the fields by path.
var slotOf = func() map[string]int {
	slots := make(map[string]int, len(fields))
	for i, f := range fields {
		slots[f.path] = i
	}
	return slots
}()

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
	"filename":     "a node's hostname is the name of its file",
	"version":      "did you mean talosVersion?",
	"dns":          "did you mean dns0 and dns1?",
	"<<":           "merge keys are not read: put shared values into a _defaults.yaml, or write them out",
}
