package main

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/pxe/dhcp"
)

func TestNetworkAndDHCPSettingsThatContradict(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"proxy without a place": {"dhcp: {mode: proxy}\n", "give interface or address"},
		"proxy with subnets":    {"network: {interface: eth1}\ndhcp:\n  mode: proxy\n  subnets:\n  - {cidr: 10.0.0.0/24, range: 10.0.0.9-10.0.0.10}\n", "another server gives the addresses"},
		"both forms":            {"network: {interface: eth1, interfaces: [eth2]}\n", "interface or interfaces, not both"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := t.TempDir() + "/provision.yaml"
			writeFile(t, file, tc.text)
			if r := provision(t, "inventory", "validate", "--config", file); r.status != exitUsage || !strings.Contains(r.err, tc.want) {
				t.Errorf("status %d, error output %q lacks %q", r.status, r.err, tc.want)
			}
		})
	}
}

func read(t *testing.T, text string) config {
	t.Helper()
	file := t.TempDir() + "/provision.yaml"
	writeFile(t, file, text)
	c := defaultConfig()
	if err := c.readFile(file); err != nil {
		t.Fatal(err)
	}
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	return c
}

// Every DHCP setting of provision.yaml reaches the server, which accepts it.
func TestDHCPSettingsReachTheServer(t *testing.T) {
	t.Parallel()
	server := read(t, `
network: {interfaces: [eth1, eth2]}
dhcp:
  assertive: true
  authoritative: true
  unicast: true
  replyDelay: {"00:25:90": 2s}
  subnets:
  - {cidr: 10.0.0.0/24, range: 10.0.0.9-10.0.0.10}
`)
	proxy := read(t, "network: {address: 10.0.0.1}\ndhcp: {mode: proxy, bootListen: '0.0.0.0:4012'}\n")
	for name, tc := range map[string]struct {
		config config
		want   dhcp.Options
	}{
		"server": {server, dhcp.Options{
			Listen: "0.0.0.0:67", RelayPort: 67, Interfaces: []string{"eth1", "eth2"}, Assertive: true, Authoritative: true, Unicast: true,
			ReplyDelay: map[string]time.Duration{"00:25:90": 2 * time.Second}, LeaseFile: "/var/lib/provision/leases",
			Reservations: map[string]netip.Addr{},
			Subnets: []dhcp.Subnet{{
				CIDR: netip.MustParsePrefix("10.0.0.0/24"), First: netip.MustParseAddr("10.0.0.9"), Last: netip.MustParseAddr("10.0.0.10"),
			}},
		}},
		"proxy": {proxy, dhcp.Options{
			Mode: dhcp.ModeProxy, Listen: "0.0.0.0:67", BootListen: "0.0.0.0:4012", RelayPort: 67,
			ServerAddress: netip.MustParseAddr("10.0.0.1"), LeaseFile: "/var/lib/provision/leases",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &session{config: tc.config, tree: &inventory.Tree{}, log: slog.New(slog.DiscardHandler)}
			got, err := s.dhcpOptions(&provisioner.Controller{}, s.tree.Nodes)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := dhcp.New(*got); err != nil {
				t.Errorf("the server refuses them: %v", err)
			}
			got.OnLease, got.OnProblem, got.OnPacket, got.HTTPPath = nil, nil, nil, nil
			if diff := cmp.Diff(tc.want, *got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

// A node boots at the address that it will have, unless two nodes claim it.
func TestReservationsComeFromTheInventory(t *testing.T) {
	t.Parallel()
	tree := &inventory.Tree{Nodes: []inventory.Node{
		{Name: "a", IP: "10.0.0.5", MACs: []string{"52:54:00:00:00:01", "52:54:00:00:00:02"}},
		{Name: "no MAC", IP: "10.0.0.6"},
		{Name: "elsewhere", IP: "10.9.0.5", MACs: []string{"52:54:00:00:00:03"}},
		{Name: "twin 1", IP: "10.0.0.7", MACs: []string{"52:54:00:00:00:04"}},
		{Name: "twin 2", IP: "10.0.0.7", MACs: []string{"52:54:00:00:00:05"}},
		{Name: "no IP", MACs: []string{"52:54:00:00:00:06"}},
		{Name: "b", IP: "10.0.0.8", MACs: []string{"52-54-00-00-00-07"}},
	}}
	s := &session{tree: tree, log: slog.New(slog.DiscardHandler)}
	got := s.reservations([]dhcp.Subnet{{CIDR: netip.MustParsePrefix("10.0.0.0/24")}}, s.tree.Nodes)
	want := map[string]netip.Addr{"52:54:00:00:00:01": netip.MustParseAddr("10.0.0.5"), "52:54:00:00:00:07": netip.MustParseAddr("10.0.0.8")}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("reservations (-want +got):\n%s", diff)
	}
}
