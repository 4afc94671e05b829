package talos_test

import (
	"context"
	"testing"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/google/go-cmp/cmp"
	"github.com/siderolabs/talos/pkg/machinery/api/storage"
	"github.com/siderolabs/talos/pkg/machinery/resources/block"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/talos-provision/provision/provisioner/talos"
)

type disks struct {
	storage.UnimplementedStorageServiceServer
	list []*storage.Disk
	err  error
}

func (d disks) Disks(context.Context, *emptypb.Empty) (*storage.DisksResponse, error) {
	return &storage.DisksResponse{Messages: []*storage.Disks{{Disks: d.list}}}, d.err
}

func diskResource(id string, spec block.DiskSpec) resource.Resource {
	r := block.NewDisk(block.NamespaceName, id)
	*r.TypedSpec() = spec
	return r
}

func TestDisksOfEachVersion(t *testing.T) {
	t.Parallel()
	nvme := block.DiskSpec{DevPath: "/dev/nvme0n1", Size: 960e9, Model: "KXG6", Serial: "N1", WWID: "eui.1", BusPath: "/pci0/nvme", SubSystem: "/sys/class/block", Transport: "nvme", Symlinks: []string{"/dev/disk/by-id/nvme-KXG6"}}
	serviceNVMe := &storage.Disk{DeviceName: "/dev/nvme0n1", Size: 960e9, Model: "KXG6", Uuid: "u-1", Type: storage.Disk_NVME, Wwid: "eui.1"}
	systemDisk := block.NewSystemDisk(block.NamespaceName, block.SystemDiskID)
	systemDisk.TypedSpec().DiskID = "sda"
	tests := map[string]struct {
		resources []resource.Resource
		service   storage.StorageServiceServer
		want      []talos.Disk
	}{
		"1.9: the service knows more": {
			service: disks{list: []*storage.Disk{
				serviceNVMe,
				{DeviceName: "/dev/loop0", Size: 1},
				{DeviceName: "/dev/sda", Size: 4e12, Type: storage.Disk_HDD, SystemDisk: true, Serial: "H1", Modalias: "scsi:t-0x00", BusPath: "/ata1"},
				{DeviceName: "/dev/sr0", Type: storage.Disk_CD, Readonly: true},
			}},
			want: []talos.Disk{
				{DevPath: "/dev/nvme0n1", Size: 960e9, Model: "KXG6", UUID: "u-1", Type: "nvme", WWID: "eui.1"},
				{DevPath: "/dev/sda", Size: 4e12, Type: "hdd", Rotational: true, System: true, Serial: "H1", Modalias: "scsi:t-0x00", BusPath: "/ata1"},
				{DevPath: "/dev/sr0", Type: "cd", CDROM: true, ReadOnly: true},
			},
		},
		"1.10 and later: both are joined": {
			resources: []resource.Resource{diskResource("nvme0n1", nvme), diskResource("loop0", block.DiskSpec{DevPath: "/dev/loop0"}), systemDisk,
				diskResource("sda", block.DiskSpec{DevPath: "/dev/sda", Rotational: true, Transport: "sata"})},
			service: disks{list: []*storage.Disk{serviceNVMe}},
			want: []talos.Disk{
				{DevPath: "/dev/nvme0n1", Size: 960e9, Model: "KXG6", Serial: "N1", WWID: "eui.1", UUID: "u-1", BusPath: "/pci0/nvme", SubSystem: "/sys/class/block", Transport: "nvme", Type: "nvme", Symlinks: []string{"/dev/disk/by-id/nvme-KXG6"}},
				{DevPath: "/dev/sda", Rotational: true, Transport: "sata", Type: "hdd", System: true},
			},
		},
		"a version without the service": {
			resources: []resource.Resource{diskResource("vda", block.DiskSpec{Transport: "virtio"}), diskResource("mmcblk0", block.DiskSpec{DevPath: "/dev/mmcblk0", Transport: "mmc"})},
			want:      []talos.Disk{{DevPath: "/dev/mmcblk0", Transport: "mmc", Type: "sd"}, {DevPath: "/dev/vda", Transport: "virtio", Type: "ssd"}},
		},
		"no disks at all": {service: disks{err: status.Error(codes.Unimplemented, "gone")}, want: []talos.Disk{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{storage: tt.service, resources: append(machineIn(runtime.MachineStageMaintenance, "S-1"), tt.resources...)}
			got, err := talos.Prober{Port: f.start(t)}.Disks(t.Context(), "127.0.0.1")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("disks (-want +got):\n%s", diff)
			}
		})
	}
}

// siderolabs/talos#14228, sbc-raspberrypi#35: where an image was written to a
// disk, the install disk of a config is ignored; the caller must see that before.
func TestIssue14228ASystemDiskInMaintenanceIsSeen(t *testing.T) {
	t.Parallel()
	systemDisk := block.NewSystemDisk(block.NamespaceName, block.SystemDiskID)
	systemDisk.TypedSpec().DiskID, systemDisk.TypedSpec().DevPath = "mmcblk0", "/dev/mmcblk0"
	f := &fake{resources: append(machineIn(runtime.MachineStageMaintenance, "S-1"), systemDisk,
		diskResource("mmcblk0", block.DiskSpec{DevPath: "/dev/mmcblk0"}), diskResource("nvme0n1", block.DiskSpec{DevPath: "/dev/nvme0n1"}))}
	got, err := talos.Prober{Port: f.start(t)}.Disks(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	for _, disk := range got {
		if disk.System != (disk.DevPath == "/dev/mmcblk0") {
			t.Errorf("disk = %+v", disk)
		}
	}
}
