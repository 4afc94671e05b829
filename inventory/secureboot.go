package inventory

import (
	"fmt"
	"slices"
	"strings"
)

// With secureBoot a node boots a UKI: kernel, initramfs and kernel arguments in
// one signed program. The systemd stub in it ignores arguments from outside when
// Secure Boot is on (systemd-stub(7); siderolabs/talos#9947), so that what
// differs between nodes can only come by DHCP or be in the image.

// signedArgs are in every UKI of Talos 1.9 to 1.14 or in some of them (machinery
// pkg/machinery/kernel). To ask for one of these changes nothing, or nothing
// that a machine's owner would miss.
var signedArgs = []string{
	"talos.platform=metal", "slab_nomerge", "slab_nomerge=", "pti=on", "consoleblank=0", "init_on_alloc=1",
	"nvme_core.io_timeout=4294967295", "printk.devkmsg=on", "ima_template=ima-ng", "ima_appraise=fix", "ima_hash=sha512",
	"selinux=1", "module.sig_enforce=1", "proc_mem.force_override=never", "console=tty0",
}

// signedHints say what to do for arguments that have another place, by prefix.
var signedHints = []struct{ prefix, hint string }{
	{"ip=", "let DHCP give the address (the node's mac and ip make a reservation), or put a network configuration into the schematic's meta, key 0x0a"},
	{"vlan=", "put a network configuration into the schematic's meta, key 0x0a"},
	{"bond=", "put a network configuration into the schematic's meta, key 0x0a"},
	{"talos.config", "apply the machine config to the node, or embed it in the schematic"},
}

// networkMeta is META's key of Talos' network configuration (machinery pkg/meta).
const networkMeta = 0x0a

// secureBootRules judge a node with secureBoot. A check gives "" when it is
// content, else the message and what to do.
var secureBootRules = []struct {
	rule  Rule
	field string
	check func(Node) (message, hint string)
	// whole says that something is missed, which a part that cannot be read may hold.
	whole bool
}{
	{rule: RuleSignedArgument, field: "kernelArgs", check: argsAreSigned},
	{rule: RuleSignedVLAN, field: "vlan", check: vlanIsSigned},
	{rule: RuleSignedLegacy, field: "bmc.bootMode", check: bootIsUEFI},
	{rule: RuleSignedNameless, field: "secureBoot", check: machineIsNamed, whole: true},
	{rule: RuleSignedAddress, field: "ip", check: addressIsGiven, whole: true},
}

func secureBootFits(n Node) Findings {
	if !n.SecureBoot {
		return nil
	}
	var findings Findings
	for _, r := range secureBootRules {
		if r.whole && n.values.damaged {
			continue
		}
		if message, hint := r.check(n); message != "" {
			findings = append(findings, n.report(r.rule, r.field, hint, "%s", message)...)
		}
	}
	return findings
}

// argsAreSigned names every argument that the image would ignore, and where it
// could go instead.
func argsAreSigned(n Node) (message, hint string) {
	var signed []string
	if n.Schematic != nil {
		signed = n.Schematic.Customization.ExtraKernelArgs
	}
	var ignored, hints []string
	for word := range strings.FieldsSeq(n.KernelArgs) {
		if slices.Contains(signedArgs, word) || slices.Contains(signed, word) || slices.Contains(ignored, word) {
			continue
		}
		if key, _, isConfig := strings.Cut(word, "="); isConfig && strings.HasPrefix(key, "talos.config") {
			word = key + "=…" // the URL may hold a secret (I9)
		}
		ignored = append(ignored, word)
		advice := "put it into the schematic's extraKernelArgs, which are signed with the image"
		if n.Schematic == nil {
			advice = "write the schematic itself in place of schematicID, with it in the extraKernelArgs, which are signed with the image"
		}
		for _, h := range signedHints {
			if strings.HasPrefix(word, h.prefix) {
				advice = h.hint
			}
		}
		if !slices.Contains(hints, advice) {
			hints = append(hints, advice)
		}
	}
	if len(ignored) == 0 {
		return "", ""
	}
	return fmt.Sprintf("%s has secureBoot, and its signed image ignores the kernel arguments %s", n.Name, strings.Join(ignored, " ")), strings.Join(hints, "; ")
}

func (n Node) hasNetworkMeta() bool {
	if n.Schematic == nil {
		return false
	}
	for _, m := range n.Schematic.Customization.Meta {
		if m.Key == networkMeta {
			return true
		}
	}
	return false
}

func vlanIsSigned(n Node) (message, hint string) {
	if n.VLAN == "" || n.hasNetworkMeta() {
		return "", ""
	}
	return fmt.Sprintf("%s has secureBoot, and its signed image ignores the argument vlan=, so that it would come up without vlan %s", n.Name, n.VLAN),
		"unset it with \"vlan: null\" and make the VLAN the untagged one of its port, or put a network configuration into the schematic's meta, key 0x0a"
}

func bootIsUEFI(n Node) (message, hint string) {
	if n.BMC.BootMode != "legacy" {
		return "", ""
	}
	return fmt.Sprintf("%s has secureBoot, which is a thing of UEFI, but boots in legacy mode", n.Name),
		"set bmc.bootMode to uefi, or unset secureBoot with \"secureBoot: false\""
}

// machineIsNamed: the URL of the image names the machine that it is for, since
// its firmware asks with nothing else. A virtual medium is put into one machine.
func machineIsNamed(n Node) (message, hint string) {
	if len(n.MACs) > 0 || n.UUID != "" || n.BMC.Boot == "virtual-media" {
		return "", ""
	}
	return fmt.Sprintf("%s has secureBoot, but neither mac nor uuid, by which its firmware is told from others when it asks for its image", n.Name),
		"give it a mac or a uuid (`provision inventory discover` reads them from its BMC), or boot it by bmc.boot: virtual-media"
}

// addressIsGiven is a warning: another DHCP server may know the machine.
func addressIsGiven(n Node) (message, hint string) {
	if n.IP == "" || len(n.MACs) > 0 || n.hasNetworkMeta() {
		return "", ""
	}
	return fmt.Sprintf("%s has secureBoot, and its signed image ignores the argument ip=: it gets %s only if DHCP gives it", n.Name, n.IP),
		"give it a mac, for which ip is reserved, or put a network configuration into the schematic's meta, key 0x0a"
}
