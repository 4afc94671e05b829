package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/machineconfig"
	"github.com/talos-provision/provision/provisioner/metrics"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/talos"
	"github.com/talos-provision/provision/pxe"
	"github.com/talos-provision/provision/pxe/dhcp"
)

// session is one command at work: what was read before anything is done. Tree,
// selected and wiped are of those that work on nodes.
type session struct {
	*app
	asJSON   bool
	log      *slog.Logger
	config   config
	tree     *inventory.Tree
	selected []inventory.Node
	wiped    map[string]bool          // cluster/name of the nodes named with --reinstall
	telling  sync.Mutex               // events come from several goroutines
	mayWork  func(node string) error  // says whether this process may change a machine now; nil is always
	mayServe func(site string) error  // says whether this process leads a shared site still; nil is always
	onCommit func([]dhcp.LeaseRecord) // takes the DHCP leases that others must know; may be nil
	serving  atomic.Pointer[pxe.Services]
	metrics  *metrics.Set // nil counts nothing
}

// open reads the flags that every session has, and the configuration.
func (a *app) open() (*session, error) {
	s := &session{app: a, metrics: metrics.New(version)}
	var err error
	if s.asJSON, err = a.json(); err != nil {
		return nil, err
	}
	if s.log, err = a.logger(); err != nil {
		return nil, err
	}
	s.config, err = a.loadConfig()
	return s, err
}

// choose reads the inventory and selects the nodes.
func (s *session) choose() (err error) {
	if s.tree, err = s.loadInventory(s.config); err != nil {
		return err
	}
	if s.selected, err = s.selectNodes(s.flags.nodes); err != nil {
		return err
	}
	if err := s.checkConfigs(); err != nil {
		return err
	}
	s.wiped = map[string]bool{}
	if s.flags.reinstall == "" {
		return nil
	}
	wiped, err := s.selectNodes(s.flags.reinstall)
	for _, n := range wiped {
		s.wiped[n.ID()] = true
	}
	return err
}

// checkConfigs looks at the machine configs of the selected nodes, before any of
// them is looked at: what is wrong with them stands in the files.
func (s *session) checkConfigs() error {
	if s.flags.until == string(provisioner.UntilMaintenance) {
		return nil
	}
	var installs []inventory.Node
	for _, n := range s.selected {
		if n.Install {
			installs = append(installs, n)
		}
	}
	findings := machineconfig.Source{Inventory: s.config.Inventory}.Check(installs)
	for _, f := range findings {
		say(s.errOut, "%s\n", f)
	}
	if findings.HasErrors() {
		return usageError("the machine configs have errors: nothing was done")
	}
	return nil
}

// selectNodes picks nodes by a hostlist and by what else was said of the
// selection; an empty hostlist picks all.
func (s *session) selectNodes(hostlist string) ([]inventory.Node, error) {
	return s.chosenFrom(s.tree, hostlist)
}

func (s *session) controller(state *store.Store) (*provisioner.Controller, error) {
	bootURL, err := s.bootURL(s.selected)
	if err != nil {
		return nil, err
	}
	delivery, err := provisioner.ParseDelivery(s.config.Talos.Delivery)
	if err != nil {
		return nil, usageError("%v", err)
	}
	configs := machineconfig.Source{Inventory: s.config.Inventory}
	return provisioner.New(provisioner.Options{
		Delivery:  delivery,
		Inventory: provisioner.Inventory{Nodes: s.tree.Nodes, Configs: configs, Access: newAccesses(configs).admin},
		BootURL:   bootURL,
		Dial:      s.dial,
		Prober:    talos.Prober{},
		Site:      s.config.Site,
		Store:     state,
		Power:     s.config.Power.limits(),
		Budgets:   s.config.Budgets.limits(),
		OnEvent:   s.tell,
		Leases:    s.leasesByMAC,
		Log:       s.log,
	})
}

// request is what the flags ask of a run.
func (s *session) request() (provisioner.Request, error) {
	until, err := provisioner.ParseGoal(s.flags.until)
	if err != nil {
		return provisioner.Request{}, usageError("--until: %v", err)
	}
	limit, err := provisioner.ParseLimit(orElse(s.flags.maxFailures, s.config.Budgets.MaxFailures))
	if err != nil {
		return provisioner.Request{}, usageError("--max-failures: %v", err)
	}
	return provisioner.Request{Cluster: s.flags.cluster, Selected: s.selected, Reinstall: s.wiped, Until: until, MaxFailures: limit}, nil
}

func orElse(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

// bootURL is where BMCs and nodes reach the boot services. Only nodes whose BMC
// is told a URI need it before anything is served.
func (s *session) bootURL(nodes []inventory.Node) (string, error) {
	needed := slices.ContainsFunc(nodes, func(n inventory.Node) bool { return n.BMC.Boot != "" && n.BMC.Boot != string(bmc.BootPXE) })
	wanted := slices.ContainsFunc(nodes, func(n inventory.Node) bool { return n.SecureBoot })
	if !needed && !wanted {
		return "", nil
	}
	address, err := s.config.serverAddress()
	switch {
	case err != nil && !needed:
		return "", nil // DHCP tells machines with Secure Boot too
	case err != nil:
		return "", err
	}
	_, port, err := net.SplitHostPort(s.config.HTTP.Listen)
	if err != nil {
		return "", usageError("http.listen %s: %v", s.config.HTTP.Listen, err)
	}
	return "http://" + net.JoinHostPort(address.String(), port), nil
}

// dial logs in to a node's BMC. The password is read at that moment and kept nowhere else (I9).
func (s *session) dial(ctx context.Context, n inventory.Node) (provisioner.BMC, error) {
	client, err := s.client(ctx, n)
	if err != nil {
		return nil, err // not client: a nil *bmc.Client in the interface would not be nil
	}
	return client, nil
}

// client is dial, with all that a BMC can be asked.
func (s *session) client(ctx context.Context, n inventory.Node) (*bmc.Client, error) {
	password, err := n.BMC.Password(ctx, inventory.Secrets{})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", bmc.ErrUnauthorized, err)
	}
	var permit func() error
	if s.mayWork != nil {
		permit = func() error { return s.mayWork(n.ID()) }
	}
	return bmc.Dial(ctx, bmc.Config{
		Address: n.BMC.Address, Username: n.BMC.Username, Password: password, Insecure: n.BMC.Insecure,
		CAFile: n.BMC.CAFile, Fingerprint: n.BMC.Fingerprint, LegacyTLS: n.BMC.LegacyTLS,
		System: n.BMC.System, BootMode: n.BMC.BootMode, Boot: bmc.BootKind(n.BMC.Boot), Expected: n.Facts(), Log: s.log, Permit: permit,
		OnRequest: s.metrics.BMC,
	})
}
