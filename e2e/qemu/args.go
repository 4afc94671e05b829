package qemu

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/talos-provision/provision/bmc/redfishtest"
)

// args is QEMU's command line but for the firmware; rom are the properties of
// the network card that choose its option ROM.
func (m *Machine) args(boot redfishtest.Boot, serial, rom string) []string {
	c := m.config
	network, disk := bootOrder(boot.Target, c.DefaultNetworkFirst)
	board, processor := c.Firmware.board()
	args := []string{
		"-name", escape(c.Name),
		"-machine", board,
		"-accel", c.Accelerator,
		"-cpu", processor,
		"-m", strconv.Itoa(c.Memory), "-smp", "1",
		"-nodefaults", "-nographic", "-no-user-config",
		// A machine that stops waits to be asked why: see follow.
		"-action", "reboot=shutdown,shutdown=pause",
		"-chardev", "socket,id=control,fd=3", "-mon", "chardev=control,mode=control",
		"-chardev", "file,id=serial,path=" + escape(serial), "-serial", "chardev:serial",
		"-netdev", "tap,id=net0,script=no,downscript=no,ifname=" + m.tap,
		"-device", fmt.Sprintf("virtio-net-pci,netdev=net0,mac=%s,bootindex=%d,", escape(c.MAC), network) + rom,
		"-drive", "if=none,id=disk0,format=raw,file=" + escape(c.Disk),
		"-device", fmt.Sprintf("virtio-blk-pci,drive=disk0,bootindex=%d", disk),
		// OVMF of 2024 and later has no network without a source of randomness.
		"-device", "virtio-rng-pci",
	}
	args = append(args, m.smbios()...)
	if c.Kernel != "" {
		args = append(args, "-kernel", c.Kernel, "-initrd", c.Initramfs, "-append", c.Cmdline)
	}
	return args
}

// board is the machine's type and processor.
func (f Firmware) board() (board, processor string) {
	if f == ARM64 {
		// A plain processor: what newer ones have, pointer authentication above all, slows TCG.
		return "virt", "cortex-a72"
	}
	// Everything the accelerator can do: Talos wants x86-64-v2, Go's cryptography is quicker, and RDRAND
	// saves the guest from waiting for randomness. Without five-level paging, which slows TCG.
	if f == SecureUEFI {
		return "q35,smm=on", "max,la57=off" // its variables are written in system management mode only
	}
	return "q35", "max,la57=off"
}

// bootOrder is the place of the network card and of the disk. After the first
// one fails, the firmware goes on to the second.
func bootOrder(target string, networkFirst bool) (network, disk int) {
	if target == "Pxe" || target == "UefiHttp" || (target == "" && networkFirst) {
		return 1, 2
	}
	return 2, 1
}

// smbiosTable is the text of one SMBIOS structure; empty values are left out.
type smbiosTable struct {
	number int
	fields [][2]string
}

func (m *Machine) smbios() []string {
	c := m.config
	tables := []smbiosTable{
		{1, [][2]string{{"manufacturer", c.Manufacturer}, {"product", c.Product}, {"serial", c.Serial}, {"uuid", c.UUID}}},
		{2, [][2]string{{"manufacturer", c.Manufacturer}, {"serial", c.BoardSerial}}},
		{3, [][2]string{{"manufacturer", c.Manufacturer}, {"serial", c.ChassisSerial}}},
	}
	args := make([]string, 0, 2*len(tables))
	for _, table := range tables {
		value := fmt.Sprintf("type=%d", table.number)
		for _, field := range table.fields {
			if field[1] != "" {
				value += "," + field[0] + "=" + escape(field[1])
			}
		}
		args = append(args, "-smbios", value)
	}
	return args
}

// firmwareArgs gives a UEFI machine fresh variables for each power-on: what an
// interrupted boot left there must not decide the next one.
func (m *Machine) firmwareArgs() ([]string, error) {
	if m.config.Firmware == BIOS {
		return nil, nil
	}
	code, template, err := m.config.Firmware.files()
	if err != nil {
		return nil, err
	}
	vars := m.path("vars.fd")
	if err := copyFile(template, vars); err != nil {
		return nil, err
	}
	pxe := "y"
	if m.config.HTTPBoot {
		pxe = "n"
	}
	args := []string{
		"-drive", "if=pflash,format=raw,unit=0,readonly=on,file=" + code,
		"-drive", "if=pflash,format=raw,unit=1,file=" + escape(vars),
		// Only IPv4: otherwise each failed network boot waits for IPv6 as well.
		"-fw_cfg", "name=opt/org.tianocore/IPv4PXESupport,string=" + pxe,
		"-fw_cfg", "name=opt/org.tianocore/IPv6PXESupport,string=n",
	}
	if m.config.Firmware == SecureUEFI {
		args = append(args, "-global", "driver=cfi.pflash01,property=secure,value=on")
	}
	return args, nil
}

// escape doubles commas, which separate QEMU's options.
func escape(value string) string { return strings.ReplaceAll(value, ",", ",,") }

func copyFile(source, target string) error {
	in, err := os.Open(source)
	if err != nil {
		return fmt.Errorf("opening the firmware's variables: %w", err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.Create(target)
	if err != nil {
		return fmt.Errorf("making the firmware's variables: %w", err)
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close()
		return fmt.Errorf("copying %s to %s: %w", source, target, err)
	}
	return out.Close()
}
