package provisioner

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/talos"
)

// fetching is inLife with delivery by URL, and node-1's token.
func fetching(t *testing.T, s *site, state State, at step) (*Controller, *node, string) {
	t.Helper()
	c, n, _ := inLife(t, s, state, at)
	c.opts.Delivery = DeliverByURL
	n.renewToken()
	return c, n, n.currentToken()
}

var home, stranger = netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.99")

// I3, I9: a machine config is for the armed node that its token was made for.
func TestI3AConfigIsHandedToItsArmedNodeAlone(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		state  State
		step   step
		token  string // "" is the node's own
		source netip.Addr
		want   bool
	}{
		"armed":                        {Booting, stepNone, "", home, true},
		"faster than its BMC":          {Armed, stepPoweringOn, "", home, true},
		"another token":                {Booting, stepNone, "other", home, false},
		"a stranger with its token":    {Booting, stepNone, "", stranger, false},
		"from nowhere":                 {Booting, stepNone, "", netip.Addr{}, false},
		"not powered on yet":           {Armed, stepOff, "", home, false},
		"in maintenance already":       {Maintenance, stepNone, "", home, false},
		"configured":                   {Configured, stepNone, "", home, false},
		"given up":                     {Failed, stepNone, "", home, false},
		"a node that was not prepared": {Pending, stepNone, "", home, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, n, token := fetching(t, &site{}, tt.state, tt.step)
			if tt.token != "" {
				token = tt.token
			}
			got, ok := c.HandOut(token, tt.source)
			if ok != tt.want || ok && string(got.Data) != string(n.config.Data()) {
				t.Errorf("handed out: %t, want %t", ok, tt.want)
			}
		})
	}
}

func TestATokenIsUsedUpByAWholeDownloadAndGivenBackByABrokenOne(t *testing.T) {
	t.Parallel()
	c, n, token := fetching(t, &site{}, Booting, stepNone)
	first, ok := c.HandOut(token, home)
	if _, meanwhile := c.HandOut(token, home); !ok || meanwhile {
		t.Fatalf("first: %t, a second at the same time: %t; want only the first", ok, meanwhile)
	}
	first.Done(false)
	again, ok := c.HandOut(token, home)
	if !ok {
		t.Fatal("after a broken download the token is lost")
	}
	again.Done(true)
	if _, ok := c.HandOut(token, home); ok {
		t.Error("the token is good for a second download")
	}
	if !n.sighted().fetched {
		t.Error("nobody learns that the config was fetched")
	}
}

// A new power cycle makes a new token: the old one is on the command line of a kernel that is gone.
func TestEachBootHasATokenOfItsOwn(t *testing.T) {
	t.Parallel()
	c, n, token := fetching(t, &site{}, Booting, stepNone)
	n.renewToken()
	if _, ok := c.HandOut(token, home); ok || n.currentToken() == token || len(token) < 26 {
		t.Errorf("the token of an earlier boot is good: %t; it has %d characters", ok, len(token))
	}
}

func TestARequestForAConfigFromAnotherAddressIsTold(t *testing.T) {
	t.Parallel()
	c, n, token := fetching(t, &site{}, Booting, stepNone)
	c.HandOut(token, stranger)
	told, ok := n.followProblem()
	if !ok || !strings.Contains(told.message, stranger.String()) || strings.Contains(told.message, token) {
		t.Errorf("told: %t, %q; want the address and no token", ok, told.message)
	}
}

// What was handed out may have been taken, whatever became of the connection: a
// node that may be installing itself is not booted anew (I2, I8).
func TestI2ANodeThatMayHaveFetchedItsConfigIsNotBootedAnew(t *testing.T) {
	t.Parallel()
	s := &site{answers: map[string]talos.Observation{}, running: map[string]talos.Running{}}
	c, n, token := fetching(t, s, Booting, step(stageInitramfs))
	n.seen.stage = stageInitramfs
	if next, err := n.bootFailed(); err == nil && next.state != Pending {
		t.Errorf("a node that was handed nothing goes to %s", next.state)
	}
	handout, _ := c.HandOut(token, home)
	handout.Done(false)
	if next, err := n.bootFailed(); err != nil || next.state != Configured || next.step != stepUnsure {
		t.Errorf("when its time is up: %+v, %v; want Configured, unsure", next, err)
	}
	s.answers["10.0.0.1"] = talos.Observation{State: talos.Configured}
	if _, err := n.probe(t.Context()); causeOf(err) != CauseConfigured {
		t.Errorf("a Talos of another cluster answers: %v, want %q", err, CauseConfigured)
	}
	s.running["10.0.0.1"] = etcdOf(board1, true)
	if next, err := n.probe(t.Context()); err != nil || next.state != Configured {
		t.Errorf("it answers with the cluster's certificate: %+v, %v; want Configured", next, err)
	}
}

// I8: a controller that died may have handed the config out before it could write that down.
func TestI8AResumedNodeThatAnswersWithItsClustersCertificateHasFetchedItsConfig(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		resumed bool
		there   identity.Facts
		cause   Cause
	}{
		"resumed":                    {true, board1, ""},
		"resumed, another machine":   {true, board2, CauseConfigured},
		"a run that handed out none": {false, board1, CauseConfigured}, // siderolabs/talos#6696: its disk was booted
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &site{
				answers: map[string]talos.Observation{"10.0.0.1": {State: talos.Configured}},
				running: map[string]talos.Running{"10.0.0.1": etcdOf(tt.there, true)},
			}
			_, n, _ := fetching(t, s, Booting, step(stageInitramfs))
			n.seen.stage, n.resumed = stageInitramfs, tt.resumed
			next, err := n.probe(t.Context())
			if causeOf(err) != tt.cause || (tt.cause == "") != (next.state == Configured) {
				t.Errorf("%+v, %v; want cause %q", next, err, tt.cause)
			}
		})
	}
}

func TestOnlyNodesThatTakeArgumentsFetchTheirConfig(t *testing.T) {
	t.Parallel()
	c, _, _ := fetching(t, &site{}, Booting, stepNone)
	medium := inventory.Node{}
	medium.BMC.Boot = "virtual-media"
	http := inventory.Node{}
	http.BMC.Boot = "uefi-http"
	for _, tt := range []struct {
		what string
		node inventory.Node
		goal Goal
		want bool
	}{
		{"PXE", inventory.Node{}, UntilReady, true},
		{"UEFI HTTP boot", http, UntilReady, true},
		{"only to maintenance", inventory.Node{}, UntilMaintenance, false},
		{"virtual media", medium, UntilReady, false},
		{"Secure Boot", inventory.Node{SecureBoot: true}, UntilReady, false},
	} {
		if got := c.fetches(tt.node, tt.goal); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.what, got, tt.want)
		}
	}
}
