package provisioner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/machineconfig"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/talos"
	"github.com/talos-provision/provision/pxe/httpboot"
)

// Action is what a run would do to a node.
type Action string

// The actions.
const (
	ActionInstall   Action = "install"   // arm, power cycle, boot, confirm
	ActionResume    Action = "resume"    // go on where an interrupted run stopped, without another power cycle where one was done
	ActionConfigure Action = "configure" // already in maintenance and confirmed: gets its machine config, without a power cycle
	ActionFollow    Action = "follow"    // already has this cluster's config: it is only waited for
	ActionDone      Action = "done"      // already where the run would take it, and confirmed: nothing to do
	ActionSkip      Action = "skip"      // not part of the run
	ActionHold      Action = "hold"      // refused for safety (I1, I2)
	ActionFail      Action = "fail"      // cannot be done as things are
)

// PlanNode is what a run would do to one node, and why.
type PlanNode struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	Action  Action `json:"action"`
	// Until is how far the run takes the node.
	Until  Goal   `json:"until,omitempty"`
	Reason string `json:"reason"`
	Hint   string `json:"hint,omitempty"`
	Cause  Cause  `json:"cause,omitempty"`

	BMC          string         `json:"bmc,omitempty"`
	Vendor       string         `json:"vendor,omitempty"`
	Model        string         `json:"model,omitempty"`
	Power        string         `json:"power,omitempty"`
	IdentifiedBy identity.Key   `json:"identifiedBy,omitempty"`
	Facts        identity.Facts `json:"facts,omitzero"`
	TalosVersion string         `json:"talosVersion,omitempty"`
	SchematicID  string         `json:"schematicID,omitempty"`
	Arch         string         `json:"arch,omitempty"`
	SecureBoot   bool           `json:"secureBoot,omitempty"` // boots the signed image
	KernelArgs   string         `json:"kernelArgs,omitempty"`
	// Reinstall says that it was named with --reinstall: a configured Talos on it is wiped (I2).
	Reinstall bool `json:"reinstall,omitempty"`

	node inventory.Node
	// host is where its Talos API was looked for; "" when its address is not known yet.
	host string
	// config is its machine config, where the goal needs one.
	config machineconfig.Config
	// talosFacts are what Talos reported there.
	talosFacts identity.Facts
	// found is the state that the node is in already, when Action is configure, follow or done.
	found State
	// failure is why, when Action is hold or fail.
	failure *Failure
	// record is what an unfinished run left of the node, when Action is resume.
	record store.Node
}

// Plan is what a run would do. Making it powers nothing and writes nothing.
type Plan struct {
	Cluster string `json:"cluster"`
	// Resumes is the unfinished run that a run would carry on, if any.
	Resumes string     `json:"resumes,omitempty"`
	Nodes   []PlanNode `json:"nodes"`

	request Request
	id      string // of the run that would carry it out
	site    string
}

// RunID names the run that carries the plan out.
func (p Plan) RunID() string { return p.id }

// Digest is the same for two plans that would do the same to the same nodes.
// Whether a node is on at the moment, and the words of the reasons, do not count.
func (p Plan) Digest() string {
	sum := sha256.New()
	for _, n := range p.Nodes {
		_, _ = fmt.Fprintf(sum, "%q %q %q %q %q %q %q %q %q %q %t %t %q\n", n.node.ID(), n.Action, n.Until, n.Cause, n.BMC, n.Facts, n.TalosVersion, n.SchematicID, n.Arch, n.KernelArgs, n.Reinstall, n.SecureBoot, n.config.Digest())
	}
	_, _ = fmt.Fprintf(sum, "%q %q\n", p.Resumes, p.request.MaxFailures)
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// worked are the nodes that are part of the run.
func (p Plan) worked() []PlanNode {
	var nodes []PlanNode
	for _, n := range p.Nodes {
		if n.Action != ActionSkip {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// Count returns how many nodes the plan has with any of these actions.
func (p Plan) Count(actions ...Action) int {
	count := 0
	for _, n := range p.Nodes {
		for _, a := range actions {
			if n.Action == a {
				count++
			}
		}
	}
	return count
}

// Plan looks at the BMC and at the Talos API of every selected node that is
// marked install: true, and decides what a run would do. It needs every BMC's
// answer before it judges any, because a serial on two boards identifies
// neither (I1). It fails only when ctx ends or the state cannot be read.
func (c *Controller) Plan(ctx context.Context, request Request) (Plan, error) {
	plan := Plan{Cluster: request.Cluster, Nodes: make([]PlanNode, len(request.Selected)), request: request}
	unfinished, err := c.unfinishedRun(request.Cluster)
	if err != nil {
		return Plan{}, err
	}
	plan.Resumes, plan.site = unfinished, c.opts.Site
	if plan.id = unfinished; plan.id == "" {
		plan.id = newRunID(time.Now())
	}
	c.forgetConfigs(request.Selected)

	sightings := make([]sighting, len(request.Selected))
	var group errgroup.Group
	group.SetLimit(bmcParallel)
	for i, n := range request.Selected {
		group.Go(func() error {
			var err error
			sightings[i], err = c.look(ctx, n, unfinished)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return Plan{}, err
	}
	if err := ctx.Err(); err != nil {
		return Plan{}, fmt.Errorf("plan %s: %w", request.Cluster, err)
	}
	for i, n := range request.Selected {
		plan.Nodes[i] = c.judge(n, sightings[i], request)
	}
	return plan, nil
}

// sighting is what was seen of one node before anything was decided.
type sighting struct {
	identity bmc.Identity
	host     string // where its Talos API was looked for
	err      error  // of the BMC
	talos    talos.Observation
	running  talos.Running // of a configured node whose cluster's talosconfig is known
	record   store.Node    // what earlier runs left of it
	inFlight bool          // an unfinished run may have power cycled it already
	hold     *store.Hold   // a person asked for it not to be touched
}

// look asks the BMC and the Talos API of one node, and changes nothing on either.
func (c *Controller) look(ctx context.Context, n inventory.Node, unfinished string) (sighting, error) {
	var s sighting
	if !n.Install || c.elsewhere(n) {
		return s, nil
	}
	var err error
	if s.record, s.inFlight, err = c.left(n, unfinished); err != nil {
		return s, err
	}
	if s.hold, err = c.holdOn(n); err != nil {
		return s, err
	}
	if n.BMC.Address == "" {
		return s, nil
	}
	// A held node is asked who it is too: a board that shares its serials must not look unique (I1).
	s.identity, s.err = c.identify(ctx, n)
	switch {
	case s.err == nil:
		c.fleet.Learn(n.ID(), s.identity.Facts)
	case s.inFlight:
		c.fleet.Learn(n.ID(), s.record.Facts)
	}
	if s.host = n.IP; s.host == "" {
		s.host = s.record.Address // where DHCP had put it
	}
	if s.host != "" {
		s.talos = c.opts.Prober.Probe(ctx, s.host)
	}
	if s.talos.State == talos.Configured {
		s.running = c.adminOf(n).Inspect(ctx, s.host)
		if n.IP == "" && !c.fleet.isNode(n, s.running.Facts) {
			s.talos, s.running = talos.Observation{}, talos.Running{} // DHCP may have given the address to another
		}
	}
	return s, nil
}

// unfinishedRun is the id of the cluster's run that was interrupted, or "".
// Without a store, as for a plan before the first run, there is none.
func (c *Controller) unfinishedRun(cluster string) (string, error) {
	if c.opts.Store == nil {
		return "", nil
	}
	run, unfinished, err := c.opts.Store.UnfinishedRun(cluster, c.opts.Site)
	if err != nil || !unfinished {
		return "", err
	}
	return run.ID, nil
}

// left returns what earlier runs left of a node, and whether the unfinished run,
// if there is one, may have touched the node's power already.
func (c *Controller) left(n inventory.Node, unfinished string) (store.Node, bool, error) {
	if c.opts.Store == nil {
		return store.Node{}, false, nil
	}
	record, found, err := c.opts.Store.Node(n.Cluster, n.Name)
	if err != nil || !found || record.Run != unfinished {
		return record, false, err
	}
	return record, touched(record), nil
}

// touched says whether a run that stopped at this record may have changed the
// machine in a way that must not be repeated (I8).
func touched(record store.Node) bool {
	switch state, at := State(record.State), step(record.Step); state {
	case Armed:
		return at != stepNone
	case Maintenance:
		return at == stepApplying
	case PowerCycled, Booting, Configured, Installed:
		return true
	default:
		return false
	}
}

// identify logs in to the node's BMC, asks who it is and logs out.
func (c *Controller) identify(ctx context.Context, n inventory.Node) (bmc.Identity, error) {
	client, err := c.opts.Dial(ctx, n)
	if err != nil {
		return bmc.Identity{}, err
	}
	id, err := client.Identify(ctx)
	return id, errors.Join(err, client.Close(ctx))
}

// judge decides what a run would do to a node. The order matters: what is not
// part of the run, then what cannot be known, then identity (I1), then what
// must not be touched (I2), then what is done already (I8).
func (c *Controller) judge(n inventory.Node, s sighting, request Request) PlanNode {
	p := PlanNode{
		Cluster: n.Cluster, Node: n.Name, BMC: n.BMC.Address, node: n, host: s.host, Reinstall: request.Reinstall[n.ID()],
		TalosVersion: n.TalosVersion, SchematicID: n.SchematicID, Arch: n.Arch, SecureBoot: n.SecureBoot,
		Vendor: s.identity.Vendor, Model: s.identity.Model, Power: string(s.identity.PowerState), Facts: s.identity.Facts,
	}
	if !n.Install {
		return p.decide(ActionSkip, "install is not true in the inventory")
	}
	if c.elsewhere(n) {
		return p.decide(ActionSkip, fmt.Sprintf("its label %s is %q, and this controller works on %q", SiteLabel, n.Labels[SiteLabel], c.opts.Site))
	}
	args, err := n.KernelCommandLine()
	if err != nil {
		return p.refuse(failed(CauseArguments, "render the kernel command line: %w", err))
	}
	if err := httpboot.CheckArgs(args); err != nil {
		return p.refuse(failed(CauseArguments, "kernel arguments: %w", err))
	}
	p.KernelArgs = args
	var missing *Failure
	if p.Until, p.config, missing = c.aim(n, request.Until); missing != nil {
		return p.refuse(missing)
	}
	if clash := c.checkDelivery(n, p.Until, args); clash != nil {
		return p.refuse(clash)
	}
	if s.hold != nil {
		return p.refuse(heldBy(*s.hold))
	}
	if n.BMC.Address == "" {
		return p.refuse(failed(CauseNoBMC, "no BMC is configured (bmc.address), so the node cannot be identified or powered"))
	}
	if s.err != nil && !s.inFlight {
		return p.refuse(classify(s.err))
	}
	facts := c.fleet.reported(n.ID())
	verdict, refusal := c.fleet.Verify(n, facts)
	if refusal != nil {
		return p.refuse(refusal)
	}
	p.Facts, p.IdentifiedBy = facts, verdict.Key
	if s.inFlight {
		p.record = s.record
		return p.decide(ActionResume, fmt.Sprintf("run %s left it in %s (%s)", s.record.Run, s.record.State, s.record.Message))
	}
	return c.judgeTalos(p, s)
}

// judgeTalos decides by what already answers at the node's address.
func (c *Controller) judgeTalos(p PlanNode, s sighting) PlanNode {
	n := p.node
	p.talosFacts = s.talos.Facts
	switch s.talos.State {
	case talos.Configured:
		p.talosFacts = s.running.Facts
		return c.judgeConfigured(p, s)
	case talos.Maintenance:
		if miss := c.confirm(n, s.talos); miss == "" {
			p.found = Maintenance
			if p.Until.Installs() {
				return p.decide(ActionConfigure, "already in maintenance at "+p.host+", confirmed by its identity; gets its machine config")
			}
			return p.decide(ActionDone, "already in maintenance at "+p.host+", confirmed by its identity")
		}
	case talos.Unreachable:
		if decided, known := c.judgeSilent(p, s.record); known {
			return decided
		}
	}
	return p.decide(ActionInstall, fmt.Sprintf("identified by %s, power %s", p.IdentifiedBy, p.Power))
}

// judgeSilent decides about a node that does not answer and that an earlier run
// gave its machine config (I2): it may be in the middle of its install, or be
// switched off with a cluster's data on its disk. It is not booted anew unless
// named, however often it was found silent since.
func (c *Controller) judgeSilent(p PlanNode, record store.Node) (PlanNode, bool) {
	if p.Reinstall || record.ConfiguredBy == "" {
		return p, false
	}
	installing := State(record.State) == Configured || State(record.State) == Failed && Cause(record.Message) == CauseNotInstalled
	if installing && p.Until.Installs() {
		p.found = Configured
		return p.decide(ActionFollow, fmt.Sprintf("run %s gave it its machine config, and it installs itself", record.ConfiguredBy)), true
	}
	f := held(CauseConfigured, "run %s installed it, and it does not answer at %s", record.ConfiguredBy, p.node.IP)
	f.Hint = "switch it on and see to its network; to wipe and install it anew, name it with --reinstall"
	return p.refuse(f), true
}

// judgeConfigured decides about a node whose Talos has a config (I2): one that
// the cluster's certificate proves to be this node is waited for or done, one
// that our own run brought up is left alone, every other is held.
func (c *Controller) judgeConfigured(p PlanNode, s sighting) PlanNode {
	n := p.node
	ours := s.running.Reached && c.fleet.isNode(n, s.running.Facts)
	switch {
	case p.Reinstall:
		if refusal := wipeIsSigned(n); refusal != nil {
			return p.refuse(refusal)
		}
		return p.decide(ActionInstall, "a configured Talos will be wiped: named with --reinstall")
	case ours && p.Until.needsAccess() && !stageInstalled[s.running.Stage]:
		p.found = Configured
		return p.decide(ActionFollow, fmt.Sprintf("has this cluster's config and is in stage %q at %s", s.running.Stage, p.host))
	case ours && p.Until == UntilReady && notReady(s.running) != "":
		p.found = Installed
		return p.decide(ActionFollow, "is installed at "+p.host+"; "+notReady(s.running))
	case ours && n.TalosVersion != "" && s.running.Version != n.TalosVersion:
		return p.decide(ActionSkip, fmt.Sprintf("is installed and runs Talos %s, not %s: an install changes no version, an upgrade does", s.running.Version, n.TalosVersion))
	case ours && p.Until.needsAccess():
		p.found = p.Until.state()
		return p.decide(ActionDone, fmt.Sprintf("already %s at %s, confirmed by its identity", p.found, p.host))
	case State(s.record.State).rank() >= Maintenance.rank():
		return p.decide(ActionSkip, fmt.Sprintf("run %s brought it up, and it was configured since", s.record.Run))
	}
	return p.refuse(held(CauseConfigured, "a configured Talos answers at %s", p.host))
}

func (p PlanNode) decide(action Action, reason string) PlanNode {
	p.Action, p.Reason = action, reason
	return p
}

func (p PlanNode) refuse(f *Failure) PlanNode {
	p.Action = ActionFail
	if f.Hold {
		p.Action = ActionHold
	}
	p.failure, p.Cause, p.Reason, p.Hint = f, f.Cause, f.Err.Error(), f.Advice()
	return p
}
