package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner/machineconfig"
)

// roleLabel is the label that says which config a node gets; its values are the
// names of the files.
const roleLabel = "role"

type clusterInitFlags struct {
	endpoint, kubernetes, talos, out, disk, secrets, schematic string
}

func clusterInitCommand(a *app) *cobra.Command {
	var f clusterInitFlags
	c := &cobra.Command{
		Use:   "init NAME --endpoint https://HOST:6443",
		Short: "Make the secrets, talosconfig and machine configs of a new cluster",
		Long: `init writes secrets.yaml, talosconfig, controlplane.yaml, worker.yaml and
node.yaml.tmpl, a patch that gives each node its name and network, readable for you
alone. It overwrites nothing: there are all of the files or none. What it cannot know
it takes from the cluster's nodes in the inventory: talosVersion, schematicID,
secureBoot, and the addresses in the talosconfig.

Exit status: 0 done; 2 usage, configuration or inventory error; 3 a file exists.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return a.clusterInit(args[0], f) },
	}
	p := c.Flags()
	p.StringVar(&f.endpoint, "endpoint", "", "URL of the cluster's Kubernetes API: a control plane node, a virtual IP or a load balancer")
	p.StringVar(&f.talos, "talos-version", "", "version of Talos (default: talosVersion of the cluster's nodes)")
	p.StringVar(&f.kubernetes, "kubernetes-version", "", "version of Kubernetes (default: one that suits the version of Talos)")
	p.StringVar(&f.schematic, "schematic", "", "schematic of the image to install (default: schematicID of the cluster's nodes)")
	p.StringVar(&f.disk, "install-disk", "", "path of the disk to install on, like /dev/sda or /dev/disk/by-id/…; without it a patch has to say which")
	p.StringVar(&f.out, "out", "", "folder to write to (default: configs/NAME beside the inventory)")
	p.StringVar(&f.secrets, "secrets", "", "make the configs from this secrets.yaml, instead of new secrets")
	return c
}

func (a *app) clusterInit(name string, f clusterInitFlags) error {
	asJSON, err := a.json()
	if err != nil {
		return err
	}
	if f.endpoint == "" {
		return usageError("give the URL of the cluster's Kubernetes API: --endpoint https://HOST:6443")
	}
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	tree, err := a.growingInventory(c)
	if err != nil {
		return err
	}
	cluster, err := f.cluster(name, membersOf(tree, name))
	if err != nil {
		return err
	}
	made := initialised{cluster: cluster, dir: f.out, inventory: c.Inventory}
	if made.dir == "" {
		made.dir = filepath.Join(filepath.Dir(filepath.Clean(c.Inventory)), "configs", name)
	}
	if err := outsideOfNodes(c.Inventory, made.dir); err != nil {
		return err
	}
	if made.files, err = cluster.Generate(); err != nil {
		return &statusError{exitUsage, err.Error()}
	}
	switch err := made.files.Write(made.dir); {
	case errors.Is(err, machineconfig.ErrExists):
		return &statusError{exitRefused, err.Error()}
	case err != nil:
		return &statusError{exitUsage, err.Error()}
	}
	if asJSON {
		return a.printJSON(made.json())
	}
	return made.tell(a)
}

func membersOf(tree *inventory.Tree, cluster string) []inventory.Node {
	return slices.DeleteFunc(slices.Clone(tree.Nodes), func(n inventory.Node) bool { return n.Cluster != cluster })
}

// cluster is what is to be made, of the flags and of the nodes.
func (f clusterInitFlags) cluster(name string, nodes []inventory.Node) (machineconfig.Cluster, error) {
	c := machineconfig.Cluster{
		Name: name, Endpoint: f.endpoint, TalosVersion: f.talos, KubernetesVersion: f.kubernetes,
		InstallDisk: f.disk, Schematic: f.schematic, Secrets: f.secrets,
	}
	var err error
	if c.TalosVersion == "" {
		if c.TalosVersion, err = common(nodes, "talosVersion", "--talos-version", func(n inventory.Node) string { return n.TalosVersion }); err != nil {
			return c, err
		}
		if c.TalosVersion == "" {
			return c, usageError("give the version of Talos: --talos-version v1.13.9, or talosVersion in the inventory")
		}
	}
	if c.Schematic == "" {
		if c.Schematic, err = common(nodes, "schematicID", "--schematic, and the image of other nodes in a patch", func(n inventory.Node) string { return n.SchematicID }); err != nil {
			return c, err
		}
	}
	secure, err := common(nodes, "secureBoot", "the image of other nodes in a patch", func(n inventory.Node) string { return fmt.Sprint(n.SecureBoot) })
	if err != nil {
		return c, err
	}
	c.SecureBoot = secure == "true"
	for _, n := range nodes {
		if n.IP == "" {
			continue
		}
		c.Nodes = append(c.Nodes, n.IP)
		if n.Labels[roleLabel] == "controlplane" {
			c.Endpoints = append(c.Endpoints, n.IP)
		}
	}
	return c, nil
}

// common is the value that all nodes have.
func common(nodes []inventory.Node, field, hint string, of func(inventory.Node) string) (string, error) {
	var value string
	for i, n := range nodes {
		switch v := of(n); {
		case i == 0:
			value = v
		case v != value:
			return "", usageError("%s has another %s than %s: give %s", n.ID(), field, nodes[0].ID(), hint)
		}
	}
	return value, nil
}

// outsideOfNodes makes sure that the files are not taken for nodes.
func outsideOfNodes(inventoryDir, dir string) error {
	root, err := filepath.Abs(inventoryDir)
	if err != nil {
		return err
	}
	target, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	inside, err := filepath.Rel(root, target)
	if err != nil || inside == ".." || strings.HasPrefix(inside, ".."+string(filepath.Separator)) {
		return nil // without a relative path it is elsewhere
	}
	for part := range strings.SplitSeq(inside, string(filepath.Separator)) {
		if strings.HasPrefix(part, "_") || strings.HasPrefix(part, ".") && part != "." {
			return nil
		}
	}
	return usageError("--out %s is within the inventory, where configs would be taken for nodes: write to another folder, or to one whose name begins with _", dir)
}
