package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/talos-provision/provision/e2e/talosnode"
)

// diskPath is the only disk of a machine of package qemu.
const diskPath = "/dev/vda"

// installerArg names on the kernel command line where the installed system is
// fetched from: the image of an EFI system partition, byte for byte.
const installerArg = "talos.e2e.installer"

// sectorSize is that of the boot sector, which is written last.
const sectorSize = 512

// systemDisk is the disk that the node is installed to: the system that the
// firmware boots at its begin, the state of the node at its end.
type systemDisk struct {
	device    blockDevice
	slots     *slots
	installer string // URL
	installed bool
	log       logf
}

// openDisk opens the machine's disk; nil when it has none.
func openDisk(args cmdline, log logf) (*talosnode.Disk, error) {
	file, err := os.OpenFile(diskPath, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil //nolint:nilnil // a machine without a disk is no error
	}
	if err != nil {
		return nil, fmt.Errorf("opening the machine's disk: %w", err)
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("asking for the size of %s: %w", diskPath, err)
	}
	return newDisk(file, size, args.first(installerArg, ""), log)
}

func newDisk(device blockDevice, size int64, installer string, log logf) (*talosnode.Disk, error) {
	slots, state, err := openSlots(device, size)
	if err != nil {
		return nil, err
	}
	d := &systemDisk{device: device, slots: slots, installer: installer, installed: state.Installed(), log: log}
	return talosnode.NewDisk(state, d.save), nil
}

// save is called before every change of the disk's content. What the firmware
// boots is written before the state that says so.
func (d *systemDisk) save(next talosnode.DiskState) error {
	switch {
	case next.Installed() && !d.installed:
		if err := d.install(context.Background()); err != nil {
			return err
		}
	case !next.Installed() && d.installed:
		if err := d.erase(); err != nil {
			return err
		}
	}
	d.installed = next.Installed()
	return d.slots.write(next)
}

// installTime bounds the download of the installed system.
const installTime = 5 * time.Minute

// install streams the system to the begin of the disk. The firmware sees none
// before all of it is there.
func (d *systemDisk) install(ctx context.Context) error {
	if d.installer == "" {
		return fmt.Errorf("nothing to install: the kernel argument %s=URL is missing", installerArg)
	}
	ctx, cancel := context.WithTimeout(ctx, installTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.installer, nil)
	if err != nil {
		return fmt.Errorf("fetching the system to install: %w", err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("fetching the system to install: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	room := d.slots.offset(0)
	if answer.StatusCode != http.StatusOK || answer.ContentLength < sectorSize || answer.ContentLength > room {
		return fmt.Errorf("fetching the system to install from %s: %s with %d bytes, want between %d and the %d that the disk has room for",
			d.installer, answer.Status, answer.ContentLength, sectorSize, room)
	}
	boot := make([]byte, sectorSize)
	if _, err := io.ReadFull(answer.Body, boot); err != nil {
		return fmt.Errorf("fetching the system to install: %w", err)
	}
	written, err := io.CopyBuffer(io.NewOffsetWriter(d.device, sectorSize), onlyReader{answer.Body}, make([]byte, 1<<20))
	if err != nil {
		return fmt.Errorf("writing the system to the disk: %w", err)
	}
	if err := d.device.Sync(); err != nil {
		return fmt.Errorf("writing the system to the disk: %w", err)
	}
	if err := d.writeBootSector(boot); err != nil {
		return err
	}
	d.log("installed: wrote %d bytes to %s", written+sectorSize, diskPath)
	return nil
}

// onlyReader hides other methods, so that a copy goes through the large buffer.
type onlyReader struct{ io.Reader }

// erase leaves nothing that a firmware would boot.
func (d *systemDisk) erase() error {
	if err := d.writeBootSector(make([]byte, sectorSize)); err != nil {
		return err
	}
	d.log("wiped the system on %s", diskPath)
	return nil
}

func (d *systemDisk) writeBootSector(sector []byte) error {
	if _, err := d.device.WriteAt(sector, 0); err != nil {
		return fmt.Errorf("writing the boot sector: %w", err)
	}
	if err := d.device.Sync(); err != nil {
		return fmt.Errorf("writing the boot sector: %w", err)
	}
	return nil
}

// describeDevices lists the disks as the Talos API reports them.
func describeDevices() ([]talosnode.Device, error) {
	found, err := filepath.Glob("/sys/class/block/vd?")
	if err != nil {
		return nil, fmt.Errorf("listing disks: %w", err)
	}
	devices := make([]talosnode.Device, 0, len(found))
	for _, path := range found {
		device := talosnode.Device{Path: "/dev/" + filepath.Base(path), Transport: "virtio", Serial: sysfs(path, "serial"), Modalias: sysfs(path, "device/modalias")}
		sectors, err := strconv.ParseUint(sysfs(path, "size"), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("reading the size of %s: %w", device.Path, err)
		}
		device.Size = sectors * sectorSize // whatever the device's own sectors are
		devices = append(devices, device)
	}
	return devices, nil
}

// sysfs reads one value; empty when there is none.
func sysfs(path, name string) string {
	data, err := os.ReadFile(filepath.Join(path, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
