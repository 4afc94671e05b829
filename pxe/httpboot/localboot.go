package httpboot

import (
	"fmt"
	"slices"
	"strings"
)

// LocalBoot methods: how a machine is sent to its own disk. Which one works is a
// property of its firmware.
const (
	// LocalBootAuto is right for nearly all: exit1 on UEFI; on BIOS sanboot, and
	// exit when that fails. The empty method means the same.
	LocalBootAuto = "auto"
	// LocalBootExit1 leaves iPXE with an error: UEFI goes on to its next boot
	// entry (netboot.xyz#1276, foreman#8373).
	LocalBootExit1 = "exit1"
	// LocalBootExit0 leaves iPXE without one. Most UEFI then opens its menu.
	LocalBootExit0 = "exit0"
	// LocalBootSANBoot lets iPXE boot the first BIOS disk, for machines that hang
	// when it exits (sidero#1205, ipxe#447). UEFI disks are not SAN drives; there
	// it exits with an error.
	LocalBootSANBoot = "sanboot"
	// LocalBootHTTP404 answers the request for a script with 404, so that
	// whatever asked fails by itself (sidero PR#413).
	LocalBootHTTP404 = "http404"
	// LocalBootPowerOff switches the machine off, for those that cannot be
	// brought to their disk from iPXE at all; where iPXE lacks the command the
	// machine goes on to its next boot entry.
	LocalBootPowerOff = "poweroff"
)

// exits are the last lines of a script by iPXE's ${platform}; "" is for a
// machine that did not say.
type exits map[string]string

func everywhere(lines string) exits {
	return exits{"efi": lines, "pcbios": lines, "": lines}
}

// localBoots is the table of methods. http404 has a script too, for the case
// that somebody asks for one regardless.
var localBoots = map[string]exits{
	LocalBootAuto: {
		"efi":    "exit 1\n",
		"pcbios": "sanboot --no-describe --drive 0x80 || exit\n",
		"":       "iseq ${platform} pcbios && sanboot --no-describe --drive 0x80 ||\nexit 1\n",
	},
	LocalBootExit1:    everywhere("exit 1\n"),
	LocalBootExit0:    everywhere("exit 0\n"),
	LocalBootSANBoot:  everywhere("sanboot --no-describe --drive 0x80 || exit 1\n"),
	LocalBootHTTP404:  everywhere("exit 1\n"),
	LocalBootPowerOff: everywhere("poweroff || exit 1\n"),
}

// LocalBootMethods lists the methods, sorted.
func LocalBootMethods() []string {
	methods := make([]string, 0, len(localBoots))
	for m := range localBoots {
		methods = append(methods, m)
	}
	slices.Sort(methods)
	return methods
}

// CheckLocalBoot says whether method is one; empty means auto.
func CheckLocalBoot(method string) error {
	if _, ok := localBoots[method]; ok || method == "" {
		return nil
	}
	return fmt.Errorf("localBoot %q is unknown; it can be %s", method, strings.Join(LocalBootMethods(), ", "))
}

// localBoot ends a script so that the firmware goes on to the disk. A method
// that is not in the table is as good as none.
func localBoot(method, platform string) string {
	lines, ok := localBoots[method]
	if !ok {
		lines = localBoots[LocalBootAuto]
	}
	return lines[platform]
}
