package provisioner

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/talos"
)

// A look costs both sides something, and thousands of nodes wait at once.
func TestANodeIsLookedAtOftenOnlyOnceItsKernelCanBeUp(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		stage bootStage
		boot  bmc.BootKind
		want  time.Duration
	}{
		"nothing was heard of it":        {stageNone, "", 5 * time.Second},
		"its script was served":          {stageScript, "", 5 * time.Second},
		"the initramfs is still to come": {stageKernel, "", 5 * time.Second},
		"its kernel starts":              {stageInitramfs, "", time.Second / 4},
		"its signed image starts":        {stageImage, "", time.Second / 4},
		"its BMC reads its image":        {stageNone, bmc.BootMedia, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &Controller{opts: Options{PollInterval: time.Second}}
			n := &node{c: c, Node: inventory.Node{BMC: inventory.BMC{Boot: string(tt.boot)}}, seen: sighted{stage: tt.stage}}
			if got := n.pace(); got != tt.want {
				t.Errorf("it is looked at every %s, want %s", got, tt.want)
			}
		})
	}
}

// atLease is a network in which the node is in maintenance at one address, and nobody at others.
type atLease struct {
	Prober
	host  string
	facts identity.Facts
	looks int
}

func (p *atLease) Probe(_ context.Context, host string) talos.Observation {
	if host != p.host {
		return talos.Observation{Host: host}
	}
	p.looks++
	return talos.Observation{Host: host, State: talos.Maintenance, Stage: "maintenance", Ready: true, Facts: p.facts}
}

// However often it is looked at, a node has the same time to take its own address.
func TestANodeAtAnotherAddressIsGivenUpAfterTwentyIntervals(t *testing.T) {
	t.Parallel()
	one := inventory.Node{Name: "node-1", Cluster: "a", IP: "192.0.2.1", UUID: "7a1e0000-0000-4000-8000-0cc47a000001"}
	network := &atLease{host: "192.0.2.99", facts: identity.Facts{UUID: one.UUID}}
	c := &Controller{opts: Options{PollInterval: time.Second, Prober: network}, fleet: NewFleet([]inventory.Node{one})}
	n := &node{c: c, Node: one, seen: sighted{stage: stageInitramfs, source: netip.MustParseAddr(network.host)}}
	var took time.Duration
	for took < time.Minute {
		took += n.pace()
		if err := n.lookElsewhere(t.Context()); err != nil {
			break
		}
	}
	if took != 20*time.Second || network.looks != 20 {
		t.Errorf("it was given up after %s and %d looks there, want 20s and 20", took, network.looks)
	}
}
