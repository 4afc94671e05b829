package qemu

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// Firmware is what a machine runs first.
type Firmware string

// The firmwares.
const (
	// UEFI is OVMF with its own virtio network driver.
	UEFI Firmware = "uefi"
	// BIOS is SeaBIOS with an iPXE option ROM on the network card.
	BIOS Firmware = "bios"
)

// The program and where distributions keep the firmware.
const (
	qemuProgram = "qemu-system-x86_64"
	biosROM     = "/usr/lib/ipxe/qemu/pxe-virtio.rom"
)

// ovmfPairs are code and variables of OVMF, in the sizes distributions ship.
var ovmfPairs = [][2]string{
	{"/usr/share/OVMF/OVMF_CODE.fd", "/usr/share/OVMF/OVMF_VARS.fd"},
	{"/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"},
}

func findOVMF() (code, vars string, err error) {
	for _, pair := range ovmfPairs {
		if exists(pair[0]) && exists(pair[1]) {
			return pair[0], pair[1], nil
		}
	}
	return "", "", errors.New("no OVMF firmware in /usr/share/OVMF: run e2e/deps.sh")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Missing tells what this host lacks to run machines; nil when it has all.
// Tests skip with this error as the reason.
func Missing() error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces and taps need root")
	}
	if !exists("/dev/net/tun") {
		return errors.New("there is no /dev/net/tun: load the tun module or pass the device to the container")
	}
	for _, program := range []string{qemuProgram, "ip", "mkfs.vfat", "mcopy"} {
		// Debian keeps some of them out of an ordinary user's PATH.
		if _, err := exec.LookPath(program); err != nil && !exists("/usr/sbin/"+program) && !exists("/sbin/"+program) {
			return fmt.Errorf("the program %s is missing: run e2e/deps.sh", program)
		}
	}
	if !exists(biosROM) {
		return fmt.Errorf("the iPXE option ROM %s is missing: run e2e/deps.sh", biosROM)
	}
	_, _, err := findOVMF()
	return err
}
