package qemu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Firmware is what a machine runs first.
type Firmware string

// The firmwares.
const (
	// UEFI is OVMF with its own virtio network driver.
	UEFI Firmware = "uefi"
	// SecureUEFI is OVMF with Secure Boot switched on: it starts what SecureBootKey signed.
	SecureUEFI Firmware = "uefi-secure-boot"
	// BIOS is SeaBIOS with an iPXE option ROM on the network card.
	BIOS Firmware = "bios"
	// ARM64 is a 64-bit ARM machine with UEFI.
	ARM64 Firmware = "uefi-arm64"
)

// The program and where distributions keep the firmware.
const (
	qemuProgram      = "qemu-system-x86_64"
	qemuProgramARM64 = "qemu-system-aarch64"
	biosROM          = "/usr/lib/ipxe/qemu/pxe-virtio.rom"
)

// program is the emulator for a machine.
func (f Firmware) program() string {
	if f == ARM64 {
		return qemuProgramARM64
	}
	return qemuProgram
}

// ovmfPairs are code and variables of OVMF, in the sizes distributions ship.
var ovmfPairs = [][2]string{
	{"/usr/share/OVMF/OVMF_CODE.fd", "/usr/share/OVMF/OVMF_VARS.fd"},
	{"/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"},
}

// securePairs are code and variables with Secure Boot on and Debian's test key enrolled.
var securePairs = [][2]string{{"/usr/share/OVMF/OVMF_CODE_4M.secboot.fd", "/usr/share/OVMF/OVMF_VARS_4M.snakeoil.fd"}}

// The key that SecureUEFI trusts and its certificate, in PEM. Everybody has them:
// the passphrase is SecureBootPassphrase.
const (
	SecureBootKey         = "/usr/share/ovmf/PkKek-1-snakeoil.key"
	SecureBootCertificate = "/usr/share/ovmf/PkKek-1-snakeoil.pem"
	SecureBootPassphrase  = "snakeoil"
)

// aavmfPairs are the same for 64-bit ARM.
var aavmfPairs = [][2]string{
	{"/usr/share/AAVMF/AAVMF_CODE.no-secboot.fd", "/usr/share/AAVMF/AAVMF_VARS.fd"},
	{"/usr/share/AAVMF/AAVMF_CODE.fd", "/usr/share/AAVMF/AAVMF_VARS.fd"},
}

func findOVMF() (code, vars string, err error) { return UEFI.files() }

// files are the code of a UEFI firmware and the template of its variables.
func (f Firmware) files() (code, vars string, err error) {
	pairs := ovmfPairs
	switch f {
	case ARM64:
		pairs = aavmfPairs
	case SecureUEFI:
		pairs = securePairs
	case UEFI, BIOS:
	}
	for _, pair := range pairs {
		if exists(pair[0]) && exists(pair[1]) {
			return pair[0], pair[1], nil
		}
	}
	return "", "", fmt.Errorf("no UEFI firmware in %s: run e2e/deps.sh", filepath.Dir(pairs[0][0]))
}

// MissingARM64 tells what this host lacks, beside what Missing says, to run
// ARM64 machines; nil when it has all.
func MissingARM64() error {
	if _, err := exec.LookPath(qemuProgramARM64); err != nil {
		return fmt.Errorf("the program %s is missing: run e2e/deps.sh", qemuProgramARM64)
	}
	_, _, err := ARM64.files()
	return err
}

// MissingSecureUEFI is the same for SecureUEFI machines.
func MissingSecureUEFI() error {
	if !exists(SecureBootKey) || !exists(SecureBootCertificate) {
		return fmt.Errorf("the key %s or its certificate is missing: run e2e/deps.sh", SecureBootKey)
	}
	_, _, err := SecureUEFI.files()
	return err
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

// optionROM chooses what the network card brings for booting. OVMF has a driver
// of its own, so that there the first client is the firmware and not an iPXE.
func optionROM(firmware Firmware) (properties string, err error) {
	if firmware != BIOS {
		return "romfile=", nil
	}
	data, err := os.ReadFile(biosROM)
	if err != nil {
		return "", fmt.Errorf("reading the iPXE option ROM (run e2e/deps.sh): %w", err)
	}
	device, err := romDevice(data)
	if err != nil {
		return "", fmt.Errorf("option ROM %s: %w", biosROM, err)
	}
	return cardOf[device] + "romfile=" + biosROM, nil
}

// cardOf tells how the card must present itself: SeaBIOS runs a ROM only on the
// device that the ROM names, and builds of iPXE name the old or the new virtio.
var cardOf = map[uint16]string{
	0x1000: "disable-modern=on,",
	0x1041: "disable-legacy=on,",
}

// romDevice is the PCI device that an option ROM is for (PCI firmware
// specification 3.0, 5.1.2).
func romDevice(rom []byte) (uint16, error) {
	const pointer, device = 0x18, 6
	if len(rom) < pointer+2 {
		return 0, errors.New("too short")
	}
	at := int(binary.LittleEndian.Uint16(rom[pointer:]))
	if len(rom) < at+device+2 || string(rom[at:at+4]) != "PCIR" {
		return 0, errors.New("no PCI data in it")
	}
	return binary.LittleEndian.Uint16(rom[at+device:]), nil
}
