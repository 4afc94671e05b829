package provisioner

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/talos"
)

// bootStage is how far a node's own requests show it to have come since it was
// powered on (I4). Later stages compare greater by rank.
type bootStage string

const (
	stageNone      bootStage = ""
	stageDHCP      bootStage = "dhcp"
	stageBinary    bootStage = "ipxe"
	stageScript    bootStage = "script"
	stageUKI       bootStage = "uki"
	stageKernel    bootStage = "kernel"
	stageInitramfs bootStage = "initramfs"
	stageImage     bootStage = "image"
)

// stages ranks the boot stages, says what reaching one means, and what it means to get no further.
var stages = map[bootStage]struct {
	rank    int
	message string
	stuck   Cause
}{
	stageNone:      {0, "", CauseNoDHCP},
	stageDHCP:      {1, "its firmware got an address", CauseNoScript},
	stageBinary:    {2, "iPXE was loaded", CauseNoScript},
	stageScript:    {3, "its install script was served", CauseImageNotFinished},
	stageUKI:       {3, "its firmware asked for the signed image", CauseImageNotFinished},
	stageKernel:    {4, "the kernel was downloaded", CauseImageNotFinished},
	stageInitramfs: {5, "kernel and initramfs were downloaded", CauseKernelNeverCameUp},
	stageImage:     {5, "its image was downloaded", CauseMedium},
}

// sighted is what the node's own requests told since it was last powered on.
type sighted struct {
	stage   bootStage
	source  netip.Addr // where its latest request came from
	refused string     // why a machine that is, or may be, this node got no install script
	fetched bool       // it fetched its machine config by URL
	// handedOut: its machine config was given to it by URL; all of it may have reached it.
	handedOut bool
	again     bool // it asked for a script after its install
	landing   bool // and that was not told yet

	progress *store.Progress // of a download, not yet an event
	told     telling
	problem  string // that DHCP reported, not yet an event
}

// see notes a request of the node. Called by the boot services.
func (n *node) see(stage bootStage, source netip.Addr) {
	n.mu.Lock()
	if stages[stage].rank > stages[n.seen.stage].rank {
		n.seen.stage = stage
	}
	if source.IsValid() {
		n.seen.source = source
	}
	n.mu.Unlock()
	n.wake()
}

// wake lets the node's goroutine look at what was seen.
func (n *node) wake() {
	select {
	case n.notify <- struct{}{}:
	default:
	}
}

// refuse notes why a machine that is, or may be, this node was sent to its own disk.
func (n *node) refuse(reason string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen.refused = reason
}

// forget drops what was seen before a new power-on.
func (n *node) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen = sighted{}
}

// landed notes that an installed node, or one that installs itself, asked for a
// boot script: its firmware went to the network, not to its disk.
func (n *node) landed(state State, source netip.Addr) {
	if state != Configured && state != Installed {
		return
	}
	n.mu.Lock()
	n.seen.again, n.seen.landing = true, true
	if source.IsValid() {
		n.seen.source = source
	}
	n.mu.Unlock()
	n.wake()
}

// landedAgain says, once for each time, that the node asked for a boot script after its install.
func (n *node) landedAgain() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	landing := n.seen.landing
	n.seen.landing = false
	return landing
}

func (n *node) sighted() sighted {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen
}

// awaitMaintenance is the handler of PowerCycled and Booting: it follows the
// node's own requests and looks at its Talos API until that confirms it (I5),
// or until its time is up.
func awaitMaintenance(ctx context.Context, n *node) (transition, error) {
	deadline := time.NewTimer(remaining(n.snapshot().LastPowerOn, n.c.budgets().BootTimeout))
	defer deadline.Stop()
	poll := time.NewTicker(n.pace())
	defer poll.Stop()
	for {
		if next, moved := n.followBoot(); moved {
			return next, nil
		}
		if n.sighted().fetched {
			n.lastMiss = "" // of the machine before it had its config
			return transition{state: Configured, message: "fetched its machine config and installs itself"}, nil
		}
		if next, further := n.followProgress(); further {
			return next, nil
		}
		if next, wrong := n.followProblem(); wrong {
			return next, nil
		}
		select {
		case <-ctx.Done():
			return transition{}, ctx.Err()
		case <-n.notify:
		case <-deadline.C:
			// A look before it is given up: it may have come up while no controller was there to see (I8).
			if next, err := n.probe(ctx); err != nil || next.state != "" {
				return next, err
			}
			return n.bootFailed()
		case <-poll.C:
			if next, err := n.probe(ctx); err != nil || next.state != "" {
				return next, err
			}
		}
	}
}

// looksOften is how many looks at a node there are in one PollInterval once its kernel can be up.
const looksOften = 4

// pace is how often the node's Talos API is looked at, until it is seen in
// another stage of its boot. Its own requests tell when the API may soon be up;
// before that a look is only for what they did not tell, for instance because no
// controller was there to hear them (I8).
func (n *node) pace() time.Duration {
	const seldom = 5
	poll := n.c.opts.PollInterval
	switch {
	case stages[n.sighted().stage].rank >= stages[stageInitramfs].rank:
		return poll / looksOften
	case bootKind(n.Node) == bmc.BootMedia: // its BMC reads the image, and the node asks for nothing
		return poll
	}
	return seldom * poll
}

// followBoot tells of a boot stage that is newer than the recorded one.
func (n *node) followBoot() (transition, bool) {
	seen, record := n.sighted(), n.snapshot()
	recorded := stageNone
	if State(record.State) == Booting {
		recorded = bootStage(record.Step)
	}
	if stages[seen.stage].rank <= stages[recorded].rank {
		return transition{}, false
	}
	n.remember(n.noteSource)
	return transition{state: Booting, step: step(seen.stage), message: stages[seen.stage].message}, true
}

// noteSource writes down where DHCP put a node that has no static address and is not
// confirmed yet: a controller that goes on would not know where to look.
func (n *node) noteSource(r *store.Node) {
	if n.IP == "" && !r.SeenInMaintenance && n.seen.source.IsValid() {
		r.Address = n.seen.source.String()
	}
}

// host is where the node's Talos API is looked for: its static address, else
// where its requests came from.
func (n *node) host() string {
	if n.IP != "" {
		return n.IP
	}
	if source := n.sighted().source; source.IsValid() {
		return source.String()
	}
	return n.snapshot().Address
}

// hosts are where the Talos API of an installed node may be: at its static
// address alone if it has one; else where its latest lease is, or where it was
// confirmed: Talos names itself to a DHCP server otherwise than iPXE does, and
// may get another address (siderolabs/talos#11661, #10909).
func (n *node) hosts() []string {
	if n.IP != "" {
		return []string{n.IP}
	}
	var hosts []string
	if source := n.sighted().source; source.IsValid() {
		hosts = append(hosts, source.String())
	}
	if known := n.snapshot().Address; known != "" && !slices.Contains(hosts, known) {
		hosts = append(hosts, known)
	}
	return hosts
}

// rememberAddress notes where the node answered and in which version.
func (n *node) rememberAddress(host, version string) {
	n.remember(func(r *store.Node) { r.Address, r.TalosVersion = host, version })
}

// probe looks at the node's Talos API once. The zero transition means: not yet.
func (n *node) probe(ctx context.Context) (transition, error) {
	host := n.host()
	if host == "" {
		return transition{}, nil
	}
	o := n.c.opts.Prober.Probe(ctx, host)
	if err := ctx.Err(); err != nil {
		return transition{}, err
	}
	switch o.State {
	case talos.Maintenance:
		if n.over && n.c.confirm(n.Node, o) == "" {
			return transition{}, failed(CauseMaintenanceAgain, "it was booted over its installation, and its disk has no config: it is in maintenance at %s. Nothing was written", host)
		}
		if n.lastMiss = n.c.confirm(n.Node, o); n.lastMiss != "" {
			return transition{}, nil
		}
		n.eject(ctx)
		n.rememberAddress(host, o.Version)
		n.remember(func(r *store.Node) { r.SeenInMaintenance, r.TalosFacts = true, o.Facts })
		return transition{state: Maintenance, message: confirmation(host, o)}, nil
	case talos.Configured:
		if n.fetchedBefore(ctx, host) {
			return n.mayHaveFetched(), nil
		}
		loaded := stages[n.sighted().stage].rank >= stages[stageInitramfs].rank
		if n.over && loaded {
			n.rememberAddress(host, n.TalosVersion)
			return transition{state: Installed, message: "runs Talos " + n.TalosVersion + " from the network, over its installation"}, nil
		}
		if loaded {
			return transition{}, failed(CauseConfigured, "it booted from the network and came up configured: its disk holds an installation")
		}
		n.lastMiss = "a configured Talos answers at " + host + ", and it is not known whose"
	case talos.Unreachable:
		return transition{}, n.lookElsewhere(ctx)
	}
	return transition{}, nil
}

func confirmation(host string, o talos.Observation) string {
	if o.Version == "" {
		return "Talos is up in maintenance at " + host
	}
	return fmt.Sprintf("Talos %s is up in maintenance at %s", o.Version, host)
}

// bootFailed decides what follows when the node's time is up: another attempt
// while the budget lasts (I7), else failure with what was seen last.
func (n *node) bootFailed() (transition, error) {
	if n.sighted().handedOut {
		return n.mayHaveFetched(), nil
	}
	cause, reason := n.stuck()
	attempts, budget := n.snapshot().Attempts, n.c.budgets().Attempts
	if attempts < budget {
		return transition{state: Pending, message: fmt.Sprintf("attempt %d of %d: %s; it is tried again", attempts, budget, reason)}, nil
	}
	return transition{}, failed(cause, "%s, in %d attempts of %s", reason, attempts, n.c.budgets().BootTimeout)
}

// stuck says how far the node came, and the cause class that this points to.
func (n *node) stuck() (Cause, string) {
	if n.lastMiss != "" {
		return CauseWrongMachine, fmt.Sprintf("at %s %s", n.host(), n.lastMiss)
	}
	seen := n.sighted()
	stage := seen.stage
	switch {
	case seen.refused != "" && stages[stage].rank < stages[stageScript].rank:
		return CauseIdentity, "a machine that asked for its install script was sent to its own disk: " + seen.refused
	case bootKind(n.Node) == bmc.BootMedia:
		return CauseMedium, "its Talos API never answered after it was started from the virtual medium"
	case n.SecureBoot && signedStuck[stage] != "":
		return signedStuck[stage], "the last thing seen was that " + stages[stage].message
	case stage == stageNone:
		return stages[stage].stuck, "no request of it reached the boot services"
	}
	return stages[stage].stuck, "the last thing seen was that " + stages[stage].message
}
