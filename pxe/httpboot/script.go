package httpboot

import (
	"fmt"
	"strings"

	"github.com/talos-provision/provision/pxe/assets"
)

// Scripts keep to the commands that every iPXE build of the last ten years has
// (BIOS builds lack params, vlan, ntp and more): echo set isset iseq goto chain
// kernel initrd imgargs imgfree boot exit sanboot dhcp ifopen ifstat sleep
// reboot prompt inc. A script ends at its first command that fails.

const (
	maxAttempts = 10  // downloads of kernel and initramfs before the machine gives up
	retryDelay  = 5   // seconds
	maxWaits    = 120 // wait scripts in a row: ten minutes
)

// factsQuery sends what identifies the machine. Without :uristring a space, # or
// & in an SMBIOS string would cut the query. ${mac} is the NIC last opened, the
// one that the machine boots from; ${net0/mac} may be another (matchbox#410).
const factsQuery = "serial=${serial:uristring}&board-serial=${board-serial:uristring}" +
	"&uuid=${uuid}&mac=${mac:hexhyp}&arch=${buildarch}&platform=${platform}" +
	"&manufacturer=${manufacturer:uristring}&product=${product:uristring}&asset=${asset:uristring}" +
	"&nic=${net0/mac:hexhyp}&nic=${net1/mac:hexhyp}&nic=${net2/mac:hexhyp}&nic=${net3/mac:hexhyp}"

// Autoexec is the script that an EFI iPXE loads by itself from the directory it
// came from (autoexec.ipxe, since 2022): it takes an address and asks for the
// machine's own script, and ends as that one ends. Without one it ends in exit
// 1, because after exit 0 UEFI stops its boot order and opens its menu. baseURL
// has no slash at its end.
func Autoexec(baseURL string) string {
	return "#!ipxe\n" +
		"dhcp || dhcp || exit 1\n" +
		ask(baseURL)
}

// ask is the tail of a script that goes on with the machine's own script.
func ask(baseURL string) string {
	return "chain --autofree " + baseURL + "/boot.ipxe?" + factsQuery + " || exit 1\n" +
		"exit 0\n"
}

// script writes what the answer, already checked, means to the machine.
func script(a Answer, r Request, baseURL string) string {
	var b strings.Builder
	b.WriteString("#!ipxe\n")
	reason := a.Reason
	if a.Kind == Install && reason == "" {
		reason = "boots Talos " + a.Version
	}
	if text := screenText(a.Node + " " + reason); text != "" {
		fmt.Fprintf(&b, "echo provision: %s\n", text)
	}
	switch a.Kind {
	case Install:
		install(&b, a, r, baseURL)
	case Wait:
		wait(&b, r, baseURL)
	default:
		b.WriteString(localBoot(a.LocalBoot, r.Platform))
	}
	return b.String()
}

// install loads kernel and initramfs and starts them. iPXE does not resume a
// download, so a failed one starts over (matchbox#369).
func install(b *strings.Builder, a Answer, r Request, baseURL string) {
	args, _ := kernelArgs(a.args(baseURL)) // checked before
	image := func(ref assets.Ref) string { return baseURL + "/image/" + ref.String() }
	b.WriteString("set attempt:int32 0\n")
	b.WriteString(":fetch\n")
	b.WriteString("imgfree\n")
	if a.SecureBoot {
		// Here when Secure Boot is still off: the same image, so that the same runs.
		fmt.Fprintf(b, "kernel %s || goto failed\n", image(assets.UKI(a.Schematic, a.Version, r.Arch, true)))
	} else {
		fmt.Fprintf(b, "kernel %s %s || goto failed\n", image(assets.Kernel(a.Schematic, a.Version, r.Arch)), strings.TrimSpace(initrdArg+" "+args))
		fmt.Fprintf(b, "initrd --name %s %s || goto failed\n", initrdName, image(assets.Initramfs(a.Schematic, a.Version, r.Arch)))
	}
	b.WriteString("boot || goto failed\n")
	b.WriteString(":failed\n")
	b.WriteString(retry("fetch"))
}

// wait asks again later, with a count in the URL so that the server can end it.
// --replace keeps the scripts from nesting: iPXE's stack on BIOS is small.
func wait(b *strings.Builder, r Request, baseURL string) {
	b.WriteString("set attempt:int32 0\n")
	b.WriteString(":ask\n")
	fmt.Fprintf(b, "sleep %d\n", retryDelay)
	fmt.Fprintf(b, "chain --autofree --replace %s/boot.ipxe?%s&wait=%d ||\n", baseURL, factsQuery, r.Waits+1)
	b.WriteString(retry("ask"))
}

// retry goes back to label until the attempts are used up.
func retry(label string) string {
	return fmt.Sprintf("iseq ${attempt} %d && exit 1 ||\n", maxAttempts) +
		"inc attempt\n" +
		fmt.Sprintf("echo provision: failed, retry ${attempt} of %d\n", maxAttempts) +
		fmt.Sprintf("sleep %d\n", retryDelay) +
		"goto " + label + "\n"
}
