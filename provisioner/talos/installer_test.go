package talos_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	configpb "github.com/siderolabs/talos/pkg/machinery/api/resource/config"
	machinetype "github.com/siderolabs/talos/pkg/machinery/config/machine"
	configres "github.com/siderolabs/talos/pkg/machinery/resources/config"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/talos-provision/provision/provisioner/talos"
)

const installer = "factory.talos.dev/metal-installer/376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba:v1.14.1"

// upgradable is a member that can be upgraded by both calls.
type upgradable struct {
	member
	// refusal is the answer to the legacy call.
	refusal error
	// image is the answer of the legacy check of an image.
	image error
	// request is the last legacy order.
	request *machine.UpgradeRequest
}

func (u *upgradable) Upgrade(_ context.Context, r *machine.UpgradeRequest) (*machine.UpgradeResponse, error) {
	_ = u.called("legacy " + r.GetImage())
	u.mu.Lock()
	defer u.mu.Unlock()
	u.request = proto.Clone(r).(*machine.UpgradeRequest)
	if u.refusal != nil {
		return nil, u.refusal
	}
	return &machine.UpgradeResponse{Messages: []*machine.Upgrade{{Ack: "Upgrade request received", ActorId: "actor-1"}}}, nil
}

func (u *upgradable) ImagePull(_ context.Context, r *machine.ImagePullRequest) (*machine.ImagePullResponse, error) {
	_ = u.called("check " + r.GetNamespace().String() + " " + r.GetReference())
	if u.image != nil {
		return nil, u.image
	}
	return &machine.ImagePullResponse{Messages: []*machine.ImagePull{{}}}, nil
}

func (u *upgradable) Rollback(context.Context, *machine.RollbackRequest) (*machine.RollbackResponse, error) {
	return &machine.RollbackResponse{Messages: []*machine.Rollback{{}}}, u.called("rollback")
}

// registry is the image service; it pins the image to a digest.
type registry struct {
	machine.UnimplementedImageServiceServer
	node *upgradable
	err  error
	said []*machine.ImageServicePullResponse
	// nameless: the stream ends without the name.
	nameless bool
	// hang is called before the stream would end.
	hang func(context.Context)
}

const pinned = "@sha256:0123"

func (g *registry) Pull(r *machine.ImageServicePullRequest, stream grpc.ServerStreamingServer[machine.ImageServicePullResponse]) error {
	_ = g.node.called(fmt.Sprintf("pull %s/%s %s", r.GetContainerd().GetDriver(), r.GetContainerd().GetNamespace(), r.GetImageRef()))
	for _, said := range g.said {
		if err := stream.Send(said); err != nil {
			return err
		}
	}
	if g.hang != nil {
		g.hang(stream.Context())
	}
	if g.err != nil || g.nameless {
		return g.err
	}
	return stream.Send(&machine.ImageServicePullResponse{Response: &machine.ImageServicePullResponse_Name{Name: r.GetImageRef() + pinned}})
}

// lifecycle is the service of 1.13; say are the pieces of what the installer writes.
type lifecycle struct {
	machine.UnimplementedLifecycleServiceServer
	node *upgradable
	say  []string
	// code is told when it is set; err ends the stream.
	code *int32
	err  error
	// hang is called before the stream would end.
	hang func(context.Context)
}

func (l *lifecycle) Upgrade(r *machine.LifecycleServiceUpgradeRequest, stream grpc.ServerStreamingServer[machine.LifecycleServiceUpgradeResponse]) error {
	_ = l.node.called("install " + r.GetSource().GetImageName())
	send := func(p *machine.LifecycleServiceInstallProgress) error {
		return stream.Send(&machine.LifecycleServiceUpgradeResponse{Progress: p})
	}
	for _, piece := range l.say {
		if err := send(&machine.LifecycleServiceInstallProgress{Response: &machine.LifecycleServiceInstallProgress_Message{Message: piece}}); err != nil {
			return err
		}
	}
	if l.hang != nil {
		l.hang(stream.Context())
	}
	if l.code != nil {
		return send(&machine.LifecycleServiceInstallProgress{Response: &machine.LifecycleServiceInstallProgress_ExitCode{ExitCode: *l.code}})
	}
	return l.err
}

// node is a fake that can be upgraded.
type node struct {
	*fake
	machine   *upgradable
	registry  *registry
	lifecycle *lifecycle
}

// newNode is a node of a version, installed as the config says.
func newNode(t *testing.T, version, config string) node {
	t.Helper()
	u := &upgradable{member: member{version: version, etcd: "Running"}}
	n := node{machine: u, registry: &registry{node: u}, lifecycle: &lifecycle{node: u, code: new(int32)}}
	n.fake = &fake{ca: newCA(t), machine: u, resources: append(clusterMachine(machinetype.TypeControlPlane), newRawConfig(config))}
	if can, err := talos.CapabilitiesOf(version); err != nil || can.Lifecycle {
		n.images, n.fake.lifecycle = n.registry, n.lifecycle
	}
	return n
}

func (n node) admin(t *testing.T) talos.Admin {
	t.Helper()
	return adminOf(t, n.ca, n.start(t))
}

// bootedBy is the resource of what systemd-boot booted.
func bootedBy(entry string) resource.Resource {
	r := runtime.NewBootedEntrySpec()
	r.TypedSpec().BootedEntry = entry
	return r
}

// rawConfig is a machine config in any words, also such as this client does not know.
type rawConfig struct {
	md   resource.Metadata
	spec rawSpec
}

type rawSpec string

func newRawConfig(text string) *rawConfig {
	return &rawConfig{md: resource.NewMetadata(configres.NamespaceName, configres.MachineConfigType, configres.ActiveID, resource.VersionUndefined), spec: rawSpec(text)}
}

func (r *rawConfig) Metadata() *resource.Metadata { return &r.md }
func (r *rawConfig) Spec() any                    { return r.spec }
func (r *rawConfig) DeepCopy() resource.Resource  { return &rawConfig{md: r.md.Copy(), spec: r.spec} }
func (r *rawConfig) ResourceDefinition() meta.ResourceDefinitionSpec {
	return (&configres.MachineConfig{}).ResourceDefinition()
}

func (s rawSpec) MarshalProto() ([]byte, error) {
	return proto.Marshal(&configpb.MachineConfigSpec{YamlMarshalled: []byte(s)})
}
func (s rawSpec) MarshalYAML() (any, error) { return string(s), nil }

// freezer forwards connections to a port until it is frozen: then they are half
// open, as those that a kexec left behind.
type freezer struct {
	once   sync.Once
	frozen chan struct{}
}

func (f *freezer) freeze() { f.once.Do(func() { close(f.frozen) }) }

// newFreezer returns the port to connect to instead.
func newFreezer(t *testing.T, port int) (*freezer, int) {
	t.Helper()
	f := &freezer{frozen: make(chan struct{})}
	l := listen(t)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			behind, err := new(net.Dialer).DialContext(context.WithoutCancel(t.Context()), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				_ = conn.Close()
				return
			}
			t.Cleanup(func() { _ = behind.Close() })
			go f.forward(conn, behind)
			go f.forward(behind, conn)
		}
	}()
	return f, portOf(l.Addr())
}

func (f *freezer) forward(to io.Writer, from io.Reader) {
	piece := make([]byte, 32<<10)
	for {
		n, err := from.Read(piece)
		select {
		case <-f.frozen:
			return // and no connection is closed
		default:
		}
		if n > 0 {
			if _, err := to.Write(piece[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func unknown(text string) error { return status.Error(codes.Unknown, text) }
