package talosnode

import (
	"context"
	"errors"
	"fmt"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// imageService pulls images, from 1.13 on.
type imageService struct {
	machine.UnimplementedImageServiceServer
	system *system
}

// Pull fetches an image and answers its name by digest.
func (s *imageService) Pull(req *machine.ImageServicePullRequest, stream grpc.ServerStreamingServer[machine.ImageServicePullResponse]) error {
	image := req.GetImageRef()
	if image == "" {
		return status.Error(codes.InvalidArgument, "image reference is required")
	}
	if err := s.system.registryHas(image); err != nil {
		return status.Errorf(codes.Internal, "error pulling image: %v", err)
	}
	s.system.mu.Lock()
	s.system.images[image] = true
	s.system.mu.Unlock()
	return stream.Send(&machine.ImageServicePullResponse{Response: &machine.ImageServicePullResponse_Name{Name: image}})
}

// ImagePull is the pull of old, which only looks for the image as far as an
// upgrade is concerned: it is kept where no upgrade looks.
func (s *machineService) ImagePull(_ context.Context, req *machine.ImagePullRequest) (*machine.ImagePullResponse, error) {
	if err := s.system.registryHas(req.GetReference()); err != nil {
		return nil, status.Errorf(codes.NotFound, "error pulling image: %v", err)
	}
	return &machine.ImagePullResponse{Messages: []*machine.ImagePull{{}}}, nil
}

// lifecycleService upgrades, from 1.13 on.
type lifecycleService struct {
	machine.UnimplementedLifecycleServiceServer
	system *system
}

// Install is for machines that are not installed; a configured one is.
func (s *lifecycleService) Install(*machine.LifecycleServiceInstallRequest, grpc.ServerStreamingServer[machine.LifecycleServiceInstallResponse]) error {
	return status.Error(codes.AlreadyExists, "machine is already installed")
}

// Upgrade writes the other boot slot and streams what the installer says, the
// exit code last. It neither resets the machine nor looks at etcd.
func (s *lifecycleService) Upgrade(req *machine.LifecycleServiceUpgradeRequest, stream grpc.ServerStreamingServer[machine.LifecycleServiceUpgradeResponse]) error {
	sys, image := s.system, req.GetSource().GetImageName()
	if !sys.beginWriting() {
		return status.Error(codes.FailedPrecondition, "another installation/upgrade is already in progress")
	}
	defer sys.endWriting()
	switch {
	case !sys.disk().Installed():
		return status.Error(codes.FailedPrecondition, "machine is not installed")
	case image == "":
		return status.Error(codes.InvalidArgument, "installer image name is required")
	}
	sys.mu.Lock()
	pulled := sys.images[image]
	sys.mu.Unlock()
	if !pulled {
		return status.Errorf(codes.Internal, "upgrade failed: installer image %q not found in containerd store: image %q: not found", image, image)
	}
	say := func(line string) error {
		return stream.Send(&machine.LifecycleServiceUpgradeResponse{Progress: &machine.LifecycleServiceInstallProgress{
			Response: &machine.LifecycleServiceInstallProgress_Message{Message: line},
		}})
	}
	code, err := sys.runInstaller(stream.Context(), image, nil, say) // siderolabs/talos#13967: without the extra arguments
	if err != nil {
		return err
	}
	return stream.Send(&machine.LifecycleServiceUpgradeResponse{Progress: &machine.LifecycleServiceInstallProgress{
		Response: &machine.LifecycleServiceInstallProgress_ExitCode{ExitCode: code},
	}})
}

func (s *system) beginWriting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writing {
		return false
	}
	s.writing = true
	return true
}

func (s *system) endWriting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = false
}

// Upgrade is the upgrade of old, which every version has: the node does
// everything by itself, the reset too, after the answer.
func (s *machineService) Upgrade(_ context.Context, req *machine.UpgradeRequest) (*machine.UpgradeResponse, error) {
	sys, image := s.system, req.GetImage()
	if !sys.disk().Installed() {
		return nil, status.Error(codes.FailedPrecondition, "Talos is not installed")
	}
	if err := sys.registryHas(image); err != nil {
		return nil, fmt.Errorf("error validating installer image %q: %w", image, err)
	}
	if sys.self.controlPlane && !req.GetForce() && !req.GetPreserve() {
		if err := sys.etcdAllowsUpgrade(); err != nil {
			return nil, fmt.Errorf("error validating etcd for upgrade: %w", err)
		}
	}
	actor, name := newUUID(), "upgrade"
	if req.GetStage() {
		name = "stageUpgrade"
	}
	sys.sequenceAfter(name, actor, ending{kind: endsInReset}, func() error {
		code, err := sys.runInstaller(sys.life, image, sys.extraArgs(), func(string) error { return nil })
		if err == nil && code != 0 {
			err = fmt.Errorf("task exited with code %d", code)
		}
		if err != nil {
			return err
		}
		return sys.chooseSlot()
	})
	return &machine.UpgradeResponse{Messages: []*machine.Upgrade{{Ack: "Upgrade request received", ActorId: actor}}}, nil
}

// etcdAllowsUpgrade is the old upgrade's own look at etcd.
func (s *system) etcdAllowsUpgrade() (err error) {
	s.cluster.read(func() {
		members := s.cluster.members()
		if len(members) == 2 {
			err = errors.New("etcd member count(2) is insufficient to maintain quorum if upgrade commences")
			return
		}
		for _, p := range members {
			if !p.serves {
				err = fmt.Errorf("etcd member %s is not healthy; all members must be healthy to perform an upgrade", p.hostname)
				return
			}
		}
	})
	return err
}
