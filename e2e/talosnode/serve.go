package talosnode

import (
	"crypto/tls"
	"fmt"
	"net"

	cosiapi "github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/state"
	cosiserver "github.com/cosi-project/runtime/pkg/state/protobuf/server"
	clusterapi "github.com/siderolabs/talos/pkg/machinery/api/cluster"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/api/storage"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// listen opens the port.
func (s *system) listen() error {
	address := s.node.cfg.Address
	var listen net.ListenConfig
	listener, err := listen.Listen(s.life, "tcp", address)
	if err != nil {
		s.stop()
		return fmt.Errorf("listening for the Talos API on %s (is another node running there?): %w", address, err)
	}
	s.listener, s.wires = listener, newWires(listener)
	s.server = newServer(s.keys.server, accessRules(s.act, s.mode))
	s.register()
	return nil
}

// newServer keeps per-connection buffers small: a fleet of thousands of nodes
// lives in one process.
func newServer(config *tls.Config, a access) *grpc.Server {
	const buffer = 4 << 10
	return grpc.NewServer(
		grpc.Creds(credentials.NewTLS(config)),
		grpc.WaitForHandlers(true), // a handler of a boot must not see the next one
		grpc.ReadBufferSize(buffer),
		grpc.WriteBufferSize(buffer),
		grpc.UnaryInterceptor(a.unary),
		grpc.StreamInterceptor(a.stream),
	)
}

// register adds the services this version has. Each has its own receiver:
// MachineService and ImageService both have a List.
func (s *system) register() {
	machine.RegisterMachineServiceServer(s.server, &machineService{system: s})
	storage.RegisterStorageServiceServer(s.server, &storageService{system: s})
	cosiapi.RegisterStateServer(s.server, cosiserver.NewState(state.Filter(s.resources, s.resourceRule())))
	if s.act.apid || s.mode == configured {
		machine.RegisterDebugServiceServer(s.server, machine.UnimplementedDebugServiceServer{})
		clusterapi.RegisterClusterServiceServer(s.server, &clusterService{system: s})
	}
	if s.act.apid {
		machine.RegisterImageServiceServer(s.server, &imageService{system: s})
		machine.RegisterLifecycleServiceServer(s.server, &lifecycleService{system: s})
	}
}
