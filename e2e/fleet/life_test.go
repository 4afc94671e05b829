package fleet

import (
	"bytes"
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/client"
	"github.com/siderolabs/talos/pkg/machinery/config/configloader"
	"google.golang.org/grpc"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/talosnode"
)

func startFleet(t *testing.T, config Config) *Fleet {
	t.Helper()
	config.Dir = t.TempDir()
	f, err := Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// eventually gives a loaded machine its time.
func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	deadline, poll := time.After(2*time.Minute), time.NewTicker(10*time.Millisecond)
	defer poll.Stop()
	for !yes() {
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("%s: not within two minutes", what)
		}
	}
}

func sources(m *Machine) (all []string) {
	for _, b := range m.Boots() {
		all = append(all, b.Source)
	}
	return all
}

// installed writes a disk as an installation of the machine's own config leaves it.
func (f *Fleet) installed(t *testing.T, m *Machine) talosnode.DiskState {
	t.Helper()
	config, err := os.ReadFile(filepath.Join(f.config.Dir, "configs", m.Cluster, m.Name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return talosnode.DiskState{Device: "/dev/vda", Version: "v1.13.9", MachineConfig: config}
}

func TestInstalledMachinesOfTwoClustersComeUpFromTheirDisks(t *testing.T) {
	t.Parallel()
	f := startFleet(t, Config{
		Clusters:       []Cluster{{Name: "k8s-prod", ControlPlanes: 1, Workers: 1}, {Name: "k8s-test", ControlPlanes: 1}},
		MachineConfigs: true, PerChassis: 3, Network: prefix("127.41.0.0/16"),
	})
	for _, m := range f.Machines() {
		if err := m.Disk.Update(func(s *talosnode.DiskState) { *s = f.installed(t, m) }); err != nil {
			t.Fatal(err)
		}
		if err := m.PowerOn(t.Context(), redfishtest.Boot{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, first := range []int{0, 2} {
		m := f.Machines()[first]
		c := f.admin(t, m)
		eventually(t, m.Name+" is bootstrapped", func() bool {
			return c.Bootstrap(t.Context(), &machine.BootstrapRequest{}) == nil
		})
	}
	eventually(t, "every node is ready", func() bool {
		ready := 0
		for _, c := range f.Clusters() {
			for _, n := range c.Nodes {
				if n.Ready {
					ready++
				}
			}
		}
		return ready == 3
	})
	want := []talosnode.NodeReport{
		{Name: "node-01", Address: "127.41.1.0", Version: "v1.13.9", ControlPlane: true, Up: true, Registered: true, Ready: true, InKubernetes: true},
		{Name: "node-02", Address: "127.41.1.1", Version: "v1.13.9", Up: true, Registered: true, Ready: true, InKubernetes: true},
	}
	if diff := cmp.Diff(want, f.Clusters()[0].Nodes); diff != "" {
		t.Errorf("k8s-prod (-want +got):\n%s", diff)
	}
	one := f.Machines()[0]
	if err := f.admin(t, one).Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "node-01 boots its disk again", func() bool { return len(one.Boots()) == 2 })
	if diff := cmp.Diff([]string{"disk", "disk"}, sources(one)); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
	if n := one.BMC().PowerOns(); n != 0 || !one.Powered() {
		t.Errorf("a warm reset is no power cycle: %d power-ons by the BMC, powered: %t", n, one.Powered())
	}
}

// A warm reset uses up the BMC's override: the machine tries the network, where
// nobody answers here, and falls back to its disk.
func TestWarmResetObeysTheOverride(t *testing.T) {
	t.Parallel()
	f := startFleet(t, Config{Clusters: []Cluster{{Name: "k8s-prod", ControlPlanes: 1}}, MachineConfigs: true, Network: secondNetwork(), TimeScale: 0.001})
	m := f.Machines()[0]
	if err := m.Disk.Update(func(s *talosnode.DiskState) { *s = f.installed(t, m) }); err != nil {
		t.Fatal(err)
	}
	if err := m.PowerOn(t.Context(), redfishtest.Boot{}); err != nil {
		t.Fatal(err)
	}
	c := f.admin(t, m)
	eventually(t, "the node runs", func() bool { _, err := c.Version(t.Context()); return err == nil })
	m.BMC().SetOverride(redfishtest.Override{Target: "Pxe", Enabled: "Once", Mode: "UEFI"})
	if err := c.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second boot", func() bool { return len(m.Boots()) == 2 })
	second := m.Boots()[1]
	if second.Target != "Pxe" || second.Err == nil || second.Source != "disk" {
		t.Errorf("second boot = %+v", second)
	}
	if o := m.BMC().Override(); o.Enabled != "Disabled" {
		t.Errorf("override afterwards = %+v", o)
	}
	eventually(t, "the node runs again", func() bool { _, err := c.Version(t.Context()); return err == nil })
	if _, err := c.MachineClient.Shutdown(t.Context(), &machine.ShutdownRequest{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the machine is off", func() bool { return m.BMC().PowerState() == "Off" })
}

func TestMachineConfigsAreOfEachMachine(t *testing.T) {
	t.Parallel()
	for network, version := range map[string]string{"127.43.0.0/16": "v1.11.6", "127.44.0.0/16": "v1.13.9"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			f := startFleet(t, Config{
				Clusters: []Cluster{{Name: "a", ControlPlanes: 1, Workers: 1}}, MachineConfigs: true, TalosVersion: version, Network: prefix(network),
			})
			for _, m := range f.Machines() {
				config, err := configloader.NewFromBytes(f.installed(t, m).MachineConfig)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := config.Validate(metal{}); err != nil {
					t.Errorf("%s: %v", m.Name, err)
				}
				if got := config.NetworkHostnameConfig().Hostname(); got != m.Name {
					t.Errorf("%s is called %s", m.Name, got)
				}
				if got := config.Machine().Type().String(); got != m.Role {
					t.Errorf("%s is a %s, want %s", m.Name, got, m.Role)
				}
			}
		})
	}
}

type metal struct{}

func (metal) String() string        { return "metal" }
func (metal) RequiresInstall() bool { return true }
func (metal) InContainer() bool     { return false }

// admin is a client with the talosconfig of the machine's cluster.
func (f *Fleet) admin(t *testing.T, m *Machine) *client.Client {
	t.Helper()
	c, err := client.New(context.WithoutCancel(t.Context()),
		client.WithConfigFromFile(filepath.Join(f.config.Dir, "configs", m.Cluster, "talosconfig")),
		client.WithEndpoints(m.IP.String()), client.WithGRPCDialOptions(grpc.WithNoProxy()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestInstalledNodeHasTheAddressOfItsConfig(t *testing.T) {
	t.Parallel()
	f := startFleet(t, Config{Clusters: []Cluster{{Name: "a", ControlPlanes: 1}}, MachineConfigs: true, Network: prefix("127.45.0.0/16")})
	m := f.Machines()[0]
	state := f.installed(t, m)
	state.MachineConfig = bytes.Replace(state.MachineConfig, []byte("127.45.1.0/16"), []byte("127.45.9.9/16"), 1)
	m.Disk = talosnode.NewDisk(state, nil)
	if err := m.PowerOn(t.Context(), redfishtest.Boot{}); err != nil {
		t.Fatal(err)
	}
	m.IP = netip.MustParseAddr("127.45.9.9") // where the client looks
	c := f.admin(t, m)
	eventually(t, "the node answers at its configured address", func() bool { _, err := c.Version(t.Context()); return err == nil })
}
