package talosnode

import (
	"context"
	"fmt"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/api/common"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// machineService answers what is emulated of MachineService; the rest is
// Unimplemented, as it is on 1.12 and older in maintenance mode. From 1.13 on a
// real node also answers a reader's diagnostic calls (Dmesg, Memory, …): those
// are not emulated.
type machineService struct {
	machine.UnimplementedMachineServiceServer
	system *system
}

// Version answers the tag; the access rules keep it from 1.12 and older in maintenance mode.
func (s *machineService) Version(context.Context, *emptypb.Empty) (*machine.VersionResponse, error) {
	return &machine.VersionResponse{Messages: []*machine.Version{{
		Version:  &machine.VersionInfo{Tag: s.system.version, Os: "linux", Arch: "amd64"},
		Platform: &machine.PlatformInfo{Name: "metal", Mode: "metal"},
		Features: &machine.FeaturesInfo{Rbac: true},
	}}}, nil
}

// Hostname answers the node's name.
func (s *machineService) Hostname(context.Context, *emptypb.Empty) (*machine.HostnameResponse, error) {
	s.system.mu.Lock()
	defer s.system.mu.Unlock()
	return &machine.HostnameResponse{Messages: []*machine.Hostname{{Hostname: s.system.hostname}}}, nil
}

// ServiceList answers the services and what they do.
func (s *machineService) ServiceList(context.Context, *emptypb.Empty) (*machine.ServiceListResponse, error) {
	s.system.mu.Lock()
	defer s.system.mu.Unlock()
	list := &machine.ServiceList{}
	for _, one := range s.system.services() {
		list.Services = append(list.Services, one.info(s.system.since))
	}
	return &machine.ServiceListResponse{Messages: []*machine.ServiceList{list}}, nil
}

// bootIDFile changes with every boot.
const bootIDFile = "/proc/sys/kernel/random/boot_id"

// Read streams a file; there are the boot id, which tells one boot from the next, and the command line.
func (s *machineService) Read(req *machine.ReadRequest, stream grpc.ServerStreamingServer[common.Data]) error {
	files := map[string]string{
		bootIDFile:      s.system.bootID + "\n",
		"/proc/cmdline": s.system.args.String() + "\n",
		"/proc/uptime":  fmt.Sprintf("%.2f %.2f\n", time.Since(s.system.since).Seconds(), 0.0),
	}
	content, found := files[req.GetPath()]
	if !found {
		return status.Errorf(codes.Unknown, "stat %s: no such file or directory", req.GetPath())
	}
	return stream.Send(&common.Data{Bytes: []byte(content)})
}

// Rollback makes the other boot slot the one to boot, and resets the machine.
func (s *machineService) Rollback(context.Context, *machine.RollbackRequest) (*machine.RollbackResponse, error) {
	if s.system.disk().PreviousVersion == "" {
		return nil, status.Error(codes.Unknown, "cannot rollback to \"\", label does not exist")
	}
	if err := s.system.node.cfg.Disk.Update(revert); err != nil {
		return nil, err
	}
	s.system.sequence("reboot", newUUID(), ending{kind: endsInReset})
	return &machine.RollbackResponse{Messages: []*machine.Rollback{{}}}, nil
}
