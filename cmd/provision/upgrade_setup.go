package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/machineconfig"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/upgrade"
)

// upgrader is `provision upgrade` at work.
type upgrader struct {
	*session
	f        upgradeFlags
	target   upgrade.Version
	canary   []string
	exclude  []string
	accesses *accesses
	state    *store.Store // nil for a dry run before any run
	// publish is told every event that was stored.
	publish func(store.Event)
	// turns are at the BMCs; in a daemon everybody's.
	turns *turns
	// serving boots nodes from the network, where a daemon serves them already; nil elsewhere.
	serving *networkBoots

	mu sync.Mutex
	// known is the inventory as it was read last; it is read again during the run.
	known []inventory.Node
	fleet *provisioner.Fleet
	// reported are the facts of BMCs, from the state and of this run, by node id.
	reported map[string]identity.Facts
	// seen are the facts that a node itself told last, by its address.
	seen map[string]identity.Facts
}

// beginUpgrade reads configuration and inventory, and what the flags mean in them.
func (a *app) beginUpgrade(f upgradeFlags) (*upgrader, error) {
	s, err := a.open()
	if err != nil {
		return nil, err
	}
	if a.flags.cluster == "" {
		return nil, usageError("name the cluster: --cluster NAME")
	}
	if s.tree, err = a.loadInventory(s.config); err != nil {
		return nil, err
	}
	return newUpgrader(s, f)
}

// newUpgrader is of a session that has read its inventory.
func newUpgrader(s *session, f upgradeFlags) (*upgrader, error) {
	u := &upgrader{
		session: s, f: f, accesses: newAccesses(machineconfig.Source{Inventory: s.config.Inventory}), publish: s.tell, turns: &turns{},
		known: s.tree.Nodes, fleet: provisioner.NewFleet(s.tree.Nodes),
		reported: map[string]identity.Facts{}, seen: map[string]identity.Facts{},
	}
	var err error
	if s.selected, err = s.selectNodes(s.flags.nodes); err != nil {
		return nil, err
	}
	for _, n := range u.members() {
		if !slices.ContainsFunc(s.selected, func(c inventory.Node) bool { return c.Name == n.Name }) {
			u.exclude = append(u.exclude, n.Name)
		}
	}
	if u.canary, err = u.named(f.canary); err != nil {
		return nil, err
	}
	return u, u.reachable()
}

// named are the nodes of a hostlist, in its order.
func (u *upgrader) named(hostlist string) ([]string, error) {
	if hostlist == "" {
		return nil, nil
	}
	patterns, err := inventory.ParseHostlist(hostlist)
	if err != nil {
		return nil, usageError("--canary: %v", err)
	}
	var names []string
	for _, pattern := range patterns {
		nodes, err := u.tree.Select(inventory.Selection{Cluster: u.flags.cluster, Nodes: []string{pattern}})
		if err != nil {
			return nil, usageError("--canary: %v", err)
		}
		for _, n := range nodes {
			if !slices.Contains(names, n.Name) {
				names = append(names, n.Name)
			}
		}
	}
	return names, nil
}

// reachable makes sure that each node has an address and a talosconfig.
func (u *upgrader) reachable() error {
	for _, n := range u.members() {
		access, err := u.accesses.of(n)
		switch {
		case err != nil:
			return usageError("%v", err)
		case access == nil:
			return usageError("the inventory does not say how to reach the Talos API of %s: set talosconfig in the cluster's _defaults.yaml", n.ID())
		case n.IP == "" && !slices.Contains(u.exclude, n.Name):
			return usageError("the inventory has no ip of %s: give it one, or leave it out with --exclude %s", n.ID(), n.Name)
		}
	}
	return nil
}

// openState opens the state: for a dry run to look at only, if there is one.
func (u *upgrader) openState(ctx context.Context) (err error) {
	if u.flags.dryRun {
		u.state, err = u.config.readState(ctx)
		if errors.Is(err, store.ErrNoState) {
			return nil
		}
	} else {
		u.state, err = store.Connect(ctx, u.config.stateLocation(), u.config.storeOptions(u.log))
	}
	if errors.Is(err, store.ErrInUse) {
		return &statusError{exitRefused, inUse(err)}
	}
	if err == nil {
		u.mayWork = u.state.MayWork
	}
	return stateStatus(err)
}

func (u *upgrader) closeState() error {
	if u.state == nil {
		return nil
	}
	return u.state.Close()
}

// chooseTarget takes the version of --to, of the run that is carried on, or of the inventory.
func (u *upgrader) chooseTarget(ctx context.Context) (err error) {
	if u.f.to != "" {
		if u.target, err = upgrade.ParseVersion(u.f.to); err != nil {
			return usageError("--to: %v", err)
		}
		return nil
	}
	if u.f.resume {
		run, found, err := upgradeStore{state: u.state}.Run(ctx, u.flags.cluster)
		if err != nil {
			return &statusError{exitFailed, err.Error()}
		}
		if found && run.Finished.IsZero() {
			u.target = run.Target
			return nil
		}
		return usageError("there is no unfinished upgrade of %s: begin one without --continue", u.flags.cluster)
	}
	u.target, err = inventoryTarget(u.selected)
	return err
}

// inventoryTarget is the version on which the nodes agree.
func inventoryTarget(nodes []inventory.Node) (upgrade.Version, error) {
	byVersion := map[string][]string{}
	for _, n := range nodes {
		byVersion[n.TalosVersion] = append(byVersion[n.TalosVersion], n.Name)
	}
	versions := slices.Sorted(maps.Keys(byVersion))
	if len(versions) == 1 && versions[0] != "" {
		target, err := upgrade.ParseVersion(versions[0])
		if err != nil {
			return target, usageError("talosVersion: %v", err)
		}
		return target, nil
	}
	said := make([]string, 0, len(versions))
	for _, v := range versions {
		if v == "" {
			said = append(said, "none: "+brief(byVersion[v]))
			continue
		}
		said = append(said, v+": "+brief(byVersion[v]))
	}
	return upgrade.Version{}, usageError("the nodes have different versions in the inventory (%s): name the one to upgrade to with --to, or leave nodes out with --exclude", strings.Join(said, "; "))
}

// brief lists names, but not hundreds.
func brief(names []string) string {
	const shown = 8
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// holder names this controller to others; it is the same for each of its processes.
func (u *upgrader) holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	state, err := filepath.Abs(u.config.State)
	if err != nil || u.config.sharesState() {
		state = u.config.State
	}
	return "provision on " + host + " with state " + state
}

// newUpgradeID is sortable by time, as the ids of other runs are.
func newUpgradeID(now time.Time) string {
	return fmt.Sprintf("%s-%04x", now.UTC().Format("20060102T150405Z"), now.Nanosecond()&0xffff)
}
