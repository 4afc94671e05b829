package provisioner

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/pxe/dhcp"
)

// What DHCP reports of a machine is told once, as an event of its node, and
// moves the node nowhere.
func TestAProblemOfDHCPIsAnEventOfTheNode(t *testing.T) {
	t.Parallel()
	loop := func(mac string) dhcp.Problem {
		return dhcp.Problem{Kind: dhcp.BootLoop, MAC: mac, Message: "it loads iPXE again and again"}
	}
	for name, tc := range map[string]struct {
		state   State
		problem dhcp.Problem
		told    bool
	}{
		"of the node's machine": {PowerCycled, loop(board1.MACs[0]), true},
		"while it boots":        {Booting, loop(board1.MACs[0]), true},
		"of its neighbour":      {PowerCycled, loop(board2.MACs[0]), false},
		"of a stranger":         {PowerCycled, loop("02:00:00:00:00:09"), false},
		"of nobody":             {PowerCycled, loop(""), false},
		"it is not armed":       {Identified, loop(board1.MACs[0]), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := atWork(t, tc.state, step(stageDHCP))
			n := c.nodes["a/node-1"]
			c.ObserveProblem(tc.problem)
			var want transition
			if tc.told {
				want = transition{state: tc.state, step: step(stageDHCP), message: "boot loop: it loads iPXE again and again"}
			}
			got, told := n.followProblem()
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(transition{})); diff != "" || told != tc.told {
				t.Errorf("told %v, want %v\n%s", told, tc.told, diff)
			}
			if _, again := n.followProblem(); again {
				t.Error("it is told twice")
			}
		})
	}
}
