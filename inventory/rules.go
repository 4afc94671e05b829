package inventory

// Rule names a kind of finding. Names do not change between versions, so that
// a CI system can tell a new finding from an old one.
type Rule string

// The rules about files.
const (
	RuleUnreadable    Rule = "unreadable-file"
	RuleNotAFile      Rule = "not-a-file"
	RuleLinkOutside   Rule = "link-outside"
	RuleTooLarge      Rule = "file-too-large"
	RuleNotUTF8       Rule = "not-utf8"
	RuleSyntax        Rule = "yaml-syntax"
	RuleAliases       Rule = "yaml-aliases"
	RuleIgnored       Rule = "ignored-file"
	RuleDefaultsTwice Rule = "two-defaults"
	RuleNoNodes       Rule = "no-nodes"
)

// The rules about single keys and values.
const (
	RuleUnknownKey      Rule = "unknown-key"
	RuleKeyTwice        Rule = "key-twice"
	RuleWrongType       Rule = "wrong-type"
	RuleInvalid         Rule = "invalid-value"
	RuleSchematic       Rule = "invalid-schematic"
	RuleVersion         Rule = "invalid-version"
	RuleUnsupported     Rule = "unsupported-version"
	RulePlaceholder     Rule = "placeholder"
	RuleSpaces          Rule = "surrounding-spaces"
	RuleClearPassword   Rule = "clear-text-password"
	RuleOmni            Rule = "omni-argument"
	RuleTalosConfig     Rule = "talos-config"
	RuleUnbootable      Rule = "unbootable-argument"
	RuleMissingArgument Rule = "missing-argument"
	RuleCommandLine     Rule = "command-line"
)

// The rules about what the values of a node mean together.
const (
	RuleHostname       Rule = "invalid-hostname"
	RuleNoCluster      Rule = "no-cluster"
	RuleIsGateway      Rule = "ip-is-gateway"
	RuleIsNetwork      Rule = "ip-is-network"
	RuleIsBroadcast    Rule = "ip-is-broadcast"
	RuleAddressFamily  Rule = "address-family"
	RuleGatewayOutside Rule = "gateway-outside"
	RuleNoNetmask      Rule = "no-netmask"
	RuleTimeServerName Rule = "time-server-name"
	RuleVLANUnused     Rule = "vlan-unused"
	RuleVLANNowhere    Rule = "vlan-without-interface"
	RuleVLANName       Rule = "vlan-name-too-long"
	RuleUnidentified   Rule = "unidentified"
	RuleUnbootableNode Rule = "not-bootable"
	RuleTwoPasswords   Rule = "two-passwords"
	RuleNoPassword     Rule = "no-password"
	RuleTwoSchematics  Rule = "two-schematics"
	RuleSignedArgument Rule = "secure-boot-argument"
	RuleSignedVLAN     Rule = "secure-boot-vlan"
	RuleSignedLegacy   Rule = "secure-boot-legacy"
	RuleSignedNameless Rule = "secure-boot-unnamed"
	RuleSignedAddress  Rule = "secure-boot-address"
)

// The rules about the files that machineConfig, configPatches and talosconfig name.
const (
	RuleConfigFile     Rule = "config-file"
	RuleConfigTemplate Rule = "config-template"
	RuleConfigPatch    Rule = "config-patch"
	RuleConfigSyntax   Rule = "config-syntax"
	RuleConfigType     Rule = "config-machine-type"
	RuleConfigHostname Rule = "config-hostname"
	RuleConfigImage    Rule = "config-install-image"
	RuleConfigKube     Rule = "config-kubernetes"
	RuleConfigArgs     Rule = "config-kernel-args"
	RuleConfigDisk     Rule = "config-install-disk"
	RuleConfigAddress  Rule = "config-address"
	RuleConfigPKI      Rule = "config-pki"
)

// The rules about values that nodes share.
const (
	RuleSameName        Rule = "duplicate-hostname"
	RuleSameIP          Rule = "duplicate-ip"
	RuleSameSerial      Rule = "duplicate-serial"
	RuleSameBoardSerial Rule = "duplicate-board-serial"
	RuleSameUUID        Rule = "duplicate-uuid"
	RuleSameMAC         Rule = "duplicate-mac"
	RuleSameBMC         Rule = "duplicate-bmc"
)

// RuleInfo is a rule with what it means.
type RuleInfo struct {
	Rule     Rule
	Severity Severity
	Text     string
}

// Rules lists every rule, those of the tables below, in their order.
func Rules() []RuleInfo { return append([]RuleInfo(nil), ruleInfos...) }

var ruleInfos = []RuleInfo{
	{RuleUnreadable, Error, "A file of the inventory cannot be read."},
	{RuleNotAFile, Error, "A name of the inventory is not a regular file: a pipe, a device, or a symbolic link to a folder."},
	{RuleLinkOutside, Error, "A symbolic link leads out of the inventory."},
	{RuleTooLarge, Error, "A file is larger than 1 MiB."},
	{RuleNotUTF8, Error, "A file is not UTF-8 text."},
	{RuleSyntax, Error, "A file is not one YAML document with a mapping."},
	{RuleAliases, Error, "The aliases of a file repeat its values beyond reason."},
	{RuleIgnored, Warning, "A file is ignored although its name is nearly _defaults.yaml."},
	{RuleDefaultsTwice, Error, "A folder has two files of defaults."},
	{RuleNoNodes, Warning, "The inventory has no node."},
	{RuleUnknownKey, Error, "A key is not a field of the inventory."},
	{RuleKeyTwice, Error, "A key is given twice in one file."},
	{RuleWrongType, Error, "A value has another form than its field: a list, a mapping, true or false."},
	{RuleInvalid, Error, "A value is not what its field takes."},
	{RuleSchematic, Error, "A schematic ID is not 64 lower-case hex digits."},
	{RuleVersion, Error, "A Talos version is not written like v1.13.9."},
	{RuleUnsupported, Error, "A Talos version is outside of the supported range."},
	{RulePlaceholder, Error, "A serial, UUID or MAC is one that many machines share and that identifies nothing."},
	{RuleSpaces, Warning, "A serial has spaces around it, which are ignored."},
	{RuleClearPassword, Error, "A password is written in the inventory."},
	{RuleOmni, Error, "siderolink.api= in kernelArgs makes a node join Omni, so that it never shows the maintenance API."},
	{RuleTalosConfig, Error, "talos.config= in kernelArgs has a form that Talos does not read as it looks."},
	{RuleUnbootable, Error, "A kernel argument cannot be passed on by the boot loader."},
	{RuleMissingArgument, Error, "kernelArgs lacks an argument without which this version of Talos does not boot on metal."},
	{RuleCommandLine, Error, "The kernel command line cannot be made, or is longer than the 4,096 bytes that the kernel takes."},
	{RuleHostname, Error, "A node's name is not a DNS label."},
	{RuleNoCluster, Error, "A node is in no cluster."},
	{RuleIsGateway, Warning, "A node has the address of its gateway."},
	{RuleIsNetwork, Error, "A node has the address of its network."},
	{RuleIsBroadcast, Error, "A node has the broadcast address of its network."},
	{RuleAddressFamily, Error, "ip, netmask and gateway are not all IPv4 or all IPv6."},
	{RuleGatewayOutside, Error, "ip and gateway are not in one network of the netmask."},
	{RuleNoNetmask, Error, "A node has an ip without a netmask."},
	{RuleTimeServerName, Warning, "ntp is a name, for which Talos drops the ip= and vlan= arguments."},
	{RuleVLANUnused, Warning, "A node has a vlan without an ip and boots without the vlan."},
	{RuleVLANNowhere, Error, "A node has a vlan without an interface."},
	{RuleVLANName, Warning, "The name of the vlan's interface is longer than Linux takes."},
	{RuleUnidentified, Error, "A node to install has nothing that identifies its machine."},
	{RuleUnbootableNode, Error, "A node to install lacks talosVersion, or both schematicID and schematic."},
	{RuleTwoPasswords, Error, "A BMC has more than one way to its password."},
	{RuleNoPassword, Warning, "A BMC has no way to its password."},
	{RuleTwoSchematics, Error, "schematicID is not the id of the schematic that is given beside it."},
	{RuleSignedArgument, Error, "A node with secureBoot has kernel arguments that its signed image ignores."},
	{RuleSignedVLAN, Error, "A node with secureBoot has a vlan, which its signed image ignores."},
	{RuleSignedLegacy, Error, "A node with secureBoot boots in legacy mode."},
	{RuleSignedNameless, Error, "A node with secureBoot has neither mac nor uuid, by which its image is asked for."},
	{RuleSignedAddress, Warning, "A node with secureBoot has an ip, but no mac for which DHCP could reserve it."},
	{RuleConfigFile, Error, "A file that machineConfig, configPatches or talosconfig names cannot be read."},
	{RuleConfigTemplate, Error, "A template of a machine config, or of its path, cannot be filled in."},
	{RuleConfigPatch, Error, "A patch cannot be applied to the machine config."},
	{RuleConfigSyntax, Error, "A machine config or talosconfig is not what its name says."},
	{RuleConfigType, Error, "A machine config has no machine.type: Talos would take it and stay in maintenance mode."},
	{RuleConfigHostname, Error, "A machine config has another hostname than the node."},
	{RuleConfigImage, Error, "A machine config installs another Talos than talosVersion, schematicID and secureBoot say."},
	{RuleConfigKube, Error, "A machine config has a Kubernetes version that the node's Talos does not run."},
	{RuleConfigArgs, Error, "A machine config has kernel arguments that Talos refuses or ignores."},
	{RuleConfigDisk, Error, "A machine config does not say on which disk to install."},
	{RuleConfigAddress, Warning, "A machine config does not have the node's ip, so that it is DHCP's to give once the node is installed."},
	{RuleConfigPKI, Error, "The machine configs and talosconfig of a cluster are not of one cluster."},
	{RuleSameName, Error, "Two nodes of a cluster have one hostname."},
	{RuleSameIP, Error, "Two nodes have one ip."},
	{RuleSameSerial, Error, "Nodes share a serial and nothing tells them apart."},
	{RuleSameBoardSerial, Error, "Two nodes have one board serial."},
	{RuleSameUUID, Error, "Two nodes have one UUID."},
	{RuleSameMAC, Error, "Two nodes have one MAC."},
	{RuleSameBMC, Error, "Two nodes have one BMC."},
}

// warnings are the rules whose findings are warnings.
var warnings = func() map[Rule]bool {
	set := make(map[Rule]bool)
	for _, r := range ruleInfos {
		set[r.Rule] = r.Severity == Warning
	}
	return set
}()

// severity is an error unless the table says otherwise.
func (r Rule) severity() Severity {
	if warnings[r] {
		return Warning
	}
	return Error
}
