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
	"github.com/siderolabs/talos/pkg/machinery/nethelpers"
	"github.com/siderolabs/talos/pkg/machinery/resources/hardware"
	"github.com/siderolabs/talos/pkg/machinery/resources/network"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
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

// newState holds the node's COSI resources behind the rules of its mode.
func newState(ctx context.Context, cfg Config, act behaviour, mode mode) (state.CoreState, error) {
	resources, err := resourcesOf(cfg, act, mode)
	if err != nil {
		return nil, err
	}
	// A short history: nothing here changes often, and thousands of nodes share a process.
	build := inmem.NewStateWithOptions(inmem.WithHistoryMaxCapacity(16), inmem.WithHistoryInitialCapacity(4), inmem.WithHistoryGap(1))
	st := state.WrapCore(namespaced.NewState(func(ns resource.Namespace) state.CoreState { return build(ns) }))
	if err := registerTypes(ctx, st, act); err != nil {
		return nil, err
	}
	for _, r := range resources {
		if err := st.Create(ctx, r); err != nil {
			return nil, fmt.Errorf("creating %s: %w", r.Metadata(), err)
		}
	}
	if mode == configured {
		return st, nil
	}
	return state.Filter(st, readerRule(act)), nil
}

// definedTypes are the resource types this version has, as far as they are emulated.
func definedTypes(act behaviour) []meta.ResourceWithRD {
	types := []meta.ResourceWithRD{
		&runtime.MachineStatus{},
		&hardware.SystemInformation{},
		&network.LinkStatus{},
	}
	if act.versionResource {
		types = append(types, &runtime.Version{})
	}
	if act.cmdlineResource {
		types = append(types, &runtime.KernelCmdline{})
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
	for _, ns := range []resource.Namespace{runtime.NamespaceName, hardware.NamespaceName, network.NamespaceName} {
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

// readerRule is what a peer without a client certificate may do: read what is
// not sensitive. The texts are those of Talos.
func readerRule(act behaviour) state.FilteringRule {
	known := map[resource.Type]bool{meta.NamespaceType: true, meta.ResourceDefinitionType: true}
	for _, t := range definedTypes(act) {
		known[t.ResourceDefinition().Type] = true
	}
	return func(_ context.Context, access state.Access) error {
		switch {
		case !access.Verb.Readonly():
			return status.Error(codes.PermissionDenied, "write access is not allowed")
		case sensitiveTypes[access.ResourceType]:
			return status.Error(codes.PermissionDenied, "not authorized")
		case !known[access.ResourceType]:
			return status.Errorf(codes.PermissionDenied, "resource type %q is not supported", access.ResourceType)
		}
		return nil
	}
}

func resourcesOf(cfg Config, act behaviour, mode mode) ([]resource.Resource, error) {
	machineStatus := runtime.NewMachineStatus()
	machineStatus.TypedSpec().Stage = runtime.MachineStageMaintenance
	if mode == configured {
		machineStatus.TypedSpec().Stage = runtime.MachineStageRunning
	}
	machineStatus.TypedSpec().Status.Ready = true

	system := hardware.NewSystemInformation(hardware.SystemInformationID)
	*system.TypedSpec() = hardware.SystemInformationSpec{
		Manufacturer: cfg.Manufacturer,
		ProductName:  cfg.Product,
		SerialNumber: cfg.Serial,
		UUID:         cfg.UUID,
	}
	all := []resource.Resource{machineStatus, system}
	if act.versionResource {
		version := runtime.NewVersion()
		*version.TypedSpec() = runtime.VersionSpec{Name: "Talos", Version: cfg.Version}
		all = append(all, version)
	}
	if act.cmdlineResource && cfg.Cmdline != "" {
		cmdline := runtime.NewKernelCmdline()
		cmdline.TypedSpec().Cmdline = cfg.Cmdline
		all = append(all, cmdline)
	}
	links, err := linksOf(cfg.Links)
	return append(all, links...), err
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
