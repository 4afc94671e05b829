package fleet

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/compatibility"
	"github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/config/container"
	"github.com/siderolabs/talos/pkg/machinery/config/generate"
	"github.com/siderolabs/talos/pkg/machinery/config/generate/secrets"
	machinetype "github.com/siderolabs/talos/pkg/machinery/config/machine"
	"github.com/siderolabs/talos/pkg/machinery/config/types/network"
	"github.com/siderolabs/talos/pkg/machinery/config/types/v1alpha1"
	"github.com/siderolabs/talos/pkg/machinery/constants"
)

// Roles of machines, as the inventory's label role has them.
const (
	RoleControlPlane = "controlplane"
	RoleWorker       = "worker"
)

// Cluster is one cluster of a fleet.
type Cluster struct {
	// Name is the folder of the inventory, and the cluster's name in the machine configs.
	Name string
	// ControlPlanes and Workers are how many machines of each role it has.
	ControlPlanes, Workers int
}

// place is the cluster and role of the i-th machine.
func (c Config) place(i int) (cluster, role string) {
	for _, one := range c.Clusters {
		switch {
		case i < one.ControlPlanes:
			return one.Name, RoleControlPlane
		case i < one.ControlPlanes+one.Workers:
			return one.Name, RoleWorker
		}
		i -= one.ControlPlanes + one.Workers
	}
	return c.Cluster, ""
}

// clusterNames are the folders that have machines.
func (f *Fleet) clusterNames() []string {
	var names []string
	for _, m := range f.machines {
		if !slices.Contains(names, m.Cluster) {
			names = append(names, m.Cluster)
		}
	}
	return names
}

// writeMachineConfigs writes configs/<cluster>/: a config for every machine that has a role, and talosconfig.
func (f *Fleet) writeMachineConfigs() error {
	for _, cluster := range f.clusterNames() {
		input, err := f.configInput(cluster)
		if err != nil {
			return fmt.Errorf("make machine configs for the emulated cluster %s: %w", cluster, err)
		}
		for _, m := range f.machines {
			if m.Cluster != cluster || m.Role == "" {
				continue
			}
			text, err := m.machineConfig(input)
			if err != nil {
				return fmt.Errorf("make the machine config of the emulated node %s: %w", m.Name, err)
			}
			if err := f.writeFile("configs/"+cluster+"/"+m.Name+".yaml", text, 0o600); err != nil {
				return err
			}
		}
		if err := f.writeTalosconfig(cluster, input); err != nil {
			return err
		}
	}
	return nil
}

// configInput is what the configs of a cluster have in common: its secrets, the
// endpoint on its first control plane, and versions that fit each other.
func (f *Fleet) configInput(cluster string) (*generate.Input, error) {
	version := f.config.TalosVersion
	contract, err := config.ParseContractFromVersion(version)
	if err != nil {
		return nil, err
	}
	bundle, err := secrets.NewBundle(secrets.NewClock(), contract)
	if err != nil {
		return nil, err
	}
	kubernetes, err := kubernetesFor(version)
	if err != nil {
		return nil, err
	}
	var endpoints []string
	for _, m := range f.machines {
		if m.Cluster == cluster && m.Role == RoleControlPlane {
			endpoints = append(endpoints, m.IP.String())
		}
	}
	if len(endpoints) == 0 {
		return nil, fmt.Errorf("it has no control plane: give it one")
	}
	endpoint := endpoints[0]
	if f.config.Kubernetes {
		endpoint = f.kubernetesAddress(cluster).String()
	}
	return generate.NewInput(cluster, fmt.Sprintf("https://%s:%d", endpoint, kubernetesPort), kubernetes,
		generate.WithSecretsBundle(bundle), generate.WithVersionContract(contract), generate.WithEndpointList(endpoints),
		generate.WithInstallDisk("/dev/vda"),
		generate.WithInstallImage("factory.talos.dev/metal-installer/"+VanillaSchematic+":"+version))
}

// kubernetesFor is a version of Kubernetes that the version of Talos runs: our library's default, or an older one.
func kubernetesFor(version string) (string, error) {
	talos, err := compatibility.ParseTalosVersion(&machine.VersionInfo{Tag: version})
	if err != nil {
		return "", err
	}
	for _, candidate := range []string{constants.DefaultKubernetesVersion, "1.35.0", "1.34.0", "1.33.0", "1.32.0", "1.31.0", "1.30.0"} {
		kubernetes, err := compatibility.ParseKubernetesVersion(candidate)
		if err == nil && kubernetes.SupportedWith(talos) == nil {
			return candidate, nil
		}
	}
	return constants.DefaultKubernetesVersion, nil
}

// machineConfig is the config of one machine: its role's, with its name.
func (m *Machine) machineConfig(input *generate.Input) (string, error) {
	kind := machinetype.TypeWorker
	if m.Role == RoleControlPlane {
		kind = machinetype.TypeControlPlane
	}
	provider, err := input.Config(kind)
	if err != nil {
		return "", err
	}
	if provider, err = named(provider, m.Name); err != nil {
		return "", err
	}
	if provider, err = provider.PatchV1Alpha1(m.configureAddress); err != nil {
		return "", err
	}
	text, err := provider.Bytes()
	return string(text), err
}

// configureAddress gives a config the machine's address: what the kernel arguments
// said when it was booted from the network is not there when it boots its disk.
func (m *Machine) configureAddress(c *v1alpha1.Config) error {
	if c.MachineConfig.MachineNetwork == nil { //nolint:staticcheck // every version takes it
		c.MachineConfig.MachineNetwork = &v1alpha1.NetworkConfig{} //nolint:staticcheck // as above
	}
	c.MachineConfig.MachineNetwork.NetworkInterfaces = v1alpha1.NetworkDeviceList{{ //nolint:staticcheck // as above
		DeviceInterface: "eth0",
		DeviceAddresses: []string{netip.PrefixFrom(m.IP, m.fleet.config.Network.Bits()).String()},
		DeviceRoutes:    []*v1alpha1.Route{{RouteNetwork: "0.0.0.0/0", RouteGateway: m.fleet.address(relayOffset).String()}},
	}}
	return nil
}

// named gives a config a host name, in the document that from 1.12 on is there
// for it, or as before.
func named(provider config.Provider, name string) (config.Provider, error) {
	documents := provider.Documents()
	for i, d := range documents {
		if d.Kind() != network.HostnameKind {
			continue
		}
		hostname := network.NewHostnameConfigV1Alpha1()
		hostname.ConfigHostname = name
		documents[i] = hostname
		return container.New(documents...)
	}
	return provider.PatchV1Alpha1(func(c *v1alpha1.Config) error {
		c.MachineConfig.MachineNetwork = &v1alpha1.NetworkConfig{NetworkHostname: name} //nolint:staticcheck // that of old versions
		return nil
	})
}

func (f *Fleet) writeTalosconfig(cluster string, input *generate.Input) error {
	talosconfig, err := input.Talosconfig()
	if err != nil {
		return fmt.Errorf("make the talosconfig of the emulated cluster %s: %w", cluster, err)
	}
	text, err := talosconfig.Bytes()
	if err != nil {
		return fmt.Errorf("make the talosconfig of the emulated cluster %s: %w", cluster, err)
	}
	return f.writeFile("configs/"+cluster+"/talosconfig", string(text), 0o600)
}
