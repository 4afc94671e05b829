package provisioner

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/provisioner/talos"
)

// I6: of two controllers that share a state one bootstraps a cluster, and the other
// waits as long as the first may have done so without showing it yet.
func TestI6AClusterIsBootstrappedByOneControllerAlone(t *testing.T) {
	t.Parallel()
	s := &site{
		running: map[string]talos.Running{"10.0.0.1": etcdOf(board1, true), "10.0.0.2": etcdOf(board2, true)},
		members: map[string]bool{},
	}
	_, first, _ := inLife(t, s, Installed, stepNone)
	other, second, _ := inLife(t, s, Installed, stepNone)
	other.opts.Store = first.c.opts.Store

	if err := first.bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 { // at each look, while etcd of the first does not run yet
		if err := second.bootstrap(t.Context()); err != nil || !strings.Contains(second.bootstrapWaits, "another controller") || second.bootstrapped {
			t.Errorf("the second controller: %v, waits for %q", err, second.bootstrapWaits)
		}
	}
	if diff := cmp.Diff([]string{"10.0.0.1"}, s.bootstraps); diff != "" {
		t.Errorf("bootstraps (-want +got):\n%s", diff)
	}
	s.running["10.0.0.1"], s.members["10.0.0.1"] = etcdOf(board1, false), true
	first.yieldBootstrap(t.Context())
	if err := second.bootstrap(t.Context()); err != nil || !second.bootstrapped || second.bootstrapClaim != nil {
		t.Errorf("when there is a member: %v, knows of it: %t, keeps the right: %t", err, second.bootstrapped, second.bootstrapClaim != nil)
	}
	if len(s.bootstraps) != 1 {
		t.Errorf("bootstraps %v, want one", s.bootstraps)
	}
}

// I6: the right to bootstrap is kept from before the control planes are asked until
// the node's run ends, and is given back then, also when it ends badly.
func TestTheRightToBootstrapIsGivenBackWithTheNode(t *testing.T) {
	t.Parallel()
	ready := etcdOf(board1, false)
	ready.Stage, ready.Ready, ready.Kubernetes = "running", true, talos.Node{Name: "node-1", Registered: true, Ready: true}
	for name, tt := range map[string]struct {
		shows talos.Running
		state State
	}{
		"ready":            {ready, Ready},
		"never ready, and": {etcdOf(board1, true), Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &site{running: map[string]talos.Running{"10.0.0.1": etcdOf(board1, true), "10.0.0.2": etcdOf(board2, true)}}
			c, n, other := inLife(t, s, Installed, stepNone)
			other.record.State = string(Failed)
			if err := n.bootstrap(t.Context()); err != nil {
				t.Fatal(err)
			}
			if holders, err := c.opts.Store.Holders(); err != nil || len(holders) != 1 || len(s.bootstraps) != 1 {
				t.Fatalf("holders %v, %v, bootstraps %v; want one of each", holders, err, s.bootstraps)
			}
			s.running["10.0.0.1"] = tt.shows
			c.opts.Budgets.ReadyTimeout = 1
			if err := n.live(t.Context()); err != nil || n.state() != tt.state {
				t.Fatalf("%s, %v; want %s", n.state(), err, tt.state)
			}
			if holders, err := c.opts.Store.Holders(); err != nil || len(holders) != 0 {
				t.Errorf("afterwards %v have it, %v", holders, err)
			}
		})
	}
}
