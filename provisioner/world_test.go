package provisioner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/inventory/identity"
)

// world is what lies beyond the controller's reach in the model: machines with
// their BMCs and the network between them. It keeps a log of its own, of what was
// really asked for and what really happened; the invariants are judged by that,
// never by what the controller wrote down. It lives in fake time.
type world struct {
	ctx context.Context // of its machines

	mu       sync.Mutex
	machines []*machine
	// squatters are the machines that use a node's address in its place, by address.
	squatters map[string]*machine
	log       []entry
	breaches  []string
	// c is the controller that is alive, epoch how many were there before; nil between two.
	c     *Controller
	epoch int
	// runs are the run of each cluster, by the plan that is being carried out.
	runs map[string]string
	// tokens are those by which machine configs were to be fetched.
	tokens []string
	// calm ends all faults.
	calm bool
	// hook, if any, is called with every request that a BMC has taken, before its effect.
	hook func(what string, m *machine)
}

// entry is one thing that happened.
type entry struct {
	at   time.Time
	what deed
	m    *machine
	run  string // of a BMC's request: the run that asked
	// changed: of a power request, the machine was in the other state. armed: of a power-on, the override
	// was set since the machine was off.
	changed, armed bool
	// up is how long the machine was up in maintenance, and its address its own, when it was powered off; 0 if it was not.
	up time.Duration
	// since is how long ago the machine was powered on, when it came up.
	since time.Duration
}

// deed is what happened.
type deed string

const (
	didArm     deed = "arm"      // the BMC was asked for the override, and keeps it
	didFailArm deed = "arm-fail" // it was asked, and said no
	didOff     deed = "off"
	didOn      deed = "on"
	didServe   deed = "serve" // an install script was given to the machine
	didUp      deed = "up"    // Talos came up in maintenance
	didWipe    deed = "wipe"
	didKill    deed = "kill"
	didHold    deed = "hold"
	didRelease deed = "release"
)

// machine is one server with its BMC.
type machine struct {
	name string // the node that it was bought for, as cluster/name; "" for a stranger
	habits
	facts   identity.Facts // what its firmware and Talos show
	reports identity.Facts // what its BMC shows
	address string         // that its system has
	leased  bool           // DHCP gave it, and remembers
	rng     *rand.Rand     // under the world's lock

	on         bool
	override   bmc.BootOverride
	configured bool // its disk holds a Talos with a config
	talos      string
	ready      bool
	upSince    time.Time
	onSince    time.Time
	cycle      int // counts its power-ons
	// armed: since it was off its BMC said that the override is set.
	armed bool
	// launched: a controller switched it on armed, and has not ended its work on it since, at ended.
	launched bool
	ended    time.Time
	// answered is when it last showed itself ready in maintenance, at its own address.
	answered time.Time
	// busy is the epoch whose request its BMC works on, plus one; sessions are those that are open, by epoch.
	busy     int
	sessions map[int]int
	offBy    int  // the epoch of the controller that switched it off when it was on, plus one
	squatted bool // its address was another's for a while
	spoiled  bool // a fault may have left its power in any state: it is not held against anybody
}

// habits are how a machine differs from others.
type habits struct {
	dropsOverride bool          // with its power
	keepsOverride bool          // after a boot too
	refuses       error         // of every override
	dead          bool          // it never gets as far as DHCP
	lag           time.Duration // of its power, at most
	post          time.Duration // its firmware takes
	hangs         float64       // how often a boot ends nowhere
	faults        float64       // how often its BMC fails a request
	frozen        string        // why nobody may touch it (I1, I2); "" for a good one
	dhcp          bool          // has no static address
}

func newWorld(ctx context.Context) *world {
	return &world{ctx: ctx, squatters: map[string]*machine{}, runs: map[string]string{}}
}

// note adds to the log. The caller has the lock.
func (w *world) note(e entry) {
	e.at = time.Now()
	w.log = append(w.log, e)
}

func (w *world) noteAbout(what deed, m *machine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(entry{what: what, m: m})
}

// breach notes that an invariant does not hold. The caller has the lock.
func (w *world) breach(format string, args ...any) {
	w.breaches = append(w.breaches, fmt.Sprintf(format, args...))
}

// of is the machine of a node.
func (w *world) of(id string) *machine {
	for _, m := range w.machines {
		if m.name == id {
			return m
		}
	}
	return nil
}

// controller is the one that answers the machines; nil when it is dead.
func (w *world) controller() (c *Controller, epoch int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.c, w.epoch
}

// at is the machine that answers at an address. The caller has the lock.
func (w *world) at(host string) *machine {
	if m := w.squatters[host]; m != nil {
		return m
	}
	for _, m := range w.machines {
		if m.address == host && m.on {
			return m
		}
	}
	return nil
}

// itself says whether a machine has its address for itself. The caller has the lock.
func (w *world) itself(m *machine) bool { return w.squatters[m.address] == nil }

// chance is true with a probability. The caller has the lock.
func (w *world) chance(m *machine, p float64) bool { return m.rng.Float64() < p }

// machineOf makes the machine of a node, as its inventory describes it.
func machineOf(n inventory.Node, number int, seed uint64) *machine {
	facts := identity.Facts{
		Serial: n.Serial, BoardSerial: fmt.Sprintf("B-%s-%d", n.Cluster, number),
		UUID: fmt.Sprintf("7a1e0000-0000-4000-8000-%012d", number), MACs: []string{macOf(number)},
	}
	if facts.Serial == "" {
		facts.Serial = fmt.Sprintf("S-%d", number)
	}
	return &machine{
		name: n.ID(), facts: facts, reports: facts, address: fmt.Sprintf("10.0.1.%d", number), on: true,
		rng: rand.New(rand.NewPCG(seed, uint64(number))), sessions: map[int]int{}, //nolint:gosec // a test's own dice
		habits: habits{post: 20 * time.Second, lag: 2 * time.Second, dhcp: n.IP == ""},
	}
}

func macOf(number int) string { return fmt.Sprintf("0c:c4:7a:00:00:%02x", number) }

// nodeOf is a node of the model's inventory.
func nodeOf(cluster string, number int) inventory.Node {
	n := inventory.Node{
		Name: fmt.Sprintf("node-%d", number), Cluster: cluster, Install: true, Arch: "amd64", TalosVersion: "v1.13.9", SchematicID: "s",
		IP: fmt.Sprintf("10.0.1.%d", number), KernelArgs: "talos.platform=metal",
	}
	n.BMC.Address = fmt.Sprintf("10.9.0.%d", number)
	return n
}

// history is the log of one machine, for a message.
func (w *world) history(m *machine) string {
	var b strings.Builder
	for _, e := range w.log {
		if e.m == m || e.m == nil {
			fmt.Fprintf(&b, "    %s %-8s run %s changed %t armed %t up %s\n", e.at.Format("15:04:05.000"), e.what, e.run, e.changed, e.armed, e.up)
		}
	}
	return b.String()
}
