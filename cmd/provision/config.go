package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/talos-provision/provision/provisioner"
)

// defaultConfigFile is read when it is there and no --config is given.
const defaultConfigFile = "provision.yaml"

// config is provision.yaml. Every field has a default; flags win over the
// environment (PROVISION_*), which wins over the file.
type config struct {
	Inventory string `yaml:"inventory"`
	// State is the folder that holds the state file and the DHCP leases, or etcd://host:2379,….
	State string     `yaml:"state"`
	Etcd  etcdConfig `yaml:"etcd"`
	// Local is the folder of what belongs to this host where the state is etcd's.
	Local string `yaml:"local"`
	// Site is the label `site` of the nodes that this controller works on; "" is all.
	Site    string        `yaml:"site"`
	Network networkConfig `yaml:"network"`
	DHCP    dhcpConfig    `yaml:"dhcp"`
	TFTP    tftpConfig    `yaml:"tftp"`
	HTTP    httpConfig    `yaml:"http"`
	IPXEDir string        `yaml:"ipxeDir"`
	Assets  assetsConfig  `yaml:"assets"`
	Power   powerConfig   `yaml:"power"`
	Budgets budgetsConfig `yaml:"budgets"`
	Talos   talosConfig   `yaml:"talos"`
	Upgrade upgradeConfig `yaml:"upgrade"`
	Admin   adminConfig   `yaml:"admin"`
	Serve   serveConfig   `yaml:"serve"`
	// Webhooks are told what happens, by the daemon that leads.
	Webhooks []webhookConfig `yaml:"webhooks"`
	Client   clientConfig    `yaml:"client"`
}

type networkConfig struct {
	// Interface is the port in the provisioning network; Interfaces are several of
	// them, each in a network of its own.
	Interface  string   `yaml:"interface"`
	Interfaces []string `yaml:"interfaces"`
	// Address is this host's address there: what nodes are told to ask.
	Address netip.Addr `yaml:"address"`
}

type powerConfig struct {
	Parallel int           `yaml:"parallel"`
	Window   time.Duration `yaml:"window"`
	Jitter   time.Duration `yaml:"jitter"`
	// PerChassis and PerRack bound the power-ons in one window within a chassis, and within
	// the nodes that have the same value of the label RackLabel; 0 puts no limit.
	PerChassis int    `yaml:"perChassis"`
	PerRack    int    `yaml:"perRack"`
	RackLabel  string `yaml:"rackLabel"`
}

func (p powerConfig) limits() provisioner.Power {
	return provisioner.Power{
		Parallel: p.Parallel, Window: p.Window, Jitter: p.Jitter, PerChassis: p.PerChassis, PerRack: p.PerRack, RackLabel: p.RackLabel,
	}
}

func (p powerConfig) check() error {
	switch {
	case p.Parallel < 1:
		return usageError("power.parallel is %d: at least 1 is needed", p.Parallel)
	case p.PerChassis < 0 || p.PerRack < 0:
		return usageError("power.perChassis is %d and power.perRack %d: give a number of nodes, or 0 for no limit", p.PerChassis, p.PerRack)
	case p.Window < 0 || p.Jitter < 0:
		return usageError("power.window is %s and power.jitter %s: a time cannot be negative", p.Window, p.Jitter)
	}
	return nil
}

type budgetsConfig struct {
	Attempts          int           `yaml:"attempts"`
	MinRebootInterval time.Duration `yaml:"minRebootInterval"`
	BootTimeout       time.Duration `yaml:"bootTimeout"`
	InstallTimeout    time.Duration `yaml:"installTimeout"`
	ReadyTimeout      time.Duration `yaml:"readyTimeout"`
	// MaxFailures ends a run once that many nodes, or that share of them, have failed: 3 or 10%.
	MaxFailures string `yaml:"maxFailures"`
}

func (b budgetsConfig) limits() provisioner.Budgets {
	return provisioner.Budgets{
		Attempts: b.Attempts, MinRebootInterval: b.MinRebootInterval, BootTimeout: b.BootTimeout,
		InstallTimeout: b.InstallTimeout, ReadyTimeout: b.ReadyTimeout,
	}
}

type talosConfig struct {
	// Delivery is how machine configs reach their nodes: api or url.
	Delivery string `yaml:"delivery"`
}

func defaultConfig() config {
	return config{
		Inventory: "nodes",
		State:     "/var/lib/provision",
		Local:     "/var/lib/provision",
		DHCP:      dhcpConfig{Mode: dhcpServer, Unknown: "boot", Listen: "0.0.0.0:67", RelayPort: 67},
		TFTP:      tftpConfig{Listen: ":69"},
		HTTP:      httpConfig{Listen: ":8080", MaxTransfers: defaultMaxTransfers},
		IPXEDir:   "/usr/lib/ipxe",
		Assets:    assetsConfig{Factory: "https://factory.talos.dev", Cache: "/var/cache/provision"},
		Power:     powerConfig{Parallel: 8, Window: 10 * time.Second, Jitter: 2 * time.Second, RackLabel: "rack"},
		Budgets:   budgetsConfig{Attempts: 3, MinRebootInterval: 5 * time.Minute, BootTimeout: 15 * time.Minute, InstallTimeout: 30 * time.Minute, ReadyTimeout: 15 * time.Minute},
		Talos:     talosConfig{Delivery: string(provisioner.DeliverByAPI)},
		Upgrade:   defaultUpgradeConfig(),
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
		{&c.Client.Server, "PROVISION_SERVER", a.flags.server},
		{&c.Client.TokenFile, "PROVISION_TOKEN_FILE", a.flags.tokenFile},
		{&c.Admin.Listen, "PROVISION_ADMIN_LISTEN", ""},
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
	if err := c.checkDHCP(); err != nil {
		return err
	}
	if err := c.HTTP.check(); err != nil {
		return err
	}
	if err := c.Power.check(); err != nil {
		return err
	}
	if _, err := provisioner.ParseLimit(c.Budgets.MaxFailures); err != nil {
		return usageError("budgets.maxFailures: %v", err)
	}
	if err := c.Admin.check(); err != nil {
		return err
	}
	if err := c.Serve.check(); err != nil {
		return err
	}
	return c.Upgrade.check()
}
