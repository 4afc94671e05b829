package machineconfig

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/talos-provision/provision/inventory"
)

// Check finds what is wrong between a config and the node that shall get it, of
// what can be seen before the node is there. Findings stand at the place in the
// inventory that names the config, and repeat none of its keys.
func (c Config) Check(n inventory.Node) inventory.Findings {
	k := checker{Config: c, node: n}
	k.version, k.versionKnown = parseVersion(n.TalosVersion)
	for _, check := range checks {
		check(&k)
	}
	return k.findings
}

var checks = []func(*checker){
	(*checker).machineType, (*checker).hostname, (*checker).installDisk, (*checker).image, (*checker).kubernetes,
	(*checker).kernelArgs, (*checker).twoDeliveries, (*checker).address,
}

type checker struct {
	Config
	node         inventory.Node
	version      version // of the node's Talos
	versionKnown bool
	findings     inventory.Findings
}

func (k *checker) fail(rule inventory.Rule, hint, format string, args ...any) {
	k.report(inventory.Error, rule, hint, format, args...)
}

func (k *checker) warn(rule inventory.Rule, hint, format string, args ...any) {
	k.report(inventory.Warning, rule, hint, format, args...)
}

func (k *checker) report(severity inventory.Severity, rule inventory.Rule, hint, format string, args ...any) {
	message := fmt.Sprintf("the machine config of %s ", k.node.ID()) + fmt.Sprintf(format, args...)
	k.findings = append(k.findings, findingAt(k.node, "machineConfig", severity, rule, message, hint))
}

// atLeast says whether the node gets this version of Talos or a newer one.
func (k *checker) atLeast(minor, patch int) bool {
	return k.versionKnown && !k.version.less(version{1, minor, patch})
}

// machineType: Talos takes a config without the v1alpha1 document, and waits in
// maintenance mode for the rest.
func (k *checker) machineType() {
	switch k.MachineType() {
	case "controlplane", "worker":
	case "":
		k.fail(inventory.RuleConfigType, "give the whole config: this looks like a patch", "has no machine.type: Talos would take it and stay in maintenance mode")
	case "init":
		k.fail(inventory.RuleConfigType, "write controlplane", "has machine.type init, with which a node bootstraps a cluster of its own each time it is installed")
	default:
		k.fail(inventory.RuleConfigType, "write controlplane or worker", "has a machine.type that Talos does not know")
	}
}

// hostname: the node would join the cluster under a name that nobody looks for.
func (k *checker) hostname() {
	short, _, _ := strings.Cut(k.Hostname(), ".")
	if short == "" || short == k.node.Name {
		return
	}
	k.fail(inventory.RuleConfigHostname, "correct the hostname, or name the node's own file: a template may say {{ .name }}", "has the hostname %s", k.Hostname())
}

func (k *checker) installDisk() {
	i := k.Install()
	if !i.Given {
		k.fail(inventory.RuleConfigDisk, "set machine.install, or with Talos 1.14 an UnattendedInstallConfig", "installs nothing: the node would run from memory")
		return
	}
	if i.Match != "" && k.versionKnown && !k.atLeast(14, 0) {
		k.fail(inventory.RuleConfigDisk, "set machine.install instead", "has an UnattendedInstallConfig, which Talos %s does not know", k.node.TalosVersion)
		return
	}
	if _, err := i.matcher(); err != nil {
		k.fail(inventory.RuleConfigDisk, "", "does not say on which disk to install: %v", err)
	}
}

// image: what is installed must be what was booted, and what the verification
// after the installation looks for.
func (k *checker) image() {
	const hint = "correct machine.install.image, or talosVersion and schematicID"
	i := k.Install()
	wanted := InstallerImage(k.node.TalosVersion, k.node.SchematicID, k.node.SecureBoot)
	switch {
	case !i.Given || k.node.TalosVersion == "":
		return
	case i.Image == "" && i.Match != "":
		return // Talos installs what was booted
	case i.Image == "":
		if k.node.SchematicID != "" && k.node.SchematicID != vanillaSchematic {
			k.fail(inventory.RuleConfigImage, "set machine.install.image to "+wanted, "has no machine.install.image: Talos would install the image without the schematic's extensions")
		}
		return
	}
	image, isInstaller := parseImage(i.Image)
	if !isInstaller {
		k.warn(inventory.RuleConfigImage, "the image of the inventory is "+wanted, "installs %s, which is not called as an installer of Talos is: version and schematic cannot be compared", i.Image)
		return
	}
	k.imageVersion(image, hint)
	k.imageSchematic(image, wanted, hint)
	if image.platform != "" && image.platform != "metal" {
		k.fail(inventory.RuleConfigImage, "use "+wanted, "installs %s, which is made for %s", i.Image, image.platform)
	}
	if image.secureBoot != k.node.SecureBoot {
		k.fail(inventory.RuleConfigImage, "use "+wanted+"; an upgrade cannot change it later", "installs %s, and secureBoot is %v in the inventory", i.Image, k.node.SecureBoot)
	}
}

func (k *checker) imageVersion(image installerImage, hint string) {
	switch _, isVersion := parseVersion(image.tag); {
	case image.tag == k.node.TalosVersion:
	case !isVersion:
		k.fail(inventory.RuleConfigImage, "use the tag "+k.node.TalosVersion, "installs %s, whose tag is no version: what it is changes", k.Install().Image)
	default:
		k.fail(inventory.RuleConfigImage, hint, "installs Talos %s, and talosVersion is %s (%s)", image.tag, k.node.TalosVersion, k.node.Origin("talosVersion"))
	}
}

func (k *checker) imageSchematic(image installerImage, wanted, hint string) {
	schematic := image.schematic
	if image.release {
		schematic = vanillaSchematic
		if k.atLeast(14, 0) {
			k.fail(inventory.RuleConfigImage, "use "+wanted, "installs %s, which is no longer published since Talos 1.14", k.Install().Image)
			return
		}
	}
	switch {
	case k.node.SchematicID == "" || schematic == k.node.SchematicID:
	case schematic == "":
		k.warn(inventory.RuleConfigImage, "the image of the inventory is "+wanted, "installs %s, whose schematic its name does not tell", k.Install().Image)
	default:
		k.fail(inventory.RuleConfigImage, hint, "installs the schematic %.8s…, and schematicID is %.8s… (%s)", schematic, k.node.SchematicID, k.node.Origin("schematicID"))
	}
}

// kubernetes: a node refuses the config for it, but only when it is up.
func (k *checker) kubernetes() {
	kube, ok := parseVersion(k.KubernetesVersion())
	row, err := rowOf(k.node.TalosVersion)
	if !ok || err != nil {
		return
	}
	if why := row.refuses(kube); why != "" {
		k.fail(inventory.RuleConfigKube, "correct the tag of machine.kubelet.image and of the control plane's images, or talosVersion", "has Kubernetes %s: %s", k.KubernetesVersion(), why)
	}
}

// kernelArgs: Talos 1.13.4 and later refuse extraKernelArgs together with
// grubUseUKICmdline; from 1.10 on a UEFI machine ignores them.
func (k *checker) kernelArgs() {
	i := k.Install()
	if len(i.ExtraArgs) == 0 {
		return
	}
	switch {
	case i.UKICmdline && k.atLeast(13, 4):
		k.fail(inventory.RuleConfigArgs, "put the arguments into the schematic, or set grubUseUKICmdline: false", "has extraKernelArgs together with grubUseUKICmdline, which Talos %s refuses", k.node.TalosVersion)
	case k.atLeast(10, 0):
		k.warn(inventory.RuleConfigArgs, "put the arguments into the schematic", "has extraKernelArgs, which Talos %s ignores on a machine with UEFI", k.node.TalosVersion)
	}
	for _, arg := range i.ExtraArgs {
		if url, isURL := strings.CutPrefix(arg, "talos.config="); isURL {
			if path, _, _ := strings.Cut(url, "?"); strings.Contains(path, "${") {
				k.fail(inventory.RuleConfigArgs, "put it into the query, like ?uuid=${uuid}", "has a variable in the path of talos.config= in extraKernelArgs, where Talos does not replace it")
			}
		}
	}
}

// twoDeliveries: with talos.config= a machine fetches a config itself and never
// gets to maintenance mode, where this one would be given to it.
func (k *checker) twoDeliveries() {
	for arg := range strings.FieldsSeq(k.node.KernelArgs) {
		if strings.HasPrefix(arg, "talos.config=") {
			k.warn(inventory.RuleConfigArgs, "remove one of the two", "is not the only one: talos.config= in kernelArgs (%s) makes the machine fetch one itself", k.node.Origin("kernelArgs"))
		}
	}
}

// address: ip= and vlan= are of the boot from the network only. Installed, a node
// has the addresses of its machine config, or those that DHCP gives it.
func (k *checker) address() {
	if k.node.IP == "" || bytes.Contains(k.Data(), []byte(k.node.IP)) {
		return
	}
	k.warn(inventory.RuleConfigAddress, "add it to the config, or reserve it in DHCP", "does not have its ip %s (%s): once installed, the node takes the address that DHCP gives it", k.node.IP, k.node.Origin("ip"))
}
