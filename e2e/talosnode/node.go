// Package talosnode emulates a Talos node as far as its API on port 50000 can
// be seen from the network: a real gRPC server with real TLS that answers each
// call as that version of Talos does, in maintenance mode or configured.
package talosnode

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"

	cosiapi "github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/state/protobuf/server"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/api/storage"
	"github.com/siderolabs/talos/pkg/machinery/constants"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// Link is one network interface of the emulated node.
type Link struct {
	// Name is the kernel's name, e.g. "eth0".
	Name string
	// MAC is the hardware address in any notation net.ParseMAC knows.
	MAC string
	// Kind is the kernel's link kind: empty for a physical interface, else "vlan", "bond", …
	Kind string
}

// Config describes the emulated node.
type Config struct {
	// Address to listen on: host or host:port, port 50000 when it has none. Empty means every address.
	Address string
	// Version is the Talos version, e.g. "v1.13.9"; it selects what the API answers. v1.8 to v1.14 are told apart.
	Version string
	// UUID, Serial, Manufacturer and Product are what SMBIOS type 1 says.
	UUID, Serial, Manufacturer, Product string
	// Links are the network interfaces; a loopback interface is always added.
	Links []Link
	// Cmdline is the kernel command line; readable from Talos 1.11 on.
	Cmdline string
	// OnApply, if set, receives every accepted machine config. The bytes may hold secrets.
	OnApply func(data []byte, dryRun bool)
	// Log may be nil.
	Log *slog.Logger
}

// Node is a running emulated node.
type Node struct {
	server    *grpc.Server
	listener  net.Listener
	clientTLS *tls.Config
	served    sync.WaitGroup
	// forget releases what ties the node to its context.
	forget func() bool
}

// Start runs a node in maintenance mode until ctx is done or Stop is called.
// It returns an error when the address cannot be bound or the config is not valid.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	return start(ctx, cfg, maintenance)
}

// StartConfigured runs a node that has its machine config: its certificates
// come from its own cluster's authority, and it demands a client certificate
// of that authority, so that nobody without the talosconfig gets an answer.
func StartConfigured(ctx context.Context, cfg Config) (*Node, error) {
	return start(ctx, cfg, configured)
}

// Addr is the address the node listens on.
func (n *Node) Addr() net.Addr { return n.listener.Addr() }

// ClientTLS is what an administrator of a configured node connects with (as a
// talosconfig holds it); nil in maintenance mode.
func (n *Node) ClientTLS() *tls.Config { return n.clientTLS.Clone() }

// Stop closes the port and cuts every connection at once, as a power cut or a
// reset does. It may be called any number of times.
func (n *Node) Stop() {
	n.forget()
	n.shutdown()
}

func (n *Node) shutdown() {
	n.server.Stop()
	n.served.Wait()
}

func start(ctx context.Context, cfg Config, mode mode) (*Node, error) {
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	act, err := behaviourOf(cfg.Version)
	if err != nil {
		return nil, fmt.Errorf("starting an emulated Talos node: %w", err)
	}
	address := listenAddress(cfg.Address)
	keys, err := newPKI(mode, address)
	if err != nil {
		return nil, fmt.Errorf("making certificates for the emulated Talos node at %s: %w", address, err)
	}
	resources, err := newState(ctx, cfg, act, mode)
	if err != nil {
		return nil, fmt.Errorf("filling the resources of the emulated Talos node at %s: %w", address, err)
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for the Talos API on %s (is another node running there?): %w", address, err)
	}
	n := &Node{listener: listener, clientTLS: keys.client}
	n.server = newServer(keys.server, accessRules(act, mode))
	n.register(cfg, act, mode, server.NewState(resources))
	n.served.Go(func() { _ = n.server.Serve(listener) })
	n.forget = context.AfterFunc(ctx, n.shutdown)
	log.Debug("emulated Talos node listens", "address", listener.Addr().String(), "version", cfg.Version, "state", mode.String())
	return n, nil
}

// newServer keeps per-connection buffers small: a fleet of thousands of nodes
// lives in one process.
func newServer(config *tls.Config, rules rules) *grpc.Server {
	const buffer = 4 << 10
	return grpc.NewServer(
		grpc.Creds(credentials.NewTLS(config)),
		grpc.SharedWriteBuffer(true),
		grpc.ReadBufferSize(buffer),
		grpc.WriteBufferSize(buffer),
		grpc.UnaryInterceptor(rules.unary),
		grpc.StreamInterceptor(rules.stream),
	)
}

// register adds the services this version has. Each has its own receiver:
// MachineService and ImageService both have a List.
func (n *Node) register(cfg Config, act behaviour, mode mode, cosi cosiapi.StateServer) {
	machine.RegisterMachineServiceServer(n.server, &machineService{node: n, cfg: cfg, act: act, mode: mode})
	storage.RegisterStorageServiceServer(n.server, storageService{})
	cosiapi.RegisterStateServer(n.server, cosi)
	if act.apid || mode == configured {
		machine.RegisterImageServiceServer(n.server, machine.UnimplementedImageServiceServer{})
		machine.RegisterDebugServiceServer(n.server, machine.UnimplementedDebugServiceServer{})
	}
	if act.apid {
		machine.RegisterLifecycleServiceServer(n.server, machine.UnimplementedLifecycleServiceServer{})
	}
}

func listenAddress(address string) string {
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address
	}
	return net.JoinHostPort(address, strconv.Itoa(constants.ApidPort))
}
