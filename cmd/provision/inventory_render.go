package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/render"
)

// renderFlags are the flags of `inventory render`.
type renderFlags struct {
	format, assetsURL, script, tftpRoot string
}

func renderCommand(a *app) *cobra.Command {
	var f renderFlags
	c := &cobra.Command{
		Use:   "render --format dnsmasq|ipxe",
		Short: "Write a static dnsmasq.conf, or the iPXE script for it, to standard output",
		Long: `render writes what a boot server without this program needs: a complete
dnsmasq.conf from the parts network and dhcp of provision.yaml, and an iPXE script
that recognises each node by board serial or serial and starts it with its own
kernel command line. Machines that are unknown, in doubt or not marked install: true
boot their own disk. See docs/migration.md.

Exit status: 0 done; 1 written, but some install: true node cannot be booted by a
static script (told on standard error); 2 usage, configuration or inventory error.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.inventoryRender(f) },
	}
	p := c.Flags()
	p.StringVar(&f.format, "format", "", "dnsmasq or ipxe")
	p.StringVar(&f.assetsURL, "assets-url", "", "ipxe: base URL of kernel and initramfs (default: assets.factory)")
	p.StringVar(&f.script, "script-url", "boot.ipxe", "dnsmasq: the iPXE script, a file below the TFTP root or an http:// URL")
	p.StringVar(&f.tftpRoot, "tftp-root", "/srv/tftp", "dnsmasq: folder with the iPXE binaries and the script")
	return c
}

func (a *app) inventoryRender(f renderFlags) error {
	if a.flags.output != "table" {
		return usageError("-o %s: render writes the file's own format; leave -o out", a.flags.output)
	}
	switch f.format {
	case "dnsmasq":
		return a.renderDNSMasq(f)
	case "ipxe":
		return a.renderIPXE(f)
	}
	return usageError("--format %q: it can be dnsmasq or ipxe", f.format)
}

func (a *app) renderDNSMasq(f renderFlags) error {
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	if c.DHCP.Mode == dhcpProxy {
		return usageError("dhcp.mode is proxy: render writes a full DHCP server, which needs mode server and dhcp.subnets")
	}
	d := render.DNSMasq{
		Interfaces: c.Network.Interfaces, Address: c.Network.Address, Authoritative: c.DHCP.Authoritative,
		TFTPRoot: f.tftpRoot, Script: f.script, Source: a.configName(),
	}
	if c.Network.Interface != "" {
		d.Interfaces = append([]string{c.Network.Interface}, d.Interfaces...)
	}
	for _, n := range c.DHCP.Subnets {
		d.Subnets = append(d.Subnets, render.Subnet{
			CIDR: n.CIDR, First: n.Range.First, Last: n.Range.Last, Gateway: n.Gateway, DNS: n.DNS, Lease: n.Lease,
		})
	}
	text, err := d.Render()
	if err != nil {
		return usageError("render dnsmasq.conf: %v", err)
	}
	_, err = fmt.Fprint(a.out, text)
	return err
}

// configName is the configuration file for people to read.
func (a *app) configName() string {
	if file := a.configFile(); file != "" {
		return file
	}
	return "the defaults"
}

func (a *app) renderIPXE(f renderFlags) error {
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	tree, err := a.loadInventory(c)
	if err != nil {
		return err
	}
	nodes, err := a.chosen(tree)
	if err != nil {
		return err
	}
	selected := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		selected[n.File] = true
	}
	if f.assetsURL == "" {
		f.assetsURL = c.Assets.Factory
	}
	text, problems, err := render.IPXE(render.Script{
		Nodes: tree.Nodes, AssetsURL: f.assetsURL, Source: c.Inventory,
		Selected: func(n inventory.Node) bool { return selected[n.File] },
	})
	if err != nil {
		return usageError("render the iPXE script: %v", err)
	}
	if _, err := fmt.Fprint(a.out, text); err != nil {
		return err
	}
	for _, p := range problems {
		say(a.errOut, "%s\n", p)
	}
	if len(problems) > 0 {
		return &statusError{exitFailed, fmt.Sprintf("%d nodes marked install: true cannot be booted by this script, see above", len(problems))}
	}
	return nil
}
