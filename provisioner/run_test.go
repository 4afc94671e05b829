package provisioner

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/provisioner/machineconfig"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/store/storetest"
)

// Runs over different clusters do not wait for each other.
func TestRunsOverDifferentClustersGoOnAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1, nodeOf("a", 1), nodeOf("a", 2), nodeOf("b", 3), nodeOf("b", 4))
		l.power.Parallel = 4
		c := l.open()
		defer l.close()
		ended := make(chan []string)
		for _, cluster := range []string{"a", "b"} {
			go func() {
				summary, err := l.run(c, l.request(cluster))
				if err != nil {
					t.Error(err)
				}
				ended <- names(summary.Done)
			}()
		}
		done := slices.Concat(<-ended, <-ended)
		slices.Sort(done)
		if diff := cmp.Diff([]string{"a/node-1", "a/node-2", "b/node-3", "b/node-4"}, done); diff != "" {
			t.Errorf("done (-want +got):\n%s", diff)
		}
		lastOn, firstUp := l.deeds("", didOn)[3].at, l.deeds("", didUp)[0].at
		if !lastOn.Before(firstUp) {
			t.Errorf("the last machine was switched on at %s, after the first was up at %s: one run waited for the other", lastOn, firstUp)
		}
		l.check()
	})
}

// A run is refused, and touches nothing, while another works on its cluster or on
// one of its nodes.
func TestARunIsRefusedWhileAnotherWorksOnItsClusterOrNodes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		request func(*lab) Request
		claim   []string // by somebody else
	}{
		"the same nodes":                     {func(l *lab) Request { return l.request("a") }, nil},
		"other nodes of the cluster":         {func(l *lab) Request { r := l.request("a"); r.Selected = r.Selected[1:2]; return r }, nil},
		"a node that another has claimed":    {func(l *lab) Request { return l.request("b") }, []string{"b/node-3"}},
		"one of several that are claimed":    {func(l *lab) Request { return l.request("b") }, []string{"b/node-4", "b/node-5"}},
		"in a cluster that an upgrade holds": {func(l *lab) Request { return l.request("b") }, []string{"b/node-3", "b/node-4"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, 1, nodeOf("a", 1), nodeOf("a", 2), nodeOf("b", 3), nodeOf("b", 4))
				l.nodes[1].Install = false // the first run leaves it out
				c := l.open()
				defer l.close()
				first := make(chan error)
				go func() {
					_, err := l.run(c, l.request("a"))
					first <- err
				}()
				time.Sleep(15 * time.Second) // fake: it is in the middle
				if tt.claim != nil {
					if _, err := l.state.Claim(t.Context(), tt.claim, "upgrade"); err != nil {
						t.Fatal(err)
					}
				}
				second := tt.request(l)
				for i := range second.Selected {
					second.Selected[i].Install = true
				}
				plan, err := c.Plan(t.Context(), second)
				if err != nil {
					t.Fatal(err)
				}
				before := len(l.deeds("", didArm, didOff, didOn))
				events := len(l.events)
				_, err = c.Run(t.Context(), plan)
				if !errors.Is(err, ErrBusy) {
					t.Errorf("error %v, want %v", err, ErrBusy)
				}
				if after := len(l.deeds("", didArm, didOff, didOn)); after != before || len(l.events) != events {
					t.Errorf("%d requests and %d events of a run that was refused", after-before, len(l.events)-events)
				}
				for _, p := range plan.Nodes {
					if r, _, _ := l.state.Node(p.Cluster, p.Node); r.Run == plan.RunID() && p.Cluster != "a" {
						t.Errorf("%s/%s was recorded: %+v", p.Cluster, p.Node, r)
					}
				}
				if err := <-first; err != nil {
					t.Errorf("the first run: %v", err)
				}
			})
		})
	}
}

// After a run its nodes and its cluster are free again, also after one that was refused.
func TestARunLetsGoOfItsNodesInTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1, nodeOf("a", 1))
		c := l.open()
		defer l.close()
		for i := range 3 {
			summary, err := l.run(c, l.request("a"))
			if err != nil || len(summary.Done) != 1 {
				t.Fatalf("run %d: %+v, %v", i, summary, err)
			}
		}
		if holders, err := l.state.Holders(); err != nil || len(holders) != 0 {
			t.Errorf("%v are claimed after the runs, %v", holders, err)
		}
		if ons := l.deeds("a/node-1", didOn); len(ons) != 1 { // I8
			t.Errorf("%d power-ons in three runs, want 1", len(ons))
		}
	})
}

// Without its state a controller does nothing: from the first write that fails on
// nothing is asked of any BMC, the run ends with the error, and another goes on.
func TestI6NothingIsTouchedOnceTheStateIsOutOfReach(t *testing.T) {
	t.Parallel()
	const soon, untilTheNextRequest = 5 * time.Second, 41 * time.Second // it boots, and there is nothing to write
	for state, within := range map[State]time.Duration{Pending: soon, Identified: soon, Armed: soon, PowerCycled: untilTheNextRequest, Booting: untilTheNextRequest} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, 1, nodeOf("a", 1), nodeOf("a", 2), nodeOf("a", 3))
				l.power.Parallel = 1
				var closed time.Time
				l.onEvent = func(e store.Event) {
					if State(e.State) == state && closed.IsZero() {
						closed = time.Now()
						_ = l.state.Close()
					}
				}
				if _, err := l.run(l.open(), l.request("a")); err == nil {
					t.Error("the run ended without an error")
				}
				if closed.IsZero() || time.Since(closed) > within {
					t.Fatalf("the run ended %s after the state was gone, and a node that waits for its turn is not to wait on", time.Since(closed))
				}
				time.Sleep(time.Hour) // fake: nothing comes later either
				for _, e := range l.deeds("", didArm, didFailArm, didOff, didOn) {
					if e.at.Sub(closed) > latency {
						t.Errorf("%s: %s, %s after the state was gone", e.m.name, e.what, e.at.Sub(closed))
					}
				}
				l.kill()
				l.onEvent = nil
				summary, err := l.run(l.open(), l.request("a"))
				if err != nil || len(summary.Done) != 3 {
					t.Errorf("the next controller: %d done, %v", len(summary.Done), err)
				}
				l.close()
				for _, n := range l.nodes {
					if ons := l.deeds(n.ID(), didOn); len(ons) != 1 {
						t.Errorf("%s was switched on %d times", n.ID(), len(ons))
					}
				}
				l.check()
			})
		})
	}
}

// A controller works on its own site alone: no BMC of another is even dialled.
func TestNodesOfAnotherSiteAreNeitherAskedNorTouched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sites := []string{"north", "south", ""}
		l := newLab(t, 1, nodeOf("a", 1), nodeOf("a", 2), nodeOf("a", 3))
		for i, site := range sites {
			l.nodes[i].Labels = map[string]string{SiteLabel: site}
		}
		l.nodes[2].Labels = nil
		l.site = "north"
		l.w.hook = func(what string, m *machine) {
			if m.name != "a/node-1" {
				t.Errorf("the BMC of %s was asked to %s", m.name, what)
			}
		}
		summary, err := l.run(l.open(), l.request("a"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.close()
		if len(summary.Done) != 1 || len(summary.Skipped) != 2 {
			t.Errorf("%d done, %d skipped; want 1 and 2", len(summary.Done), len(summary.Skipped))
		}
		records, err := l.state.Nodes("")
		if err != nil || len(records) != 1 {
			t.Errorf("records of %v, %v; want node-1 alone", names(records), err)
		}
	})
}

const secretConfig = "version: v1alpha1\nmachine:\n  type: worker\n  token: abcdef.THE-SECRET\n  install: {disk: /dev/vda}\ncluster: {clusterName: a}\n"

// I9: neither a machine config nor the token that it is fetched with is in any byte of the state.
func TestI9TheStateHoldsNoMachineConfigAndNoToken(t *testing.T) {
	t.Parallel()
	for _, delivery := range []Delivery{DeliverByAPI, DeliverByURL} {
		t.Run(string(delivery), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				config, err := machineconfig.Parse([]byte(secretConfig))
				if err != nil {
					t.Fatal(err)
				}
				l := newLab(t, 1, nodeOf("a", 1))
				c := l.open()
				c.opts.Delivery = delivery
				c.SetInventory(Inventory{Nodes: l.nodes, Configs: configs{config}})
				request := l.request("a")
				request.Until = UntilConfigured
				summary, err := l.run(c, request)
				if err != nil || len(summary.Done) != 1 {
					t.Fatalf("%+v, %v", summary, err)
				}
				l.close()
				if len(l.w.tokens) == 0 || delivery == DeliverByURL && l.w.tokens[0] == "" {
					t.Fatal("no script was served with a token")
				}
				state := string(storetest.Dump(t, l.path))
				for _, secret := range append(l.w.tokens, "THE-SECRET") {
					if secret != "" && strings.Contains(state, secret) {
						t.Errorf("the state holds %q", secret)
					}
				}
				if !strings.Contains(state, "took its machine config") && !strings.Contains(state, "fetched its machine config") {
					t.Error("the state was not looked at")
				}
			})
		})
	}
}

// I8: a run that goes on with some of its nodes only is not over: the next one goes
// on with the others where they were left.
func TestI8NodesThatARunLeftInTheMiddleAreNotForgottenByOneOverOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1, nodeOf("a", 1), nodeOf("a", 2))
		all := l.request("a")
		// Killed when both boot.
		booting, killed := 0, make(chan struct{})
		l.onEvent = func(e store.Event) {
			if State(e.State) == PowerCycled && State(e.Previous) == Armed {
				if booting++; booting == 2 {
					go func() { l.kill(); close(killed) }()
				}
			}
		}
		c := l.open()
		_, _ = l.run(c, all)
		<-killed
		l.onEvent = nil
		first := all
		first.Selected = all.Selected[:1]
		for _, r := range []Request{first, all} {
			c = l.open()
			plan, err := c.Plan(l.context(), r)
			if err != nil || plan.Resumes == "" || plan.Nodes[len(plan.Nodes)-1].Action != ActionResume {
				t.Fatalf("plan resumes %q, %v: want one that goes on with the run, also of the last node", plan.Resumes, err)
			}
			if _, err := c.Run(l.context(), plan); err != nil {
				t.Fatal(err)
			}
			l.close()
		}
		l.open()
		defer l.close()
		for _, id := range []string{"a/node-1", "a/node-2"} {
			// The second asked for its script while no run worked on it, and booted its own disk.
			if n, attempts := len(l.deeds(id, didOn)), l.record(id).Attempts; n != attempts {
				t.Errorf("%s was powered on %d times, and %d attempts are counted", id, n, attempts)
			}
			if state := State(l.record(id).State); state != Maintenance {
				t.Errorf("%s is %s", id, state)
			}
		}
	})
}

// I8: a node without a static address may have come up while no controller was there:
// it is looked for where DHCP put it.
func TestI8AResumedNodeIsLookedForWhereDHCPPutIt(t *testing.T) {
	t.Parallel()
	const leased = "10.0.0.99"
	for name, tt := range map[string]struct {
		change func(*node)
		want   string
	}{
		"resumed":                {func(*node) {}, leased},
		"begun anew":             {func(n *node) { n.resumed = false }, ""},
		"with a static address":  {func(n *node) { n.IP = "10.0.0.1" }, "10.0.0.1"},
		"whose address is known": {func(n *node) { n.record.Address = "10.0.0.7" }, "10.0.0.7"},
		"without a lease":        {func(n *node) { n.record.Facts = board3 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := atWork(t, PowerCycled, stepNone)
			c.opts.Leases = func() map[string]netip.Addr {
				return map[string]netip.Addr{board1.MACs[0]: netip.MustParseAddr(leased)}
			}
			n := c.nodes["a/node-1"]
			n.IP, n.resumed, n.record.Facts = "", true, board1
			tt.change(n)
			c.placeByLeases([]*node{n})
			if got := n.host(); got != tt.want {
				t.Errorf("it is looked for at %q, want %q", got, tt.want)
			}
		})
	}
}
