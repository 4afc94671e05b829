package main

import (
	"context"
	"sync"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/source"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/daemon"
	"github.com/talos-provision/provision/provisioner/machineconfig"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/talos"
	"github.com/talos-provision/provision/pxe"
	"github.com/talos-provision/provision/pxe/assets"
)

// host makes what the daemon works with, by provision.yaml.
type host struct {
	*session
	cache *assets.Cache
	state *store.Store
	turns turns
}

var _ daemon.Host = (*host)(nil)

// Inventory is a generation as the controller takes it.
func (h *host) Inventory(g source.Generation) provisioner.Inventory {
	configs := machineconfig.Source{Inventory: g.Folder}
	return provisioner.Inventory{Nodes: g.Tree.Nodes, Configs: configs, Access: newAccesses(configs).admin}
}

// Controller makes the controller of the site.
func (h *host) Controller(i provisioner.Inventory, onEvent func(store.Event)) (*provisioner.Controller, error) {
	bootURL, err := h.bootURL(i.Nodes)
	if err != nil {
		return nil, err
	}
	delivery, err := provisioner.ParseDelivery(h.config.Talos.Delivery)
	if err != nil {
		return nil, err
	}
	h.metrics.Forget("") // another may have led meanwhile
	return provisioner.New(provisioner.Options{
		Inventory: i, BootURL: bootURL, Dial: h.turns.dialer(h.dial), Prober: talos.Prober{}, Delivery: delivery, Site: h.config.Site, Store: h.state,
		Power: h.config.Power.limits(), Budgets: h.config.Budgets.limits(), OnEvent: h.metrics.Events(onEvent), Leases: h.leasesByMAC, Log: h.log,
	})
}

// Services makes the boot services. Where several controllers share a state, the
// leases that the one before gave are known to this one.
func (h *host) Services(c *provisioner.Controller, g source.Generation) (daemon.Services, error) {
	if err := know(h.cache, g.Tree.Nodes); err != nil {
		return nil, err
	}
	leases, err := h.shareLeases(h.state)
	if err != nil {
		return nil, err
	}
	services, err := h.bootServices(c, h.cache, g.Tree.Nodes)
	if err != nil {
		return nil, err
	}
	return &hostServices{services, h, leases}, nil
}

// Prepare has the images of a plan at hand before a machine is touched.
func (h *host) Prepare(ctx context.Context, plan provisioner.Plan) error {
	h.metrics.Forget(plan.Cluster) // a run begins, or goes on after a pause
	return h.pullImages(ctx, h.cache, images(plan))
}

// hostServices are boot services that follow the inventory.
type hostServices struct {
	*pxe.Services
	host   *host
	leases *sharedLeases // nil where nobody shares them
}

// Follow has them serve another generation.
func (s *hostServices) Follow(g source.Generation) error {
	if err := know(s.host.cache, g.Tree.Nodes); err != nil {
		return err
	}
	return s.SetReservations(s.host.reservations(s.host.subnets(), g.Tree.Nodes))
}

// Run serves until ctx ends.
func (s *hostServices) Run(ctx context.Context) error {
	defer pxe.RelaxCollector()()
	if s.leases != nil {
		var saving sync.WaitGroup
		// Those that only this host's file has: of a time when the state was out of reach.
		saving.Go(func() { s.leases.save(s.Leases) })
		defer saving.Wait()
	}
	return s.Services.Run(ctx)
}

// check refuses programs that would come from a repository which anybody with the
// right to push can change: they would run on the controller's host.
func (g gitConfig) check(nodes []inventory.Node) inventory.Findings {
	if g.URL == "" || len(g.VerifyKeys) > 0 {
		return nil
	}
	const field = "bmc.passwordCommand"
	var findings inventory.Findings
	for _, n := range nodes {
		if len(n.BMC.PasswordCommand) == 0 {
			continue
		}
		o := n.Origin(field)
		findings = append(findings, inventory.Finding{
			Severity: inventory.Error, Rule: inventory.RuleInvalid, File: o.File, Line: o.Line, Column: o.Column, Field: field,
			Message: "a program from a repository whose commits are not verified would run on the controller",
			Hint:    "give serve.git.verifyKeys, or use bmc.passwordEnv or bmc.passwordFile",
		})
	}
	return findings
}

// inventorySource is where the daemon takes the inventory from.
func (s *session) inventorySource(d *daemon.Daemon) (*source.Source, error) {
	options := source.Options{
		OnGeneration: d.Apply, OnRefusal: d.Refuse, Log: s.log,
		Check: func(folder string, nodes []inventory.Node) inventory.Findings {
			return append(machineconfig.Source{Inventory: folder}.Check(nodes), s.config.Serve.Git.check(nodes)...)
		},
	}
	git := s.config.Serve.Git
	if git.URL == "" {
		return source.NewDirectory(source.DirectoryOptions{Options: options, Path: s.config.Inventory})
	}
	return source.NewGit(source.GitOptions{
		Options: options, URL: git.URL, Branch: git.Branch, Path: git.Path, Poll: git.Poll, Folder: s.config.checkouts(),
		TokenEnv: git.TokenEnv, TokenFile: git.TokenFile, CAFile: git.CAFile, KeyFile: git.KeyFile, KnownHosts: git.KnownHosts,
		VerifyKeys: git.VerifyKeys, AllowRewind: git.AllowRewind,
	})
}
