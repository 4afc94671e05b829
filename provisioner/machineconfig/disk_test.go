package machineconfig_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/talos-provision/provision/provisioner/machineconfig"
	"github.com/talos-provision/provision/provisioner/talos"
)

// theDisks are those of one server.
func theDisks() []talos.Disk {
	return []talos.Disk{
		{DevPath: "/dev/nvme0n1", Model: "SAMSUNG MZQL2960HCJR", Serial: "S1", WWID: "eui.36344830", UUID: "u-1", Transport: "nvme", Type: "nvme", Size: 960_197_124_096, BusPath: "/pci0000:00/0000:00:1d.0/nvme", Symlinks: []string{"/dev/disk/by-id/nvme-SAMSUNG_S1"}},
		{DevPath: "/dev/nvme1n1", Model: "SAMSUNG MZQL2960HCJR", Serial: "S2", WWID: "eui.36344831", Transport: "nvme", Type: "nvme", Size: 960_197_124_096, BusPath: "/pci0000:00/0000:00:1e.0/nvme"},
		{DevPath: "/dev/sda", Model: "ST8000NM", Serial: "H1", Transport: "sata", Type: "hdd", Rotational: true, Size: 8_001_563_222_016, Modalias: "scsi:t-0x00", BusPath: "/pci0000:00/0000:00:17.0/ata1/host0"},
		{DevPath: "/dev/sdb", Model: "SATADOM", Serial: "D1", Transport: "sata", Type: "ssd", Size: 64_023_257_088, BusPath: "/pci0000:00/0000:00:17.0/ata2/host1"},
		{DevPath: "/dev/sdc", Model: "Virtual Media", Transport: "usb", Type: "ssd", Size: 4_000_000_000, ReadOnly: true},
		{DevPath: "/dev/sr0", Model: "Virtual CDROM", Transport: "usb", Type: "cd", CDROM: true, Size: 1_000_000},
		{DevPath: "/dev/mmcblk0", Model: "SD32G", Transport: "mmc", Type: "sd", Size: 32_000_000_000},
	}
}

func install(t *testing.T, text string) machineconfig.Config {
	t.Helper()
	c, err := machineconfig.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func selector(t *testing.T, text string) machineconfig.Config {
	t.Helper()
	return install(t, "machine: {type: worker, install: {diskSelector: {"+text+"}}}\n")
}

func TestSelectorsMeanTheDisksThatTalosMeans(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"type: hdd":                               "/dev/sda",
		"type: sd":                                "/dev/mmcblk0",
		"serial: S2":                              "/dev/nvme1n1",
		"serial: 'S?'":                            "", // ? is no wildcard
		"model: 'SATA*'":                          "/dev/sdb",
		"wwid: 'eui.*31'":                         "/dev/nvme1n1",
		"uuid: u-1":                               "/dev/nvme0n1",
		"modalias: 'scsi:*'":                      "/dev/sda",
		"busPath: '/pci0000:00/0000:00:1d.0/*'":   "/dev/nvme0n1",
		"size: '>= 5TB'":                          "/dev/sda",
		"size: '> 8001563222016'":                 "",
		"size: '<= 40GB'":                         "/dev/mmcblk0", // the smaller ones cannot be written
		"size: '< 64GB', type: ssd":               "/dev/mmcblk0",
		"size: '<= 65GB', model: 'S*T*'":          "/dev/sdb",
		"size: 32GB":                              "/dev/mmcblk0",
		"size: '== 32GB'":                         "/dev/mmcblk0",
		"size: '>= 29GiB', type: sd":              "/dev/mmcblk0",
		"type: nvme, serial: S1, model: '*MZQL*'": "/dev/nvme0n1",
		"model: 'Virtual*'":                       "",
		"type: ssd, busPath: '/pci0000:00/0000:00:17.0/*'": "/dev/sdb",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			d, err := selector(t, text).SelectDisk(theDisks())
			if d.DevPath != want || (err == nil) != (want != "") {
				t.Errorf("disk %q, error %v, want %q", d.DevPath, err, want)
			}
			if err != nil && !errors.Is(err, machineconfig.ErrInstallDisk) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestPathsMeanADiskByItsNameOrALinkToIt(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/dev/sdb": "/dev/sdb", "/dev//sdb": "/dev/sdb", "/dev/disk/by-id/nvme-SAMSUNG_S1": "/dev/nvme0n1",
		"/dev/sdz": "", "/dev/sdc": "", "/dev/sr0": "", "sdb": "",
	} {
		d, err := install(t, "machine: {type: worker, install: {disk: "+path+"}}\n").SelectDisk(theDisks())
		if d.DevPath != want || (err == nil) != (want != "") {
			t.Errorf("%s: disk %q, error %v, want %q", path, d.DevPath, err, want)
		}
	}
}

// From Talos 1.14 on a selector is an expression.
func TestExpressionsOfTalos114(t *testing.T) {
	t.Parallel()
	for match, want := range map[string]string{
		`disk.dev_path == "/dev/sdb"`:                     "/dev/sdb",
		`disk.transport == "nvme" && disk.serial == "S2"`: "/dev/nvme1n1",
		`disk.size > 1u * TB`:                             "/dev/sda",
		`glob("SATA*", disk.model)`:                       "/dev/sdb",
		`!disk.rotational && disk.transport == "usb"`:     "", // it cannot be written
		`disk.colour == "red"`:                            "",
	} {
		c := install(t, "machine: {type: worker}\n---\nkind: UnattendedInstallConfig\nprovisioning: {diskSelector: {match: '"+match+"'}}\n")
		d, err := c.SelectDisk(theDisks())
		if d.DevPath != want || (err == nil) != (want != "") {
			t.Errorf("%s: disk %q, error %v, want %q", match, d.DevPath, err, want)
		}
	}
}

// A selector that means several disks would install on whichever comes first.
func TestSelectorsThatAreNotCertainAreRefusedWithTheList(t *testing.T) {
	t.Parallel()
	_, err := selector(t, "type: nvme").SelectDisk(theDisks())
	if err == nil {
		t.Fatal("accepted")
	}
	const want = `the install disk is not certain: machine.install.diskSelector {type: nvme} means 2 of the node's disks, and Talos would take any of them: say more, such as serial or wwid; they are (* means that it matches)
  DISK          SIZE    TYPE  MODEL                 SERIAL  WWID          BUS PATH                             NOTE
* /dev/nvme0n1  960 GB  nvme  SAMSUNG MZQL2960HCJR  S1      eui.36344830  /pci0000:00/0000:00:1d.0/nvme
* /dev/nvme1n1  960 GB  nvme  SAMSUNG MZQL2960HCJR  S2      eui.36344831  /pci0000:00/0000:00:1e.0/nvme
  /dev/sda      8.0 TB  hdd   ST8000NM              H1      -             /pci0000:00/0000:00:17.0/ata1/host0
  /dev/sdb      64 GB   ssd   SATADOM               D1      -             /pci0000:00/0000:00:17.0/ata2/host1
  /dev/sdc      4.0 GB  ssd   Virtual Media         -       -             -                                    read-only
  /dev/sr0      1.0 MB  cd    Virtual CDROM         -       -             -                                    CD-ROM
  /dev/mmcblk0  32 GB   sd    SD32G                 -       -             -`
	if err.Error() != want {
		t.Errorf("error:\n%s\nwant:\n%s", err, want)
	}
	_, err = selector(t, "type: nvme, size: '< 1GB'").SelectDisk(theDisks())
	if err == nil || !strings.Contains(err.Error(), "{size: < 1GB, type: nvme} means none of the node's disks") || strings.Contains(err.Error(), "\n* ") || !strings.Contains(err.Error(), "\n  /dev/sdb") {
		t.Errorf("error: %v", err)
	}
}

// siderolabs/talos#14228: a disk with an image or an old installation keeps Talos,
// and the install disk of the config is ignored.
func TestADiskWithTalosOnItIsKept(t *testing.T) {
	t.Parallel()
	disks := theDisks()
	disks[3].System = true
	_, err := selector(t, "type: hdd").SelectDisk(disks)
	if err == nil || !strings.Contains(err.Error(), "means /dev/sda, but Talos was installed on /dev/sdb before and would stay there") {
		t.Errorf("error: %v", err)
	}
	if d, err := selector(t, "model: SATADOM").SelectDisk(disks); err != nil || d.DevPath != "/dev/sdb" {
		t.Errorf("disk %s, error %v", d.DevPath, err)
	}
}

func TestSelectorsThatAreNotUnderstoodAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"machine: {type: worker}\n":                                                       "names no disk",
		"machine: {install: {wipe: true}}\n":                                              "names no disk",
		"machine: {install: {diskSelector: {colour: x}}}\n":                               "there is no key colour",
		"machine: {install: {diskSelector: {name: sda}}}\n":                               "there is no key name",
		"machine: {install: {diskSelector: {size: big}}}\n":                               "failed to parse disk size",
		"machine: {install: {diskSelector: {type: floppy}}}\n":                            "unsupported disk type",
		"machine: {install: {disk: /dev/sda}}\n---\nkind: UnattendedInstallConfig\n":      "keep one of them",
		"kind: UnattendedInstallConfig\nprovisioning: {diskSelector: {match: 'disk.'}}\n": "is not understood",
	} {
		_, err := install(t, text).SelectDisk(theDisks())
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, machineconfig.ErrInstallDisk) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
	if _, err := selector(t, "type: hdd").SelectDisk(nil); err == nil || !strings.Contains(err.Error(), "reports no disk at all") {
		t.Errorf("without disks: %v", err)
	}
}

// Talos 1.9 tells types instead of transports.
func TestDisksOfTalos19HaveATypeOnly(t *testing.T) {
	t.Parallel()
	disks := theDisks()
	for i := range disks {
		disks[i].Transport = ""
	}
	for text, want := range map[string]string{"type: sd": "/dev/mmcblk0", "type: hdd": "/dev/sda", "type: nvme, serial: S1": "/dev/nvme0n1", "model: SATADOM": "/dev/sdb"} {
		if d, err := selector(t, text).SelectDisk(disks); err != nil || d.DevPath != want {
			t.Errorf("%s: disk %s, error %v", text, d.DevPath, err)
		}
	}
}
