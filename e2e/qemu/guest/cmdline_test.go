package main

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseNetworkReadsTheCommandLineAsTalosDoes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, cmdline string
		want          networkConfig
		wantErr       string
	}{
		{name: "nothing", cmdline: "talos.platform=metal"},
		{name: "dhcp is the default", cmdline: "ip=dhcp"},
		{
			name:    "the reference inventory's form with a VLAN",
			cmdline: "ip=10.0.42.11::10.0.42.1:255.255.255.0:node-01:enp193s0f0.1234::1.1.1.1:8.8.8.8:10.0.42.2 vlan=enp193s0f0.1234:enp193s0f0 talos.platform=metal",
			want: networkConfig{
				Hostname: "node-01",
				Links:    []linkConfig{{Link: "enp193s0f0.1234", Address: netip.MustParsePrefix("10.0.42.11/24"), Gateway: netip.MustParseAddr("10.0.42.1")}},
				VLAN:     &vlanConfig{Name: "enp193s0f0.1234", Parent: "enp193s0f0", ID: 1234},
			},
		},
		{
			name:    "static without a VLAN, autoconf off",
			cmdline: "ip=10.105.155.21::10.105.155.30:255.255.255.240:pve1:eth0:off",
			want: networkConfig{
				Hostname: "pve1",
				Links:    []linkConfig{{Link: "eth0", Address: netip.MustParsePrefix("10.105.155.21/28"), Gateway: netip.MustParseAddr("10.105.155.30")}},
			},
		},
		{
			name:    "no interface, no mask",
			cmdline: "ip=172.20.0.2::172.20.0.1",
			want:    networkConfig{Links: []linkConfig{{Address: netip.MustParsePrefix("172.20.0.2/32"), Gateway: netip.MustParseAddr("172.20.0.1")}}},
		},
		{
			name:    "mask in bits, IPv6",
			cmdline: "ip=[2a03:1:2::12]::[2a03:1:2::11]:125:master:eth0:off:[2001:4860:4860::8888]",
			want: networkConfig{
				Hostname: "master",
				Links:    []linkConfig{{Link: "eth0", Address: netip.MustParsePrefix("2a03:1:2::12/125"), Gateway: netip.MustParseAddr("2a03:1:2::11")}},
			},
		},
		{
			name:    "several",
			cmdline: "ip=172.20.0.2::172.20.0.1:255.255.255.0::eth1::::: ip=eth3:dhcp ip=:::::eth4:dhcp::::",
			want: networkConfig{Links: []linkConfig{
				{Link: "eth1", Address: netip.MustParsePrefix("172.20.0.2/24"), Gateway: netip.MustParseAddr("172.20.0.1")},
				{Link: "eth3", DHCP: true},
				{Link: "eth4", DHCP: true},
			}},
		},
		{
			name:    "talos.hostname wins",
			cmdline: "ip=::::master1:eth1 talos.hostname=master2",
			want:    networkConfig{Hostname: "master2", Links: []linkConfig{{Link: "eth1"}}},
		},
		{
			name:    "VLAN by another name",
			cmdline: "vlan=vlan0008:eth1",
			want:    networkConfig{VLAN: &vlanConfig{Name: "eth1.8", Parent: "eth1", ID: 8}},
		},
		{
			name:    "VLAN on a long name is shortened",
			cmdline: "vlan=enp193s0f0np0.1234:enp193s0f0np0",
			want:    networkConfig{VLAN: &vlanConfig{Name: vlanName("enp193s0f0np0", 1234), Parent: "enp193s0f0np0", ID: 1234}},
		},
		{name: "an NTP server by name voids everything", cmdline: "ip=10.0.0.2::10.0.0.1:24:n:eth0::1.1.1.1:8.8.8.8:fr.pool.ntp.org", wantErr: "field 10"},
		{name: "no address", cmdline: "ip=none", wantErr: "field 1"},
		{name: "VLAN 0", cmdline: "vlan=eth1.0:eth1", wantErr: "1 to 4095"},
		{name: "VLAN 4096", cmdline: "vlan=eth1.4096:eth1", wantErr: "1 to 4095"},
		{name: "VLAN without parent", cmdline: "vlan=eth1.5", wantErr: "want the form"},
		{name: "VLAN with an empty parent", cmdline: "vlan=eth1.5:", wantErr: "no parent"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseNetwork(strings.Fields(tt.cmdline))
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("error = %v, want one with %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseNetwork(f *testing.F) {
	for _, seed := range []string{
		"ip=10.0.42.11::10.0.42.1:255.255.255.0:node-01:eth0.1234::1.1.1.1:8.8.8.8:10.0.42.2 vlan=eth0.1234:eth0",
		"ip=[::1]:[:]]:", "vlan=a.1:b", "vlan=vlan1:abc", "ip=:::-1", "ip=1.1.1.1:::999",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		config, err := parseNetwork(strings.Fields(text))
		if err == nil && config.VLAN != nil && config.VLAN.Name == "" {
			t.Errorf("%q gives a VLAN without a name", text)
		}
	})
}
