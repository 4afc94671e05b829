package talos_test

import (
	"context"
	"crypto/tls"
	stdx509 "crypto/x509"
	"encoding/pem"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	cosiapi "github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/impl/inmem"
	"github.com/cosi-project/runtime/pkg/state/impl/namespaced"
	"github.com/cosi-project/runtime/pkg/state/protobuf/server"
	"github.com/siderolabs/crypto/x509"
	clusterapi "github.com/siderolabs/talos/pkg/machinery/api/cluster"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/api/storage"
	clientconfig "github.com/siderolabs/talos/pkg/machinery/client/config"
	"github.com/siderolabs/talos/pkg/machinery/constants"
	"github.com/siderolabs/talos/pkg/machinery/resources/hardware"
	"github.com/siderolabs/talos/pkg/machinery/resources/network"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/talos-provision/provision/provisioner/talos"
)

// fake is a Talos API with real TLS and gRPC that answers just what a test sets:
// faults and odd answers that an orderly node does not give.
type fake struct {
	// ca is the cluster's authority; nil makes a node in maintenance mode.
	ca *x509.CertificateAuthority
	// address to listen on; empty means any port of 127.0.0.1.
	address string
	// tls, if set, changes what the server presents and demands.
	tls       func(*tls.Config)
	machine   machine.MachineServiceServer
	storage   storage.StorageServiceServer
	cluster   clusterapi.ClusterServiceServer
	images    machine.ImageServiceServer
	lifecycle machine.LifecycleServiceServer
	resources []resource.Resource
	// denied are the types of resources that may not be read.
	denied []resource.Type

	// accepted counts the connections.
	accepted atomic.Int32
	server   *grpc.Server
}

// start serves until the test ends, and returns the port.
func (f *fake) start(t *testing.T) int {
	t.Helper()
	if f.address == "" {
		f.address = "127.0.0.1:0"
	}
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", f.address)
	if err != nil {
		t.Fatal(err)
	}
	f.server = grpc.NewServer(grpc.Creds(credentials.NewTLS(f.serverTLS(t))))
	if f.machine == nil {
		f.machine = machine.UnimplementedMachineServiceServer{}
	}
	machine.RegisterMachineServiceServer(f.server, f.machine)
	if f.storage != nil {
		storage.RegisterStorageServiceServer(f.server, f.storage)
	}
	if f.cluster != nil {
		clusterapi.RegisterClusterServiceServer(f.server, f.cluster)
	}
	if f.images != nil {
		machine.RegisterImageServiceServer(f.server, f.images)
	}
	if f.lifecycle != nil {
		machine.RegisterLifecycleServiceServer(f.server, f.lifecycle)
	}
	cosiapi.RegisterStateServer(f.server, server.NewState(f.state(t)))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.server.Serve(&counter{Listener: l, count: &f.accepted})
	}()
	t.Cleanup(func() { f.server.Stop(); <-done })
	return portOf(l.Addr())
}

func (f *fake) serverTLS(t *testing.T) *tls.Config {
	ca, name := f.ca, "node-01"
	if ca == nil {
		ca, name = newCA(t), constants.MaintenanceServiceCommonName
	}
	pair, err := x509.NewKeyPair(ca, x509.CommonName(name),
		x509.IPAddresses([]net.IP{net.IPv4(127, 0, 0, 1)}),
		x509.ExtKeyUsage([]stdx509.ExtKeyUsage{stdx509.ExtKeyUsageServerAuth}))
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{*pair.Certificate}}
	if f.ca != nil {
		config.ClientAuth = tls.RequireAndVerifyClientCert
		config.ClientCAs = stdx509.NewCertPool()
		config.ClientCAs.AddCert(f.ca.Crt)
	}
	if f.tls != nil {
		f.tls(config)
	}
	return config
}

func (f *fake) state(t *testing.T) state.CoreState {
	st := namespaced.NewState(inmem.Build)
	for _, r := range f.resources {
		if err := st.Create(context.Background(), r.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	return state.Filter(st, func(_ context.Context, access state.Access) error {
		if slices.Contains(f.denied, access.ResourceType) {
			return status.Error(codes.PermissionDenied, "not authorized")
		}
		return nil
	})
}

type counter struct {
	net.Listener
	count *atomic.Int32
}

func (c *counter) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.count.Add(1)
	}
	return conn, err
}

func newCA(t *testing.T) *x509.CertificateAuthority {
	t.Helper()
	ca, err := x509.NewSelfSignedCertificateAuthority(x509.Organization("talos"))
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// clientPair makes an administrator's certificate, valid until then.
func clientPair(t *testing.T, ca *x509.CertificateAuthority, until time.Time) *x509.PEMEncodedCertificateAndKey {
	t.Helper()
	pair, err := x509.NewKeyPair(ca, x509.Organization("os:admin"), x509.NotAfter(until),
		x509.ExtKeyUsage([]stdx509.ExtKeyUsage{stdx509.ExtKeyUsageClientAuth}))
	if err != nil {
		t.Fatal(err)
	}
	return x509.NewCertificateAndKeyFromKeyPair(pair)
}

// talosconfig is a file for the cluster of ca, with a client certificate of signer.
func talosconfig(t *testing.T, ca, signer *x509.CertificateAuthority, until time.Time) []byte {
	t.Helper()
	crt := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Crt.Raw})
	data, err := clientconfig.NewConfig("k8s-prod", []string{"127.0.0.1"}, crt, clientPair(t, signer, until)).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// adminOf is an administrator of the cluster of ca.
func adminOf(t *testing.T, ca *x509.CertificateAuthority, port int) talos.Admin {
	t.Helper()
	access, err := talos.ParseAccess(talosconfig(t, ca, ca, time.Now().Add(time.Hour)), "")
	if err != nil {
		t.Fatal(err)
	}
	return talos.Admin{Access: access, Port: port}
}

// machineIn are the resources that every node has, in the given stage.
func machineIn(stage runtime.MachineStage, serial string) []resource.Resource {
	status := runtime.NewMachineStatus()
	status.TypedSpec().Stage = stage
	status.TypedSpec().Status.Ready = true
	system := hardware.NewSystemInformation(hardware.SystemInformationID)
	system.TypedSpec().SerialNumber, system.TypedSpec().UUID = serial, uuid
	link := network.NewLinkStatus(network.NamespaceName, "eth0")
	link.TypedSpec().HardwareAddr = []byte{0x52, 0x54, 0, 0, 0, 1}
	link.TypedSpec().Type = 1 // ARPHRD_ETHER: a physical interface has no kind
	return []resource.Resource{status, system, link}
}

// system is the system information among the resources.
func system(resources []resource.Resource) *hardware.SystemInformationSpec {
	for _, r := range resources {
		if s, ok := r.(*hardware.SystemInformation); ok {
			return s.TypedSpec()
		}
	}
	return new(hardware.SystemInformationSpec)
}
