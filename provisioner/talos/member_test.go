package talos_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"sync"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/siderolabs/talos/pkg/machinery/api/common"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	machinetype "github.com/siderolabs/talos/pkg/machinery/config/machine"
	"github.com/siderolabs/talos/pkg/machinery/extensions"
	"github.com/siderolabs/talos/pkg/machinery/resources/block"
	configres "github.com/siderolabs/talos/pkg/machinery/resources/config"
	"github.com/siderolabs/talos/pkg/machinery/resources/k8s"
	"github.com/siderolabs/talos/pkg/machinery/resources/network"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
	"google.golang.org/protobuf/types/known/emptypb"
)

// member answers an administrator as a node of a cluster.
type member struct {
	machine.UnimplementedMachineServiceServer
	version string
	// etcd is the state of the etcd service; empty has none.
	etcd string
	// err, if set, is the answer to every call that changes the node.
	err error

	mu    sync.Mutex
	calls []string
}

func (m *member) called(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, name)
	return m.err
}

func (m *member) seen() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string{}, m.calls...)
}

func (m *member) Version(context.Context, *emptypb.Empty) (*machine.VersionResponse, error) {
	return &machine.VersionResponse{Messages: []*machine.Version{{Version: &machine.VersionInfo{Tag: m.version}}}}, nil
}

func (m *member) ServiceList(context.Context, *emptypb.Empty) (*machine.ServiceListResponse, error) {
	list := []*machine.ServiceInfo{{
		Id: "kubelet", State: "Running", Health: &machine.ServiceHealth{Healthy: true},
		Events: &machine.ServiceEvents{Events: []*machine.ServiceEvent{{Msg: "Started"}, {Msg: "Health check successful"}}},
	}}
	if m.etcd != "" {
		list = append(list, &machine.ServiceInfo{
			Id: "etcd", State: m.etcd, Health: &machine.ServiceHealth{Unknown: true},
			Events: &machine.ServiceEvents{Events: []*machine.ServiceEvent{{Msg: "Running pre state"}}},
		})
	}
	return &machine.ServiceListResponse{Messages: []*machine.ServiceList{{Services: list}}}, nil
}

func (m *member) Read(_ *machine.ReadRequest, stream machine.MachineService_ReadServer) error {
	return stream.Send(&common.Data{Bytes: []byte("0b1c-boot\n")})
}

func (m *member) EtcdMemberList(context.Context, *machine.EtcdMemberListRequest) (*machine.EtcdMemberListResponse, error) {
	return &machine.EtcdMemberListResponse{Messages: []*machine.EtcdMembers{{Members: []*machine.EtcdMember{
		{Id: 7, Hostname: "node-01", PeerUrls: []string{"https://10.0.0.1:2380"}, ClientUrls: []string{"https://10.0.0.1:2379"}},
		{Id: 8, Hostname: "node-02", IsLearner: true},
	}}}}, nil
}

func (m *member) EtcdStatus(context.Context, *emptypb.Empty) (*machine.EtcdStatusResponse, error) {
	return &machine.EtcdStatusResponse{Messages: []*machine.EtcdStatus{{MemberStatus: &machine.EtcdMemberStatus{
		MemberId: 7, Leader: 8, DbSize: 2000, DbSizeInUse: 1000, RaftIndex: 30, RaftTerm: 2, RaftAppliedIndex: 29, Errors: []string{"x"},
	}}}}, nil
}

func (m *member) EtcdAlarmList(context.Context, *emptypb.Empty) (*machine.EtcdAlarmListResponse, error) {
	return &machine.EtcdAlarmListResponse{Messages: []*machine.EtcdAlarm{{MemberAlarms: []*machine.EtcdMemberAlarm{
		{MemberId: 7, Alarm: machine.EtcdMemberAlarm_NOSPACE}, {MemberId: 8},
	}}}}, nil
}

func (m *member) EtcdForfeitLeadership(context.Context, *machine.EtcdForfeitLeadershipRequest) (*machine.EtcdForfeitLeadershipResponse, error) {
	return &machine.EtcdForfeitLeadershipResponse{Messages: []*machine.EtcdForfeitLeadership{{Member: "node-02"}}}, m.called("forfeit")
}

func (m *member) Bootstrap(context.Context, *machine.BootstrapRequest) (*machine.BootstrapResponse, error) {
	return &machine.BootstrapResponse{Messages: []*machine.Bootstrap{{}}}, m.called("bootstrap")
}

func (m *member) Reboot(_ context.Context, r *machine.RebootRequest) (*machine.RebootResponse, error) {
	return &machine.RebootResponse{Messages: []*machine.Reboot{{}}}, m.called("reboot " + r.GetMode().String())
}

func (m *member) Kubeconfig(_ *emptypb.Empty, stream machine.MachineService_KubeconfigServer) error {
	if m.err != nil {
		return m.err
	}
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	const content = "apiVersion: v1\nkind: Config\n"
	_ = archive.WriteHeader(&tar.Header{Name: "kubeconfig", Typeflag: tar.TypeReg, Size: int64(len(content)), Mode: 0o600})
	_, _ = archive.Write([]byte(content))
	_ = archive.Close()
	_ = zipped.Close()
	return stream.Send(&common.Data{Bytes: packed.Bytes()})
}

// clusterMachine are the resources of a node that runs, all that Inspect reads.
func clusterMachine(role machinetype.Type) []resource.Resource {
	list := machineIn(runtime.MachineStageRunning, "S-1")
	status := list[0].(*runtime.MachineStatus)
	status.TypedSpec().Status = runtime.MachineStatusStatus{UnmetConditions: []runtime.UnmetCondition{{Name: "nodeReady", Reason: "node is not ready"}}}
	hostname := network.NewHostnameStatus(network.NamespaceName, network.HostnameID)
	hostname.TypedSpec().Hostname = "node-01"
	schematic := runtime.NewExtensionStatus(runtime.NamespaceName, "1")
	schematic.TypedSpec().Metadata = extensions.Metadata{Name: "schematic", Version: "376567"}
	other := runtime.NewExtensionStatus(runtime.NamespaceName, "0")
	other.TypedSpec().Metadata = extensions.Metadata{Name: "gvisor", Version: "2025"}
	disk := block.NewSystemDisk(block.NamespaceName, block.SystemDiskID)
	disk.TypedSpec().DiskID, disk.TypedSpec().DevPath = "sda", "/dev/sda"
	kind := configres.NewMachineType()
	kind.SetMachineType(role)
	nodename := k8s.NewNodename(k8s.NamespaceName, k8s.NodenameID)
	nodename.TypedSpec().Nodename = "node-01"
	node := k8s.NewNodeStatus(k8s.NamespaceName, "node-01")
	node.TypedSpec().NodeReady = true
	cmd := runtime.NewKernelCmdline()
	cmd.TypedSpec().Cmdline = cmdline
	return append(list, hostname, other, schematic, disk, kind, nodename, node, cmd)
}
