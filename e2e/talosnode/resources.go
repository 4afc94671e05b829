package talosnode

import (
	"context"
	"fmt"
	"net"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/impl/inmem"
	"github.com/cosi-project/runtime/pkg/state/impl/namespaced"
	"github.com/cosi-project/runtime/pkg/state/registry"
	"github.com/siderolabs/talos/pkg/machinery/cel"
	"github.com/siderolabs/talos/pkg/machinery/config/types/block/blockhelpers"
	"github.com/siderolabs/talos/pkg/machinery/extensions"
	"github.com/siderolabs/talos/pkg/machinery/nethelpers"
	"github.com/siderolabs/talos/pkg/machinery/resources/block"
	clusterres "github.com/siderolabs/talos/pkg/machinery/resources/cluster"
	"github.com/siderolabs/talos/pkg/machinery/resources/config"
	"github.com/siderolabs/talos/pkg/machinery/resources/hardware"
	"github.com/siderolabs/talos/pkg/machinery/resources/k8s"
	"github.com/siderolabs/talos/pkg/machinery/resources/network"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
	"github.com/siderolabs/talos/pkg/machinery/resources/v1alpha1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// sensitiveTypes exist on a node, but a reader is refused them.
var sensitiveTypes = map[resource.Type]bool{
	"LinkSpecs.net.talos.dev":                 true,
	"MachineConfigs.config.talos.dev":         true,
	"OSRootSecrets.secrets.talos.dev":         true,
	"EtcdRootSecrets.secrets.talos.dev":       true,
	"KubernetesRootSecrets.secrets.talos.dev": true,
}

// fill makes the node's COSI resources.
func (s *system) fill() error {
	// A short history: nothing here changes often, and thousands of nodes share a process.
	build := inmem.NewStateWithOptions(inmem.WithHistoryMaxCapacity(16), inmem.WithHistoryInitialCapacity(4), inmem.WithHistoryGap(1))
	s.resources = state.WrapCore(namespaced.NewState(func(ns resource.Namespace) state.CoreState { return build(ns) }))
	if err := registerTypes(s.life, s.resources, s.act); err != nil {
		return err
	}
	all := s.hardwareResources()
	links, err := linksOf(s.node.cfg.Links)
	if err != nil {
		return err
	}
	all = append(all, links...)
	all = append(all, s.systemResources()...)
	for _, r := range all {
		if err := s.resources.Create(s.life, r); err != nil {
			return fmt.Errorf("creating %s: %w", r.Metadata(), err)
		}
	}
	s.refreshMeta()
	s.refresh()
	return nil
}

// definedTypes are the resource types this version has, as far as they are emulated.
func definedTypes(act behaviour) []meta.ResourceWithRD {
	types := []meta.ResourceWithRD{
		&runtime.MachineStatus{}, &runtime.ExtensionStatus{}, &hardware.SystemInformation{},
		&network.LinkStatus{}, &network.HostnameStatus{}, &block.Disk{}, &block.SystemDisk{},
		&config.MachineType{}, &config.MachineConfig{}, &k8s.Nodename{}, &k8s.NodeStatus{},
		&clusterres.Member{}, &v1alpha1.Service{}, &runtime.SecurityState{}, &runtime.MetaKey{},
	}
	if act.versionResource {
		types = append(types, &runtime.Version{})
	}
	if act.cmdlineResource {
		types = append(types, &runtime.KernelCmdline{}, &runtime.BootedEntry{})
	}
	return types
}

// registerTypes publishes namespaces and resource definitions: talosctl get
// resolves its argument through them.
func registerTypes(ctx context.Context, st state.State, act behaviour) error {
	namespaces := registry.NewNamespaceRegistry(st)
	if err := namespaces.RegisterDefault(ctx); err != nil {
		return err
	}
	for _, ns := range []resource.Namespace{
		runtime.NamespaceName, hardware.NamespaceName, network.NamespaceName,
		config.NamespaceName, k8s.NamespaceName, clusterres.NamespaceName,
	} {
		if err := namespaces.Register(ctx, ns, ns); err != nil {
			return err
		}
	}
	definitions := registry.NewResourceRegistry(st)
	if err := definitions.RegisterDefault(ctx); err != nil {
		return err
	}
	for _, t := range definedTypes(act) {
		if err := definitions.Register(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// resourceRule is what callers may do with resources: who is no administrator
// reads what is not sensitive. The texts are those of Talos.
func (s *system) resourceRule() state.FilteringRule {
	known := map[resource.Type]bool{meta.NamespaceType: true, meta.ResourceDefinitionType: true}
	for _, t := range definedTypes(s.act) {
		known[t.ResourceDefinition().Type] = true
	}
	return func(ctx context.Context, access state.Access) error {
		switch {
		case !access.Verb.Readonly():
			return status.Error(codes.PermissionDenied, "write access is not allowed")
		case sensitiveTypes[access.ResourceType] && !rolesOf(ctx, s.mode).admin:
			return errNotAuthorized
		case !known[access.ResourceType] && !sensitiveTypes[access.ResourceType]:
			return status.Errorf(codes.PermissionDenied, "resource type %q is not supported", access.ResourceType)
		}
		return nil
	}
}

// hardwareResources are what the machine is.
func (s *system) hardwareResources() []resource.Resource {
	system := hardware.NewSystemInformation(hardware.SystemInformationID)
	*system.TypedSpec() = hardware.SystemInformationSpec{
		Manufacturer: s.node.cfg.Manufacturer,
		ProductName:  s.node.cfg.Product,
		SerialNumber: s.node.cfg.Serial,
		UUID:         s.node.cfg.UUID,
	}
	all := append(make([]resource.Resource, 0, 1+len(s.devices)), system)
	for _, d := range s.devices {
		all = append(all, d.resource())
	}
	return all
}

// systemResources are what was booted.
func (s *system) systemResources() []resource.Resource {
	var all []resource.Resource
	if s.act.versionResource {
		version := runtime.NewVersion()
		*version.TypedSpec() = runtime.VersionSpec{Name: "Talos", Version: s.version}
		all = append(all, version)
	}
	all = append(all, s.bootResources()...)
	if s.schematic != "" {
		extension := runtime.NewExtensionStatus(runtime.NamespaceName, "0")
		extension.TypedSpec().Metadata = extensions.Metadata{
			Name: "schematic", Version: s.schematic, Author: "Image Factory",
			Description: "Virtual extension which specifies the schematic ID of the image built with Image Factory.",
		}
		all = append(all, extension)
	}
	if disk := s.disk(); disk.Device != "" {
		r := block.NewSystemDisk(block.NamespaceName, block.SystemDiskID)
		*r.TypedSpec() = block.SystemDiskSpec{DiskID: Device{Path: disk.Device}.name(), DevPath: disk.Device}
		all = append(all, r)
	}
	return all
}

func linksOf(links []Link) ([]resource.Resource, error) {
	loopback := network.NewLinkStatus(network.NamespaceName, "lo")
	*loopback.TypedSpec() = network.LinkStatusSpec{
		Index: 1, Type: nethelpers.LinkLoopbck, MTU: 65536,
		HardwareAddr: make(nethelpers.HardwareAddr, 6), OperationalState: nethelpers.OperStateUnknown,
	}
	all := []resource.Resource{loopback}
	for i, link := range links {
		mac, err := net.ParseMAC(link.MAC)
		if err != nil {
			return nil, fmt.Errorf("link %s: %w", link.Name, err)
		}
		r := network.NewLinkStatus(network.NamespaceName, link.Name)
		*r.TypedSpec() = network.LinkStatusSpec{
			Index: uint32(i) + 2, Type: nethelpers.LinkEther, Kind: link.Kind, MTU: 1500, LinkState: true,
			HardwareAddr: nethelpers.HardwareAddr(mac), OperationalState: nethelpers.OperStateUp,
		}
		if link.Kind == "" {
			r.TypedSpec().PermanentAddr = nethelpers.HardwareAddr(mac)
		}
		all = append(all, r)
	}
	return all, nil
}

// matchDisks are the paths of the devices that a selector matches.
func (s *system) matchDisks(expression *cel.Expression) ([]string, error) {
	matched, err := blockhelpers.MatchDisks(context.Background(), s.resources, expression)
	if err != nil {
		return nil, fmt.Errorf("evaluating the disk selector: %w", err)
	}
	paths := make([]string, 0, len(matched))
	for _, disk := range matched {
		paths = append(paths, disk.TypedSpec().DevPath)
	}
	return paths, nil
}
