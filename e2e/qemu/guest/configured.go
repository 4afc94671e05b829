package main

import (
	"fmt"
	"net/netip"

	"github.com/siderolabs/talos/pkg/machinery/config/configloader"
	"github.com/siderolabs/talos/pkg/machinery/config/types/v1alpha1"
)

// configuredNetwork is what a machine config says of the network, as far as the
// generators of this project write it: static addresses, a route to a gateway
// and VLANs of interfaces that are named. Without any, ok is false, and the
// kernel command line counts.
func configuredNetwork(data []byte) (config networkConfig, ok bool, err error) {
	if len(data) == 0 {
		return networkConfig{}, false, nil
	}
	provider, err := configloader.NewFromBytes(data)
	if err != nil {
		return networkConfig{}, false, fmt.Errorf("reading the network of the machine config on the disk: %w", err)
	}
	if named := provider.NetworkHostnameConfig(); named != nil {
		config.Hostname = named.Hostname()
	}
	raw := provider.RawV1Alpha1()
	if raw == nil || raw.MachineConfig == nil || raw.MachineConfig.MachineNetwork == nil { //nolint:staticcheck // configs have it
		return networkConfig{}, false, nil
	}
	for _, device := range raw.MachineConfig.MachineNetwork.NetworkInterfaces { //nolint:staticcheck // as above
		if err := config.addLinks(device.DeviceInterface, device.DeviceAddresses, device.DeviceRoutes); err != nil {
			return networkConfig{}, false, err
		}
		for _, vlan := range device.DeviceVlans {
			name := vlanName(device.DeviceInterface, vlan.VlanID)
			config.VLAN = &vlanConfig{Name: name, Parent: device.DeviceInterface, ID: vlan.VlanID}
			if err := config.addLinks(name, vlan.VlanAddresses, vlan.VlanRoutes); err != nil {
				return networkConfig{}, false, err
			}
		}
	}
	return config, len(config.Links) > 0, nil
}

// addLinks gives a link its addresses; the gateway goes with the first.
func (c *networkConfig) addLinks(name string, addresses []string, routes []*v1alpha1.Route) error {
	for i, text := range addresses {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("address of %s in the machine config: %w", name, err)
		}
		link := linkConfig{Link: name, Address: prefix}
		if i == 0 && len(routes) > 0 {
			if link.Gateway, err = netip.ParseAddr(routes[0].RouteGateway); err != nil {
				return fmt.Errorf("gateway of %s in the machine config: %w", name, err)
			}
		}
		c.Links = append(c.Links, link)
	}
	return nil
}
