package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// defaultConfigFile is read when it is there and no --config is given.
const defaultConfigFile = "provision.yaml"

// config is provision.yaml. Every field has a default; flags win over the
// environment (PROVISION_*), which wins over the file.
type config struct {
	Inventory string `yaml:"inventory"`
	// State is the folder that holds the state file and the DHCP leases.
	State   string        `yaml:"state"`
	Network networkConfig `yaml:"network"`
	DHCP    dhcpConfig    `yaml:"dhcp"`
	TFTP    listenConfig  `yaml:"tftp"`
	HTTP    listenConfig  `yaml:"http"`
	IPXEDir string        `yaml:"ipxeDir"`
	Assets  assetsConfig  `yaml:"assets"`
	Power   powerConfig   `yaml:"power"`
	Budgets budgetsConfig `yaml:"budgets"`
}

type networkConfig struct {
	// Interface is the port in the provisioning network.
	Interface string `yaml:"interface"`
	// Address is this host's address there: what nodes are told to ask.
	Address netip.Addr `yaml:"address"`
}

type dhcpConfig struct {
	Mode    string         `yaml:"mode"` // server or off
	Listen  string         `yaml:"listen"`
	Subnets []subnetConfig `yaml:"subnets"`
	// RelayPort is where relays take replies; 67 but for tests without root.
	RelayPort int `yaml:"relayPort"`
}

type subnetConfig struct {
	CIDR    netip.Prefix  `yaml:"cidr"`
	Range   addressRange  `yaml:"range"`
	Gateway netip.Addr    `yaml:"gateway"`
	DNS     []netip.Addr  `yaml:"dns"`
	Lease   time.Duration `yaml:"lease"`
}

// addressRange is written FIRST-LAST.
type addressRange struct{ First, Last netip.Addr }

// UnmarshalText reads FIRST-LAST.
func (r *addressRange) UnmarshalText(text []byte) error {
	first, last, found := strings.Cut(string(text), "-")
	if !found {
		return fmt.Errorf("range %q is not FIRST-LAST, such as 192.168.42.100-192.168.42.200", text)
	}
	var err, errLast error
	r.First, err = netip.ParseAddr(strings.TrimSpace(first))
	r.Last, errLast = netip.ParseAddr(strings.TrimSpace(last))
	if err := errors.Join(err, errLast); err != nil {
		return fmt.Errorf("range %q: %w", text, err)
	}
	return nil
}

type listenConfig struct {
	Listen string `yaml:"listen"`
}

type assetsConfig struct {
	Factory string `yaml:"factory"`
	Cache   string `yaml:"cache"`
}

type powerConfig struct {
	Parallel int           `yaml:"parallel"`
	Window   time.Duration `yaml:"window"`
	Jitter   time.Duration `yaml:"jitter"`
}

type budgetsConfig struct {
	Attempts          int           `yaml:"attempts"`
	MinRebootInterval time.Duration `yaml:"minRebootInterval"`
	BootTimeout       time.Duration `yaml:"bootTimeout"`
}

func defaultConfig() config {
	return config{
		Inventory: "nodes",
		State:     "/var/lib/provision",
		DHCP:      dhcpConfig{Mode: "server", Listen: "0.0.0.0:67", RelayPort: 67},
		TFTP:      listenConfig{Listen: ":69"},
		HTTP:      listenConfig{Listen: ":8080"},
		IPXEDir:   "/usr/lib/ipxe",
		Assets:    assetsConfig{Factory: "https://factory.talos.dev", Cache: "/var/cache/provision"},
		Power:     powerConfig{Parallel: 8, Window: 10 * time.Second, Jitter: 2 * time.Second},
		Budgets:   budgetsConfig{Attempts: 3, MinRebootInterval: 5 * time.Minute, BootTimeout: 15 * time.Minute},
	}
}

// loadConfig reads the file, then lays the environment and the flags over it.
func (a *app) loadConfig() (config, error) {
	c := defaultConfig()
	if err := c.readFile(a.configFile()); err != nil {
		return config{}, err
	}
	for _, o := range []struct {
		target    *string
		env, flag string
	}{
		{&c.Inventory, "PROVISION_INVENTORY", a.flags.inventory},
		{&c.State, "PROVISION_STATE", a.flags.state},
		{&c.IPXEDir, "PROVISION_IPXE_DIR", ""},
		{&c.Assets.Factory, "PROVISION_FACTORY", ""},
		{&c.Assets.Cache, "PROVISION_CACHE", ""},
	} {
		if value := os.Getenv(o.env); value != "" {
			*o.target = value
		}
		if o.flag != "" {
			*o.target = o.flag
		}
	}
	return c, c.check()
}

// configFile is the file to read; "" when there is none to read.
func (a *app) configFile() string {
	if a.flags.config != "" {
		return a.flags.config
	}
	if file := os.Getenv("PROVISION_CONFIG"); file != "" {
		return file
	}
	if _, err := os.Stat(defaultConfigFile); err == nil {
		return defaultConfigFile
	}
	return ""
}

func (c *config) readFile(file string) error {
	if file == "" {
		return nil
	}
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	defer func() { _ = f.Close() }()
	decoder := yaml.NewDecoder(f)
	decoder.KnownFields(true)
	// An empty file is a configuration too: all defaults.
	if err := decoder.Decode(c); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the configuration %s: %w", file, err)
	}
	return nil
}

func (c *config) check() error {
	if c.DHCP.Mode != "server" && c.DHCP.Mode != "off" {
		return usageError("dhcp.mode is %q: it can be server or off", c.DHCP.Mode)
	}
	if c.DHCP.Mode == "server" && len(c.DHCP.Subnets) > 0 && !c.Network.Address.IsValid() && c.Network.Interface == "" {
		return usageError("network: give interface or address, so that nodes can be told where this host is in their network")
	}
	if c.Power.Parallel < 1 {
		return usageError("power.parallel is %d: at least 1 is needed", c.Power.Parallel)
	}
	return nil
}

// serverAddress is this host's address in the provisioning network: the one
// configured, else the interface's only IPv4 address.
func (c *config) serverAddress() (netip.Addr, error) {
	if c.Network.Address.IsValid() {
		return c.Network.Address, nil
	}
	if c.Network.Interface == "" {
		return netip.Addr{}, usageError("network: give interface or address in provision.yaml, so that nodes can be told where this host is in their network")
	}
	iface, err := net.InterfaceByName(c.Network.Interface)
	if err != nil {
		return netip.Addr{}, usageError("network.interface %s: %v; `ip -br address` lists the interfaces", c.Network.Interface, err)
	}
	addresses, err := iface.Addrs()
	if err != nil {
		return netip.Addr{}, usageError("network.interface %s: %v", c.Network.Interface, err)
	}
	var found []netip.Addr
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().Is4() {
			found = append(found, prefix.Addr())
		}
	}
	if len(found) != 1 {
		return netip.Addr{}, usageError("network.interface %s has %d IPv4 addresses: say which with network.address", c.Network.Interface, len(found))
	}
	return found[0], nil
}

// stateFile is where the state of the nodes is kept.
func (c *config) stateFile() string { return filepath.Join(c.State, "state.db") }

// liveSocket is where a run that holds the state answers questions about it.
func (c *config) liveSocket() string { return filepath.Join(c.State, "run.sock") }

// leaseFile is where DHCP leases are kept.
func (c *config) leaseFile() string { return filepath.Join(c.State, "leases") }
