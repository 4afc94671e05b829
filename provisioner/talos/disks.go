package talos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/siderolabs/talos/pkg/machinery/api/storage"
	"github.com/siderolabs/talos/pkg/machinery/resources/block"
)

// Disk is one disk as the node reports it: all that an install disk selector
// can name. What a version does not tell is empty.
type Disk struct {
	// DevPath is e.g. "/dev/nvme0n1".
	DevPath string
	// Model, Serial, WWID, UUID, BusPath, Modalias and SubSystem are as Linux has them below /sys/block.
	Model, Serial, WWID, UUID, BusPath, Modalias, SubSystem string
	// Transport is e.g. "nvme", "sata", "virtio"; from Talos 1.10 on.
	Transport string
	// Type is "nvme", "ssd", "hdd", "sd" or "cd", as a disk selector's type.
	Type string
	// Size in bytes.
	Size uint64
	// Rotational: it has platters. ReadOnly and CDROM: Talos cannot be installed on it.
	Rotational, ReadOnly, CDROM bool
	// System: Talos is installed on it already, or an image was written to it, so that a
	// config's install disk would be ignored (siderolabs/talos#14228).
	System bool
	// Symlinks are the names below /dev/disk; from Talos 1.10 on.
	Symlinks []string
}

// Disks lists the disks of a node in maintenance mode, by device path. A node
// that is configured is an ErrNotInMaintenance.
func (p Prober) Disks(ctx context.Context, host string) ([]Disk, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	o, session := p.open(ctx, host, p.timeout())
	if session != nil {
		defer session.Close()
	}
	switch {
	case o.State == Configured:
		return nil, fmt.Errorf("listing the disks of %s without a client certificate: %w", host, ErrNotInMaintenance)
	case session == nil:
		return nil, fmt.Errorf("listing disks: %w", o.Err)
	}
	return readDisks(ctx, session, host)
}

// readDisks joins the two views that Talos has: resources (block.Disk, complete
// from 1.10 on) and the older StorageService, which alone tells a type.
func readDisks(ctx context.Context, c *session, host string) ([]Disk, error) {
	disks := map[string]Disk{}
	resourceErr := diskResources(ctx, c, disks)
	serviceErr := diskService(ctx, c, disks)
	if resourceErr != nil && serviceErr != nil {
		return nil, callError(ctx, "listing the disks", host, errors.Join(resourceErr, serviceErr))
	}
	system, err := readSystemDisk(ctx, c)
	if err != nil {
		return nil, callError(ctx, "reading the system disk", host, err)
	}
	list := make([]Disk, 0, len(disks))
	for path, d := range disks {
		d.System = d.System || path == system
		if d.Type == "" {
			d.Type = typeOf(d)
		}
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b Disk) int { return cmp.Compare(a.DevPath, b.DevPath) })
	return list, nil
}

func diskResources(ctx context.Context, c *session, disks map[string]Disk) error {
	list, err := safe.StateListAll[*block.Disk](ctx, c.COSI)
	if err != nil {
		return err
	}
	for r := range list.All() {
		spec := r.TypedSpec()
		path := spec.DevPath
		if path == "" {
			path = "/dev/" + r.Metadata().ID() // the field is younger than the resource
		}
		if unusable(path) {
			continue
		}
		disks[path] = Disk{
			DevPath: path, Model: spec.Model, Serial: spec.Serial, WWID: spec.WWID, UUID: spec.UUID,
			BusPath: spec.BusPath, Modalias: spec.Modalias, SubSystem: spec.SubSystem,
			Transport: spec.Transport, Size: spec.Size, Rotational: spec.Rotational,
			ReadOnly: spec.Readonly, CDROM: spec.CDROM, Symlinks: spec.Symlinks,
		}
	}
	return nil
}

// unusable are block devices that are no disks of the machine.
func unusable(path string) bool {
	return slices.ContainsFunc([]string{"/dev/loop", "/dev/dm-", "/dev/ram", "/dev/zram", "/dev/md"},
		func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// diskTypes are the types of the StorageService in a disk selector's words.
var diskTypes = map[storage.Disk_DiskType]string{
	storage.Disk_SSD: "ssd", storage.Disk_HDD: "hdd", storage.Disk_NVME: "nvme", storage.Disk_SD: "sd", storage.Disk_CD: "cd",
}

func diskService(ctx context.Context, c *session, disks map[string]Disk) error {
	answer, err := c.Disks(ctx)
	if err != nil {
		return err
	}
	for _, message := range answer.GetMessages() {
		for _, s := range message.GetDisks() {
			if unusable(s.GetDeviceName()) {
				continue
			}
			d := disks[s.GetDeviceName()]
			d.DevPath = s.GetDeviceName()
			d.Model = cmp.Or(d.Model, s.GetModel())
			d.Serial = cmp.Or(d.Serial, s.GetSerial())
			d.WWID = cmp.Or(d.WWID, s.GetWwid())
			d.UUID = cmp.Or(d.UUID, s.GetUuid())
			d.BusPath = cmp.Or(d.BusPath, s.GetBusPath())
			d.Modalias = cmp.Or(d.Modalias, s.GetModalias())
			d.SubSystem = cmp.Or(d.SubSystem, s.GetSubsystem())
			d.Size = cmp.Or(d.Size, s.GetSize())
			d.Type = diskTypes[s.GetType()]
			d.Rotational = d.Rotational || s.GetType() == storage.Disk_HDD
			d.CDROM = d.CDROM || s.GetType() == storage.Disk_CD
			d.ReadOnly = d.ReadOnly || s.GetReadonly()
			d.System = d.System || s.GetSystemDisk()
			disks[d.DevPath] = d
		}
	}
	return nil
}

// typeOf is the type as Talos itself derives it for a selector.
func typeOf(d Disk) string {
	switch {
	case d.CDROM:
		return "cd"
	case d.Transport == "nvme":
		return "nvme"
	case d.Transport == "mmc":
		return "sd"
	case d.Rotational:
		return "hdd"
	}
	return "ssd"
}

// readSystemDisk is the device that Talos is installed on, or "".
func readSystemDisk(ctx context.Context, c *session) (string, error) {
	r, err := safe.StateGetByID[*block.SystemDisk](ctx, c.COSI, block.SystemDiskID)
	if err != nil {
		return "", unlessAbsent("the system disk", err)
	}
	if path := r.TypedSpec().DevPath; path != "" {
		return path, nil
	}
	if id := r.TypedSpec().DiskID; id != "" {
		return "/dev/" + id, nil
	}
	return "", nil
}
