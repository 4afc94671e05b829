// Package e2e boots real firmware: OVMF and SeaBIOS machines in QEMU, switched
// by a Redfish service, provisioned by the real program over real packets.
package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/qemu"
	"github.com/talos-provision/provision/e2e/qemu/image"
)

const (
	schematic    = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"
	talosVersion = "v1.13.9"          // what the guest plays
	bmcPassword  = "e2e-bmc-password" //nolint:gosec // opens emulated BMCs in a namespace only
	// The boot network is untagged, as PXE wants it; Talos may use a tagged VLAN on the same cable.
	bootNetwork = "10.98.0.1/24"
	vlanNetwork = "10.99.0.1/24"
	vlanID      = 1234
)

// built is what all tests share: the guest's image and the program.
type built struct {
	image   image.Image
	binary  string
	ipxeDir string
}

var build = sync.OnceValues(func() (built, error) {
	options := image.FromEnvironment(os.Getenv)
	if err := options.Missing(); err != nil {
		return built{}, err
	}
	dir, err := os.MkdirTemp("", "provision-e2e-")
	if err != nil {
		return built{}, err
	}
	guest, err := image.Build(context.Background(), dir, options)
	if err != nil {
		return built{}, err
	}
	binary := filepath.Join(dir, "provision")
	command := exec.CommandContext(context.Background(), "go", "build", "-race", "-o", binary, "../cmd/provision")
	if out, err := command.CombinedOutput(); err != nil {
		return built{}, fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return built{image: guest, binary: binary, ipxeDir: options.IPXEDir()}, nil
})

// server is one machine of a site with its BMC.
type server struct {
	*qemu.Machine
	BMC *redfishtest.Service
}

// site is a provisioning network with servers in it.
type site struct {
	t       *testing.T
	built   built
	dir     string
	network *qemu.Network
	servers map[string]server
	version string // of the Talos that boots
}

// newSite makes an empty provisioning network with a local Image Factory.
func newSite(t *testing.T) *site {
	t.Helper()
	if testing.Short() {
		t.Skip("boots machines in QEMU, which takes minutes: not in -short")
	}
	if err := qemu.Missing(); err != nil {
		lacking(t, err)
	}
	b, err := build()
	if err != nil {
		lacking(t, err)
	}
	network, err := qemu.NewNetwork(t.Context(), qemu.NetworkConfig{
		Addresses: []netip.Prefix{netip.MustParsePrefix(bootNetwork)},
		VLANs:     []qemu.VLAN{{ID: vlanID, Address: netip.MustParsePrefix(vlanNetwork)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, built: b, dir: t.TempDir(), network: network, servers: map[string]server{}, version: bootedVersion(b)}
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	s.startFactory()
	s.write("provision.yaml", s.provisionYAML())
	s.write("bmc-password", bmcPassword+"\n")
	s.write("nodes/_defaults.yaml", s.defaultsYAML())
	return s
}

// lacking skips the test because of what this host lacks; where E2E=required is
// set, as in `make test`, it fails it: a silent skip would look like a pass.
func lacking(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("E2E") == "required" {
		t.Fatal(err)
	}
	t.Skip(err)
}

func (s *site) startFactory() {
	s.t.Helper()
	listener, err := s.network.Listen(s.t.Context(), "tcp", "10.98.0.1:8090")
	if err != nil {
		s.t.Fatal(err)
	}
	mux := http.NewServeMux()
	for name, path := range map[string]string{image.KernelName: s.built.image.Kernel, image.InitramfsName: s.built.image.Initramfs} {
		mux.HandleFunc("GET /image/"+schematic+"/"+s.version+"/"+name, func(w http.ResponseWriter, r *http.Request) {
			http.ServeFile(w, r, path)
		})
	}
	factory := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = factory.Serve(listener) }()
	s.t.Cleanup(func() { _ = factory.Close() })
}

// add makes a machine that is off, with a BMC, and its inventory file.
func (s *site) add(config qemu.Config, nodeYAML string) {
	s.t.Helper()
	config.Dir = filepath.Join(s.dir, "machines", config.Name)
	config.MAC = fmt.Sprintf("52:54:00:00:00:%02x", len(s.servers)+1)
	config.Manufacturer, config.Product = "Supermicro", "SYS-E2E"
	s.fitTalos(&config)
	if err := os.MkdirAll(config.Dir, 0o750); err != nil {
		s.t.Fatal(err)
	}
	var bmc *redfishtest.Service // is there before the machine runs
	config.WarmReset = func() redfishtest.Boot { return bmc.WarmReset() }
	machine, err := qemu.NewMachine(s.t.Context(), s.network, config)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("serial console of %s:\n%s", config.Name, tail(machine.SerialHistory(), 60))
		}
		if err := machine.Close(); err != nil {
			s.t.Error(err)
		}
	})
	bmc = s.addBMC(config, machine, nodeYAML)
	s.servers[config.Name] = server{machine, bmc}
}

// addSilent makes a node whose machine never does anything: a run waits for it.
func (s *site) addSilent(config qemu.Config, nodeYAML string) {
	s.t.Helper()
	s.servers[config.Name] = server{nil, s.addBMC(config, nil, nodeYAML)}
}

// addBMC starts a machine's BMC and writes its inventory file.
func (s *site) addBMC(config qemu.Config, machine redfishtest.Machine, nodeYAML string) *redfishtest.Service {
	s.t.Helper()
	mode := map[qemu.Firmware]string{qemu.BIOS: "Legacy"}[config.Firmware]
	service := redfishtest.New(redfishtest.Config{
		Profile: redfishtest.Supermicro(), Machine: machine, Username: "provisioner", Password: bmcPassword, BootMode: mode,
		Serial: config.Serial, BoardSerial: config.BoardSerial, ChassisSerial: config.ChassisSerial,
		UUID: config.UUID, Model: config.Product, MACs: []string{config.MAC}, PowerLag: 200 * time.Millisecond,
	})
	if err := s.network.Do(func() error { return service.Start(fmt.Sprintf("10.98.0.1:%d", 8441+len(s.servers))) }); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(service.Close)
	certificate := s.write(config.Name+".pem", string(service.CertificatePEM()))
	s.write("nodes/metal/"+config.Name+".yaml", nodeYAML+fmt.Sprintf("\nbmc:\n  address: %s\n  username: provisioner\n  passwordFile: %s/bmc-password\n  caFile: %s\n", service.URL(), s.dir, certificate))
	return service
}

func (s *site) write(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func (s *site) defaultsYAML() string {
	return fmt.Sprintf(`schematicID: %s
talosVersion: %s
kernelArgs: talos.platform=metal console=ttyS0 slab_nomerge pti=on net.ifnames=0 panic=0 no_timer_check
dns0: 1.1.1.1
dns1: 8.8.8.8
ntp: 10.98.0.1
netmask: 255.255.255.0
interface: eth0
install: false
`, schematic, s.version)
}

func (s *site) provisionYAML() string {
	return fmt.Sprintf(`inventory: %[1]s/nodes
state: %[1]s/state
network: {interface: br0, address: 10.98.0.1}
dhcp:
  subnets:
  - {cidr: 10.98.0.0/24, range: 10.98.0.100-10.98.0.150, gateway: 10.98.0.1, lease: 1h}
ipxeDir: %[2]s
assets: {factory: "http://10.98.0.1:8090", cache: %[1]s/cache}
power: {parallel: 8, window: 1s, jitter: 100ms}
budgets: {attempts: 1, minRebootInterval: 1s, bootTimeout: %[3]s}
`, s.dir, s.built.ipxeDir, s.bootTimeout())
}
