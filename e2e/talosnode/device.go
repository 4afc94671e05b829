package talosnode

import (
	"context"
	"fmt"
	"strings"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/siderolabs/talos/pkg/machinery/api/storage"
	"github.com/siderolabs/talos/pkg/machinery/resources/block"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Device is one block device of the emulated node.
type Device struct {
	// Path is the device file, "/dev/sda".
	Path string
	// Size is in bytes.
	Size uint64
	// Model, Serial, WWID, UUID, Modalias and BusPath are what sysfs shows; empty where it shows nothing.
	Model, Serial, WWID, UUID, Modalias, BusPath string
	// Transport is "sata", "nvme", "virtio", "usb", …
	Transport string
	// Symlinks are further names, e.g. "/dev/disk/by-id/…".
	Symlinks                    []string
	Rotational, ReadOnly, CDROM bool
}

// defaultDevices is what a node with a Disk and no Devices has.
func defaultDevices() []Device {
	return []Device{{Path: "/dev/vda", Size: 20 << 30, Transport: "virtio", Modalias: "virtio:d00000002v00001AF4", BusPath: "/pci0000:00/0000:00:04.0/virtio1/"}}
}

func (d Device) name() string { return strings.TrimPrefix(d.Path, "/dev/") }

// answersTo tells whether the path, or a link to it, is this device.
func (d Device) answersTo(path string) bool {
	for _, name := range append([]string{d.Path}, d.Symlinks...) {
		if name == path {
			return true
		}
	}
	return false
}

func (d Device) resource() resource.Resource {
	r := block.NewDisk(block.NamespaceName, d.name())
	*r.TypedSpec() = block.DiskSpec{
		DevPath: d.Path, IOSize: 512, SectorSize: 512, Readonly: d.ReadOnly, CDROM: d.CDROM,
		Model: d.Model, Serial: d.Serial, WWID: d.WWID, UUID: d.UUID, Modalias: d.Modalias, BusPath: d.BusPath,
		SubSystem: "/sys/class/block", Transport: d.Transport, Rotational: d.Rotational, Symlinks: d.Symlinks,
	}
	r.TypedSpec().SetSize(d.Size)
	return r
}

// message is the device in the words of StorageService.
func (d Device) message(systemDisk string) *storage.Disk {
	kind := storage.Disk_SSD
	switch {
	case d.CDROM:
		kind = storage.Disk_CD
	case d.Rotational:
		kind = storage.Disk_HDD
	case d.Transport == "nvme":
		kind = storage.Disk_NVME
	}
	return &storage.Disk{
		Size: d.Size, Model: d.Model, DeviceName: d.Path, Serial: d.Serial, Modalias: d.Modalias, Uuid: d.UUID,
		Wwid: d.WWID, Type: kind, BusPath: d.BusPath, SystemDisk: d.Path == systemDisk, Subsystem: "/sys/class/block", Readonly: d.ReadOnly,
	}
}

// storageService answers in every version, also in maintenance mode.
type storageService struct {
	storage.UnimplementedStorageServiceServer
	system *system
}

// Disks lists the block devices.
func (s *storageService) Disks(context.Context, *emptypb.Empty) (*storage.DisksResponse, error) {
	all := &storage.Disks{}
	for _, d := range s.system.devices {
		all.Disks = append(all.Disks, d.message(s.system.disk().Device))
	}
	return &storage.DisksResponse{Messages: []*storage.Disks{all}}, nil
}

// BlockDeviceWipe refuses devices that are not there or in use; it wipes nothing, as nothing is emulated
// beside the system disk.
func (s *storageService) BlockDeviceWipe(_ context.Context, req *storage.BlockDeviceWipeRequest) (*storage.BlockDeviceWipeResponse, error) {
	for _, wanted := range req.GetDevices() {
		path := "/dev/" + wanted.GetDevice()
		found := false
		for _, d := range s.system.devices {
			found = found || d.Path == path
		}
		switch {
		case !found:
			return nil, status.Error(codes.NotFound, fmt.Sprintf("blockdevice %q not found", wanted.GetDevice()))
		case path == s.system.disk().Device:
			return nil, status.Error(codes.FailedPrecondition, fmt.Sprintf("blockdevice %q is in use by volume %q", wanted.GetDevice(), "STATE"))
		}
	}
	return &storage.BlockDeviceWipeResponse{Messages: []*storage.BlockDeviceWipe{{}}}, nil
}
