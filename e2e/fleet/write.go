package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// write writes the inventory and the configuration of the fleet.
func (f *Fleet) write() error {
	dir, err := filepath.Abs(f.config.Dir)
	if err != nil {
		return fmt.Errorf("write the fleet's inventory: %w", err)
	}
	files := map[string]string{
		"nodes/_defaults.yaml": f.rootDefaults(dir),
		"provision.yaml":       f.provisionYAML(dir),
		"ipxe/snponly.efi":     standIn("snponly.efi"),
		"ipxe/ipxe-amd64.efi":  standIn("ipxe-amd64.efi"),
		"ipxe/ipxe-arm64.efi":  standIn("ipxe-arm64.efi"),
		"ipxe/undionly.kpxe":   standIn("undionly.kpxe"),
	}
	for _, cluster := range f.clusterNames() {
		files["nodes/"+cluster+"/_defaults.yaml"] = f.clusterDefaults(cluster)
	}
	for _, m := range f.machines {
		if !m.listed() {
			continue
		}
		files["nodes/"+m.Cluster+"/"+m.Name+".yaml"] = m.nodeYAML()
	}
	for name, text := range files {
		if err := f.writeFile(name, text, 0o644); err != nil {
			return err
		}
	}
	if f.config.MachineConfigs {
		return f.writeMachineConfigs()
	}
	return nil
}

func (f *Fleet) writeFile(name, text string, mode os.FileMode) error {
	path := filepath.Join(f.config.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return fmt.Errorf("write the fleet's %s: %w", name, err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		return fmt.Errorf("write the fleet's %s: %w", name, err)
	}
	return nil
}

func (f *Fleet) rootDefaults(dir string) string {
	return fmt.Sprintf(`# Written by fleetsim for its emulated machines.
schematicID: %s
talosVersion: %s
kernelArgs: talos.platform=metal console=tty0 init_on_alloc=1 slab_nomerge pti=on
dns0: 1.1.1.1
dns1: 8.8.8.8
install: false
bmc:
  username: %s
  passwordFile: %s/bmc-password
  caFile: %s/bmc-ca.pem
`, VanillaSchematic, f.config.TalosVersion, bmcUsername, dir, dir)
}

func (f *Fleet) clusterDefaults(cluster string) string {
	text := fmt.Sprintf("netmask: 255.255.0.0\ngateway: %[1]s\nntp: %[1]s\ninterface: eth0\n", f.address(relayOffset))
	if f.config.MachineConfigs {
		text += fmt.Sprintf("machineConfig: ../../configs/%[1]s/{{ .name }}.yaml\ntalosconfig: ../../configs/%[1]s/talosconfig\n", cluster)
	}
	return text
}

func (m *Machine) nodeYAML() string {
	text := fmt.Sprintf("serial: %s # shared by the boards of one chassis\nip: %s\ninstall: %t\nbmc:\n  address: %s\n", m.Hardware.Serial, m.IP, m.Install, m.bmcURL())
	if m.BootKind != "" {
		text += "  boot: " + m.BootKind + "\n"
	}
	if m.Role != "" {
		text += "labels:\n  role: " + m.Role + "\n"
	}
	if m.SecureBoot {
		text += fmt.Sprintf("secureBoot: true\nmac: %s\nuuid: %s\n", m.Hardware.MACs[0], m.Hardware.UUID)
	}
	return text
}

func (f *Fleet) provisionYAML(dir string) string {
	controller := f.address(controllerOffset)
	delivery := "api"
	if f.config.DeliverByURL {
		delivery = "url"
	}
	return fmt.Sprintf(`# Written by fleetsim: every port is above 1024 and every address on loopback.
inventory: %[1]s/nodes
state: %[1]s/state
network:
  address: %[2]s
dhcp:
  mode: server
  listen: %[2]s:%[3]d
  relayPort: %[4]d
  subnets:
  - cidr: %[5]s
    range: %[6]s-%[7]s
    gateway: %[8]s
    lease: 1h
tftp:
  listen: %[2]s:%[9]d
http:
  listen: %[2]s:%[10]d
ipxeDir: %[1]s/ipxe
assets:
  factory: %[11]s
  cache: %[1]s/cache
power:
  parallel: 8
  window: 2s
  jitter: 200ms
budgets:
  attempts: %[13]d
  minRebootInterval: 10s
  bootTimeout: %[14]s
talos:
  delivery: %[12]s
`, dir, controller, dhcpPort, relayPort, f.config.Network.Masked(), f.address(leaseOffset), f.address(leaseEnd), f.address(relayOffset),
		tftpPort, httpPort, f.factory.url, delivery, f.config.Attempts, short(f.config.BootTimeout))
}

// short writes a time without the parts that are 0: 2m, not 2m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// standIn takes the place of an iPXE binary, which nobody executes here. EFI
// builds that load their script by themselves contain its name.
func standIn(name string) string {
	return name + " stand-in, loads autoexec.ipxe\n" + strings.Repeat("\x00", 64<<10)
}
