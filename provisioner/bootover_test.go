package provisioner

import (
	"context"
	"strings"
	"testing"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/schematic"
	"github.com/talos-provision/provision/provisioner/talos"
)

// A boot over an installation is refused where it would not keep the node's data.
func TestABootOverAnInstallationMustKeepItsData(t *testing.T) {
	t.Parallel()
	c, err := New(Options{Prober: talos.Prober{}, Dial: func(context.Context, inventory.Node) (BMC, error) { return nil, bmc.ErrUnreachable }})
	if err != nil {
		t.Fatal(err)
	}
	good := inventory.Node{
		Name: "node-01", Cluster: "prod", IP: "10.0.0.5", Netmask: "255.255.255.0", Gateway: "10.0.0.1", Interface: "eth0",
		KernelArgs: "talos.platform=metal", BMC: inventory.BMC{Address: "10.99.0.5"},
	}
	tests := []struct {
		name   string
		change func(*inventory.Node)
		want   string // "" for none
	}{
		{"nothing against it", func(*inventory.Node) {}, ""},
		{"no BMC", func(n *inventory.Node) { n.BMC.Address = "" }, "no bmc.address"},
		{"wipes its disk", func(n *inventory.Node) { n.KernelArgs += " talos.experimental.wipe=system" }, "wipes its disk"},
		{"wipes a part of it", func(n *inventory.Node) { n.KernelArgs += " talos.experimental.wipe=system:EPHEMERAL" }, "wipes its disk"},
		{"halts", func(n *inventory.Node) { n.KernelArgs += " talos.halt_if_installed=1" }, "makes Talos stop"},
		{"another config", func(n *inventory.Node) { n.KernelArgs += " talos.config=http://10.0.0.9/c.yaml" }, "another config"},
		{"wiped by its signed image", func(n *inventory.Node) {
			n.Schematic = &schematic.Schematic{}
			n.Schematic.Customization.ExtraKernelArgs = []string{"talos.experimental.wipe=system"}
		}, "wipes its disk"},
		{"arguments that no script can carry", func(n *inventory.Node) { n.KernelArgs += " a || b" }, "kernel arguments"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := good
			tt.change(&n)
			err := c.MayBootOver(n)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
