package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner/machineconfig"
	"github.com/talos-provision/provision/provisioner/talos"
)

func clusterCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "cluster",
		Short: "Make the configs of a cluster, get its kubeconfig, look at its health",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(clusterInitCommand(a), clusterKubeconfigCommand(a), clusterHealthCommand(a))
	return c
}

// clusterAdmin is what the commands of a running cluster ask its nodes.
type clusterAdmin interface {
	Inspect(ctx context.Context, host string) talos.Running
	Kubeconfig(ctx context.Context, host string) ([]byte, error)
	Health(ctx context.Context, host string, request talos.HealthRequest, progress func(string)) error
}

// clusterNode is a node of a cluster that runs.
type clusterNode struct {
	inventory.Node
	controlPlane bool   // by its machine config
	role         string // controlplane, worker, or "" without a machine config
}

// runningCluster is a cluster of the inventory, and the way to its nodes.
type runningCluster struct {
	name  string
	nodes []clusterNode
	admin clusterAdmin
}

// theCluster reads the inventory and what it says of how to reach a cluster.
func (a *app) theCluster(name string) (*runningCluster, error) {
	c, err := a.loadConfig()
	if err != nil {
		return nil, err
	}
	tree, err := a.loadInventory(c)
	if err != nil {
		return nil, err
	}
	a.flags.cluster = name
	nodes, err := a.chosen(tree)
	if err != nil {
		return nil, err
	}
	source := machineconfig.Source{Inventory: c.Inventory}
	running := &runningCluster{name: name}
	var access *talos.Access
	for _, n := range nodes {
		config, ok, err := source.Render(n)
		if err != nil {
			return nil, &statusError{exitUsage, err.Error()}
		}
		node := clusterNode{Node: n}
		if ok {
			node.controlPlane, node.role = config.ControlPlane(), roleOf(config)
		}
		running.nodes = append(running.nodes, node)
		if access != nil {
			continue
		}
		if access, err = newAccesses(source).of(n); err != nil {
			return nil, &statusError{exitUsage, err.Error()}
		}
	}
	if access == nil {
		return nil, usageError("the inventory does not say how to reach the Talos API of %s: set talosconfig in the cluster's _defaults.yaml", name)
	}
	running.admin = talos.Admin{Access: access}
	return running, nil
}

func roleOf(c machineconfig.Config) string {
	if c.ControlPlane() {
		return "controlplane"
	}
	return "worker"
}

// addresses are the ips of the control plane nodes, or of the others.
func (r *runningCluster) addresses(controlPlane bool) []string {
	var hosts []string
	for _, n := range r.nodes {
		if n.controlPlane == controlPlane && n.IP != "" {
			hosts = append(hosts, n.IP)
		}
	}
	return hosts
}

// controlPlanes are the addresses to ask for what only a control plane node
// knows. Without machine configs it could be any.
func (r *runningCluster) controlPlanes() ([]string, error) {
	hosts := r.addresses(true)
	if !slices.ContainsFunc(r.nodes, func(n clusterNode) bool { return n.role != "" }) {
		hosts = r.addresses(false)
	}
	if len(hosts) == 0 {
		return nil, usageError("no control plane node of %s has an ip in the inventory", r.name)
	}
	return hosts, nil
}

// firstOf asks the control plane nodes in turn until one answers. The error has
// what each of them said.
func (r *runningCluster) firstOf(ctx context.Context, ask func(host string) error) error {
	hosts, err := r.controlPlanes()
	if err != nil {
		return err
	}
	var failures []error
	for _, host := range hosts {
		err := ask(host)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		failures = append(failures, fmt.Errorf("%s: %w", host, err))
	}
	return errors.Join(failures...)
}
