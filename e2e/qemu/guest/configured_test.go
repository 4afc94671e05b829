package main

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConfiguredNetworkComesBeforeTheCommandLine(t *testing.T) {
	t.Parallel()
	args := cmdline{"ip=10.98.0.11::10.98.0.1:255.255.255.0:node-01:eth0"}
	address, gateway := netip.MustParsePrefix("10.98.0.12/24"), netip.MustParseAddr("10.98.0.1")
	fromArgs := networkConfig{Hostname: "node-01", Links: []linkConfig{{Link: "eth0", Address: netip.MustParsePrefix("10.98.0.11/24"), Gateway: gateway}}}
	for name, tt := range map[string]struct {
		config string
		want   networkConfig
	}{
		"no config": {"", fromArgs},
		"a config without addresses": {
			"version: v1alpha1\nmachine:\n  type: worker\n", fromArgs,
		},
		"an address": {
			"version: v1alpha1\nmachine:\n  network:\n    hostname: node-02\n    interfaces:\n    - interface: eth0\n      addresses: [10.98.0.12/24]\n      routes: [{network: 0.0.0.0/0, gateway: 10.98.0.1}]\n",
			networkConfig{Hostname: "node-02", Links: []linkConfig{{Link: "eth0", Address: address, Gateway: gateway}}},
		},
		"a VLAN, and a document with the hostname": {
			"version: v1alpha1\nmachine:\n  network:\n    interfaces:\n    - interface: eth0\n      vlans:\n      - vlanId: 1234\n        addresses: [10.98.0.12/24]\n" +
				"---\napiVersion: v1alpha1\nkind: HostnameConfig\nauto: \"off\"\nhostname: node-02\n",
			networkConfig{
				Hostname: "node-02", Links: []linkConfig{{Link: "eth0.1234", Address: address}},
				VLAN: &vlanConfig{Name: "eth0.1234", Parent: "eth0", ID: 1234},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := chooseNetwork(args, []byte(tt.config), t.Logf)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
				t.Errorf("network (-want +got):\n%s", diff)
			}
		})
	}
}
