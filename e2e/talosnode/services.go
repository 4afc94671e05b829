package talosnode

import (
	"context"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/api/storage"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// machineService answers what is emulated of MachineService; the rest is
// Unimplemented, as it is on 1.12 and older. From 1.13 on a real node also
// answers a reader's diagnostic calls (Events, Dmesg, …): those are not emulated.
type machineService struct {
	machine.UnimplementedMachineServiceServer
	node *Node
	cfg  Config
	act  behaviour
	mode mode
}

// Version answers the tag; the access rules keep it from 1.12 and older in maintenance mode.
func (s *machineService) Version(context.Context, *emptypb.Empty) (*machine.VersionResponse, error) {
	return &machine.VersionResponse{Messages: []*machine.Version{{
		Version:  &machine.VersionInfo{Tag: s.cfg.Version, Os: "linux", Arch: "amd64"},
		Platform: &machine.PlatformInfo{Name: "metal", Mode: "metal"},
		Features: &machine.FeaturesInfo{Rbac: true},
	}}}, nil
}

// ApplyConfiguration takes any machine config that is not empty. After a real
// apply the port closes, as it does while Talos installs.
func (s *machineService) ApplyConfiguration(_ context.Context, req *machine.ApplyConfigurationRequest) (*machine.ApplyConfigurationResponse, error) {
	if len(req.GetData()) == 0 {
		if s.act.apid {
			return nil, status.Error(codes.InvalidArgument, "config not found")
		}
		return nil, status.Error(codes.Unknown, "failed to parse config: config not found")
	}
	if s.cfg.OnApply != nil {
		s.cfg.OnApply(req.GetData(), req.GetDryRun())
	}
	details := "Applied configuration with a reboot"
	if req.GetDryRun() {
		details = "Dry run summary: the configuration is valid"
	} else if s.mode == maintenance {
		// The answer of this very call must still leave.
		go s.node.server.GracefulStop()
	}
	return &machine.ApplyConfigurationResponse{Messages: []*machine.ApplyConfiguration{{
		Mode: req.GetMode(), ModeDetails: details,
	}}}, nil
}

// storageService has no disks to show, but answers, as every version does in maintenance mode.
type storageService struct {
	storage.UnimplementedStorageServiceServer
}

// Disks answers an empty list.
func (storageService) Disks(context.Context, *emptypb.Empty) (*storage.DisksResponse, error) {
	return &storage.DisksResponse{Messages: []*storage.Disks{{}}}, nil
}

// BlockDeviceWipe does nothing, successfully.
func (storageService) BlockDeviceWipe(context.Context, *storage.BlockDeviceWipeRequest) (*storage.BlockDeviceWipeResponse, error) {
	return &storage.BlockDeviceWipeResponse{Messages: []*storage.BlockDeviceWipe{{}}}, nil
}
