package provisioner

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/machineconfig"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/talos"
	"github.com/talos-provision/provision/pxe/dhcp"
)

// site is what the nodes of a test are beyond our reach: their Talos, their
// cluster and their BMCs, all scripted.
type site struct {
	mu sync.Mutex
	// answers is what the Talos API without a certificate shows, by host.
	answers map[string]talos.Observation
	// running is what it shows to an administrator, members the etcd of whom is one.
	running map[string]talos.Running
	members map[string]bool
	// applied is what came of each apply, in order; the last answer is repeated.
	applied []error
	// present is the machine that answers at the moment of an apply; nil is the one of answers.
	present *talos.Observation
	// override is the BMCs' boot override; kept BMCs never let go of it.
	override bmc.BootOverride
	kept     bool

	dryRuns, applies, disarms int
	bootstraps                []string
}

func (s *site) Probe(_ context.Context, host string) talos.Observation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers[host]
}

func (s *site) Disks(context.Context, string) ([]talos.Disk, error) {
	return []talos.Disk{{DevPath: "/dev/vda", Type: "ssd", Size: 20 << 30}}, nil
}

func (s *site) Apply(_ context.Context, host string, _ []byte, dryRun bool, confirm func(talos.Observation) error) (talos.Applied, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := s.answers[host]
	if s.present != nil {
		there = *s.present
	}
	if err := confirm(there); err != nil {
		return talos.Applied{}, err
	}
	if dryRun {
		s.dryRuns++
		return talos.Applied{}, nil
	}
	s.applies++
	if len(s.applied) == 0 {
		return talos.Applied{}, nil
	}
	return talos.Applied{}, s.applied[min(s.applies, len(s.applied))-1]
}

func (s *site) Inspect(_ context.Context, host string) talos.Running {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[host]
}

func (s *site) EtcdMembers(_ context.Context, host string) ([]talos.Member, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.members[host] {
		return nil, errors.New("etcd does not run")
	}
	return []talos.Member{{ID: 1}}, nil
}

func (s *site) Bootstrap(_ context.Context, host string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bootstraps = append(s.bootstraps, host)
	return nil
}

// bmcOf is the BMC of one board of the site.
type bmcOf struct {
	*site
	facts identity.Facts
}

func (b bmcOf) Identify(context.Context) (bmc.Identity, error) {
	return bmc.Identity{Facts: b.facts, PowerState: bmc.On}, nil
}

func (b bmcOf) Arm(context.Context, bmc.BootRequest) (bmc.BootOverride, error) {
	return bmc.BootOverride{}, nil
}

func (b bmcOf) Disarm(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.disarms++
	if !b.kept {
		b.override = bmc.BootOverride{Target: "None", Enabled: "Disabled"}
	}
	return nil
}

func (b bmcOf) BootOverride(context.Context) (bmc.BootOverride, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.override, nil
}
func (bmcOf) PowerOff(context.Context) error { return nil }
func (bmcOf) PowerOn(context.Context) error  { return nil }
func (bmcOf) Close(context.Context) error    { return nil }

const controlPlaneConfig = "version: v1alpha1\nmachine:\n  type: controlplane\n  install: {disk: /dev/vda}\ncluster: {clusterName: a}\n"

// configs gives every node the same machine config.
type configs struct{ machineconfig.Config }

func (c configs) Render(inventory.Node) (machineconfig.Config, bool, error) {
	return c.Config, true, nil
}

// inLife is a controller in the middle of a run over the boards node-1 and
// node-2, both control planes of cluster a in the given state, at work on s.
func inLife(t *testing.T, s *site, state State, at step) (c *Controller, first, second *node) {
	t.Helper()
	config, err := machineconfig.Parse([]byte(controlPlaneConfig))
	if err != nil {
		t.Fatal(err)
	}
	state0, err := store.Open(filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = state0.Close() })
	boards := map[string]identity.Facts{"node-1": board1, "node-2": board2}
	c = atWork(t, state, at)
	c.inventory.Nodes = c.inventory.Nodes[:2]
	c.opts.Store, c.opts.Prober, c.inventory.Configs, c.opts.PollInterval = state0, s, configs{config}, time.Millisecond
	c.opts.Budgets.InstallTimeout, c.opts.Budgets.ReadyTimeout = time.Hour, time.Hour
	c.inventory.Access = func(inventory.Node, func(identity.Facts) error) (Admin, error) { return s, nil }
	c.opts.Dial = func(_ context.Context, n inventory.Node) (BMC, error) { return bmcOf{s, boards[n.Name]}, nil }
	for _, n := range c.nodes {
		n.config, n.admin, n.goal = config, s, UntilReady
		n.BMC.Address = "10.9.9.9"
		n.record.Since, n.record.SeenInMaintenance = time.Now(), true
	}
	return c, c.nodes["a/node-1"], c.nodes["a/node-2"]
}

// maintenanceOf is what a board in maintenance shows.
func maintenanceOf(facts identity.Facts) talos.Observation {
	return talos.Observation{
		State: talos.Maintenance, Version: "v1.13.9", Stage: "maintenance", Ready: true,
		Facts: identity.Facts{Serial: facts.Serial, UUID: facts.UUID, MACs: facts.MACs},
	}
}

// etcdOf is what an installed control plane shows to its administrator.
func etcdOf(facts identity.Facts, waiting bool) talos.Running {
	return talos.Running{Reached: true, Facts: facts, Version: "v1.13.9", Stage: "booting", Etcd: talos.Etcd{Waiting: waiting}}
}

func causeOf(err error) Cause {
	if err == nil {
		return ""
	}
	return classify(err).Cause
}

func TestAMaintenanceThatFollowsAConfigIsNamed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		at    step
		since time.Duration
		want  transition
		cause Cause
	}{
		"just after the config it is closing down":   {stepNone, 0, transition{}, ""},
		"long after it is a failure":                 {stepNone, 2 * maintenanceGrace, transition{}, CauseMaintenanceAgain},
		"with an answer lost it is closing down":     {stepUnsure, 0, transition{}, ""},
		"with an answer lost it gets it once more":   {stepUnsure, 2 * unsureGrace, transition{state: Maintenance, step: stepApplying}, ""},
		"and not at once, when it was sent long ago": {stepUnsure, unsureGrace - 5*time.Second, transition{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &site{
				answers: map[string]talos.Observation{"10.0.0.1": maintenanceOf(board1)},
				running: map[string]talos.Running{"10.0.0.1": {WrongPKI: true, State: talos.Maintenance}},
			}
			_, n, _ := inLife(t, s, Configured, tt.at)
			n.record.Since = time.Now().Add(-tt.since)
			got, err := n.lookInstalled(t.Context())
			got.message = ""
			if got != tt.want || causeOf(err) != tt.cause {
				t.Errorf("%+v, %v; want %+v, cause %q", got, err, tt.want, tt.cause)
			}
		})
	}
}

// A lost answer is no refusal and no acceptance: the node is looked at, and gets
// the config again only while it shows that it has none.
func TestAConfigWhoseAnswerIsLostIsNotSentTwiceToANodeThatTookIt(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{
		"answer lost":    fmt.Errorf("apply: %w", talos.ErrOutcomeUnknown),
		"already taken":  fmt.Errorf("apply: %w", talos.ErrApplyInProgress),
		"configured now": fmt.Errorf("apply: %w", talos.ErrNotInMaintenance),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &site{answers: map[string]talos.Observation{"10.0.0.1": maintenanceOf(board1)}, applied: []error{answer}}
			_, n, _ := inLife(t, s, Maintenance, stepApplying)
			n.goal = UntilInstalled
			next, err := n.apply(t.Context())
			if err != nil || next.state != Configured || next.step != stepUnsure {
				t.Fatalf("after the apply: %+v, %v; want Configured, unsure", next, err)
			}
			if err := n.enter(next); err != nil {
				t.Fatal(err)
			}
			s.running = map[string]talos.Running{"10.0.0.1": etcdOf(board1, true)} // it had taken it
			if err := n.live(t.Context()); err != nil || n.state() != Installed || s.applies != 1 {
				t.Errorf("%v: %s (%s) after %d applies, want Installed after one", err, n.state(), n.snapshot().Error, s.applies)
			}
		})
	}
}

// A boot override that the BMC kept would boot the network after the install.
func TestAnOverrideThatTheBMCKeptIsTakenBackBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	kept := bmc.BootOverride{Target: "Pxe", Enabled: "Once", Mode: "UEFI"}
	for name, tt := range map[string]struct {
		override bmc.BootOverride
		kept     bool
		disarms  int
		cause    Cause
		dryRuns  int
	}{
		"gone":             {bmc.BootOverride{Target: "Pxe", Enabled: "Disabled"}, false, 0, "", 1},
		"kept":             {kept, false, 1, "", 1},
		"never lets it go": {kept, true, 1, CauseOverrideKept, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &site{answers: map[string]talos.Observation{"10.0.0.1": maintenanceOf(board1)}, override: tt.override, kept: tt.kept}
			_, n, _ := inLife(t, s, Maintenance, stepNone)
			_, err := configure(t.Context(), n)
			if causeOf(err) != tt.cause || s.disarms != tt.disarms || s.dryRuns != tt.dryRuns || s.applies != 0 {
				t.Errorf("%v, %d disarms, %d dry runs, %d applies; want cause %q, %d, %d, 0", err, s.disarms, s.dryRuns, s.applies, tt.cause, tt.disarms, tt.dryRuns)
			}
		})
	}
}

// I5: the machine at the address may change between any two looks at it.
func TestI5AMachineThatTakesTheAddressMeanwhileGetsNoConfig(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]step{"before the dry run": stepNone, "before the apply": stepApplying} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			neighbour := maintenanceOf(board2)
			s := &site{answers: map[string]talos.Observation{"10.0.0.1": maintenanceOf(board1)}, present: &neighbour}
			_, n, _ := inLife(t, s, Maintenance, at)
			_, err := configure(t.Context(), n)
			if causeOf(err) != CauseWrongMachine || s.dryRuns+s.applies != 0 {
				t.Errorf("%v, %d dry runs, %d applies; want %q and none", err, s.dryRuns, s.applies, CauseWrongMachine)
			}
		})
	}
}

// Talos names itself to a DHCP server otherwise than iPXE does, and may come up
// at another address (siderolabs/talos#11661, #10909, coreos/bugs#1432).
func TestIssue11661ANodeWithoutAStaticAddressIsFoundByItsNewLease(t *testing.T) {
	t.Parallel()
	const inMaintenance, installed = "10.0.0.50", "10.0.0.60"
	s := &site{running: map[string]talos.Running{installed: etcdOf(board1, true)}}
	c, n, _ := inLife(t, s, Configured, stepNone)
	n.IP, n.record.Address, n.goal = "", inMaintenance, UntilInstalled
	c.ObserveLease(dhcp.Lease{MAC: board1.MACs[0], IP: netip.MustParseAddr(installed), Class: dhcp.ClassPlain})
	if diff := cmp.Diff([]string{installed, inMaintenance}, n.hosts()); diff != "" {
		t.Errorf("where it is looked for (-want +got):\n%s", diff)
	}
	if err := n.live(t.Context()); err != nil || n.state() != Installed || n.snapshot().Address != installed {
		t.Errorf("%v: %s at %q, want it Installed at %s", err, n.state(), n.snapshot().Address, installed)
	}
}

// I6: what the control planes say of etcd decides whether a node bootstraps it.
func TestI6EtcdIsBootstrappedOnlyWhenEveryControlPlaneIsKnownToHaveNone(t *testing.T) {
	t.Parallel()
	waiting, silent := etcdOf(board2, true), talos.Running{}
	for name, tt := range map[string]struct {
		other  State // of node-2
		at     step
		seen   bool // in maintenance, in this run
		shows  talos.Running
		member bool
		waits  string // "" says that node-1 bootstraps, or knows that there is a member
		asked  int
	}{
		"both wait":                                {Installed, stepNone, true, waiting, false, "", 1},
		"the other is a member":                    {Installed, stepNone, true, etcdOf(board2, false), true, "", 0},
		"the other is in no known state":           {Installed, stepNone, true, etcdOf(board2, false), false, "neither waiting", 0},
		"the other is silent":                      {Installed, stepNone, true, silent, false, "does not answer", 0},
		"the other boots":                          {Booting, stepNone, false, silent, false, "is still Booting", 0},
		"the other installs itself":                {Configured, stepNone, true, silent, false, "is still Configured", 0},
		"the other failed before maintenance":      {Failed, stepNone, false, silent, false, "mend it", 0},
		"the other failed after maintenance":       {Failed, stepNone, true, silent, false, "", 1},
		"the other is held":                        {Held, stepNone, false, silent, false, "mend it", 0},
		"the other was told to bootstrap and fell": {Failed, stepBootstrapping, true, silent, false, "does not answer", 0},
		"and it is a member":                       {Failed, stepBootstrapping, true, etcdOf(board2, false), true, "", 0},
		"waits, and was not in maintenance":        {Installed, stepNone, false, waiting, false, "watched for a while", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &site{
				running: map[string]talos.Running{"10.0.0.1": etcdOf(board1, true), "10.0.0.2": tt.shows},
				members: map[string]bool{"10.0.0.2": tt.member},
			}
			_, n, other := inLife(t, s, Installed, stepNone)
			other.record.State, other.record.Step, other.record.SeenInMaintenance = string(tt.other), string(tt.at), tt.seen
			if err := n.bootstrap(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(s.bootstraps) != tt.asked || (tt.waits == "") != (n.bootstrapWaits == "") || !strings.Contains(n.bootstrapWaits, tt.waits) {
				t.Errorf("bootstrapped %v, waits for %q; want %d times, %q", s.bootstraps, n.bootstrapWaits, tt.asked, tt.waits)
			}
		})
	}
}

// I6: a node that was told to bootstrap and was given up afterwards is not forgotten.
func TestI6AFailedBootstrapIsRememberedByTheOthers(t *testing.T) {
	t.Parallel()
	s := &site{running: map[string]talos.Running{"10.0.0.1": etcdOf(board1, true), "10.0.0.2": etcdOf(board2, true)}}
	_, first, second := inLife(t, s, Installed, stepNone)
	if err := first.bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.giveUp(failed(CauseNotReady, "it took too long")); err != nil {
		t.Fatal(err)
	}
	delete(s.running, "10.0.0.1") // and nobody can ask it
	if err := second.bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"10.0.0.1"}, s.bootstraps); diff != "" {
		t.Errorf("bootstraps (-want +got):\n%s", diff)
	}
}

// A node does not fail because a control plane of its cluster takes longer to be installed.
func TestAnInstalledNodeWaitsForTheControlPlanesThatAreOnTheirWay(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		other State
		since time.Duration
		fails bool
	}{
		"still booting":       {Booting, 0, false},
		"still installing":    {Configured, 2 * time.Hour, false},
		"installed just now":  {Installed, 0, false},
		"installed long ago":  {Installed, 2 * time.Hour, true},
		"ready":               {Ready, 0, true},
		"given up":            {Failed, 0, true},
		"held for its safety": {Held, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, n, other := inLife(t, &site{}, Installed, stepNone)
			n.record.Since = time.Now().Add(-2 * time.Hour)
			other.record.State, other.record.Since = string(tt.other), time.Now().Add(-tt.since)
			if _, err := n.readyFailed(); (err != nil) != tt.fails {
				t.Errorf("%v, want a failure: %t", err, tt.fails)
			}
		})
	}
}
