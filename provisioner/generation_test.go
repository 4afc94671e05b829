package provisioner

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/machineconfig"
	"github.com/talos-provision/provision/pxe/httpboot"
)

// rendering counts how often the machine config of each generation is made.
type rendering struct {
	machineconfig.Config
	made *atomic.Int32
}

func (r rendering) Render(inventory.Node) (machineconfig.Config, bool, error) {
	r.made.Add(1)
	return r.Config, true, nil
}

// generations is a run over node-1 of two nodes in which another inventory takes the
// place of the first while node-1 boots.
func generations(t *testing.T, change func(nodes []inventory.Node) []inventory.Node, during, after func(c *Controller, ask func(number int) httpboot.Answer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1, nodeOf("a", 1), nodeOf("a", 2))
		for i, m := range l.w.machines {
			l.nodes[i].Serial, m.dead = m.facts.Serial, true // both are known by their files too, and boot nothing by themselves
		}
		l.budgets.Attempts = 1
		c := l.open()
		defer l.close()
		request := l.request("a")
		request.Selected = request.Selected[:1]
		ended := make(chan error)
		go func() {
			_, err := l.run(c, request)
			ended <- err
		}()
		time.Sleep(2 * time.Minute) // fake: node-1 has been switched on
		c.SetInventory(Inventory{Nodes: change(append([]inventory.Node(nil), l.nodes...))})
		ask := func(number int) httpboot.Answer {
			return c.Direct(t.Context(), httpboot.Request{Facts: l.w.machines[number-1].facts, Arch: "amd64"})
		}
		during(c, ask)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		after(c, ask)
	})
}

// What was shown and confirmed is carried out: a node that a run works on stays as it
// was planned until the run ends, whatever the files say meanwhile. All others, and
// itself from then on, are as the files are.
func TestANodeOfARunStaysAsItWasPlannedWhenTheInventoryChanges(t *testing.T) {
	t.Parallel()
	type answers struct {
		Kind      httpboot.Kind
		Node      string
		LocalBoot string
		Version   string
	}
	of := func(a httpboot.Answer) answers { return answers{a.Kind, a.Node, a.LocalBoot, a.Version} }
	planned := answers{httpboot.Install, "a/node-1", "", "v1.13.9"}
	for name, tt := range map[string]struct {
		change                       func([]inventory.Node) []inventory.Node
		first, second, firstAfterRun answers
	}{
		"its image and its local boot": {
			func(n []inventory.Node) []inventory.Node {
				n[0].TalosVersion, n[0].LocalBoot, n[1].LocalBoot = "v1.14.0", "exit", "sanboot"
				return n
			},
			planned, answers{Node: "a/node-2", LocalBoot: "sanboot"}, answers{Node: "a/node-1", LocalBoot: "exit"},
		},
		"its serial": {
			func(n []inventory.Node) []inventory.Node { n[0].Serial, n[1].Serial = "OTHER", "ELSE"; return n },
			planned, answers{}, answers{},
		},
		"its BMC and its serial": {
			func(n []inventory.Node) []inventory.Node {
				n[0].BMC.Address, n[0].Serial = "10.9.0.99", "OTHER"
				return n
			},
			planned, answers{Node: "a/node-2"}, answers{},
		},
		"it is gone": {
			func(n []inventory.Node) []inventory.Node { return n[1:] },
			planned, answers{Node: "a/node-2"}, answers{},
		},
		"everything is gone": {
			func([]inventory.Node) []inventory.Node { return nil },
			planned, answers{}, answers{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			generations(t, tt.change, func(_ *Controller, ask func(int) httpboot.Answer) {
				if diff := cmp.Diff(tt.first, of(ask(1))); diff != "" {
					t.Errorf("node-1 in its run (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.second, of(ask(2))); diff != "" {
					t.Errorf("node-2, which is in no run (-want +got):\n%s", diff)
				}
			}, func(_ *Controller, ask func(int) httpboot.Answer) {
				got := of(ask(1))
				if name == "its serial" {
					got.Node = "" // its BMC is the same, and what that reported disagrees with the file now
				}
				if diff := cmp.Diff(tt.firstAfterRun, got); diff != "" {
					t.Errorf("node-1 after its run (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// The machine config of a node that is in a run is the one that its plan made.
func TestTheMachineConfigOfANodeInARunIsNotMadeAnew(t *testing.T) {
	t.Parallel()
	config, err := machineconfig.Parse([]byte(controlPlaneConfig))
	if err != nil {
		t.Fatal(err)
	}
	c := atWork(t, Booting, stepNone)
	var old, fresh atomic.Int32
	nodes := c.current().Nodes
	c.SetInventory(Inventory{Nodes: nodes, Configs: rendering{config, &old}})
	for _, n := range nodes {
		_, _, _ = c.configOf(n)
	}
	c.SetInventory(Inventory{Nodes: nodes, Configs: rendering{machineconfig.Config{}, &fresh}})
	for _, n := range nodes {
		got, _, _ := c.configOf(n)
		if inRun := c.nodes[n.ID()] != nil; (got.Digest() == config.Digest()) != inRun {
			t.Errorf("%s, which is in a run: %t, has the config of the old generation: %t", n.Name, inRun, !inRun)
		}
	}
	if old.Load() != 3 || fresh.Load() != 1 {
		t.Errorf("made %d times of the old files and %d times of the new; want 3, and 1 for the node in no run", old.Load(), fresh.Load())
	}
}

// What a BMC reported belongs to the BMC: it is forgotten with its address, and with its node.
func TestWhatABMCReportedIsKeptForTheSameBMCAlone(t *testing.T) {
	t.Parallel()
	node := func(name, address string) inventory.Node {
		return inventory.Node{Name: name, Cluster: "a", BMC: inventory.BMC{Address: address}}
	}
	for name, tt := range map[string]struct {
		next []inventory.Node
		want identity.Facts
	}{
		"the same BMC":                   {[]inventory.Node{node("node-1", "10.9.0.1")}, board1},
		"the same BMC, in another order": {[]inventory.Node{node("node-0", "10.9.0.9"), node("node-1", "10.9.0.1")}, board1},
		"another BMC":                    {[]inventory.Node{node("node-1", "10.9.0.2")}, identity.Facts{}},
		"no BMC":                         {[]inventory.Node{node("node-1", "")}, identity.Facts{}},
		"its BMC at another node":        {[]inventory.Node{node("node-2", "10.9.0.1")}, identity.Facts{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := NewFleet([]inventory.Node{node("node-1", "10.9.0.1")})
			f.Learn("a/node-1", board1)
			f.Replace(tt.next)
			if diff := cmp.Diff(tt.want, f.reported("a/node-1")); diff != "" {
				t.Errorf("known of node-1 (-want +got):\n%s", diff)
			}
			wanted := identity.Nobody
			if tt.want.UUID != "" {
				wanted = identity.Match
			}
			if got := f.Match(board1).Outcome; got != wanted {
				t.Errorf("the machine matches: %v, want %v", got, wanted)
			}
			f.Replace([]inventory.Node{node("node-1", "10.9.0.1")})
			if kept := f.reported("a/node-1").UUID != ""; kept != (tt.want.UUID != "") {
				t.Errorf("back at its old BMC it is known: %t", kept)
			}
		})
	}
}
