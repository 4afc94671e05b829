package provisioner

// State is where a node is in its life. See docs/architecture.md for the way
// through them.
type State string

// The states of a run, in the order of a node's life. Failed, Held and the
// state of the node's goal end a run for it.
const (
	Pending     State = "Pending"     // not looked at yet
	Identified  State = "Identified"  // its BMC is this node's and nobody else's (I1)
	Armed       State = "Armed"       // the one-time network boot was set and read back (I4)
	PowerCycled State = "PowerCycled" // powered off, then on again
	Booting     State = "Booting"     // its own request reached the boot services (I4)
	Maintenance State = "Maintenance" // the Talos API at its address is in maintenance and is this machine's (I5)
	Configured  State = "Configured"  // it took its machine config and installs itself
	Installed   State = "Installed"   // it runs from its own disk, in the version and with the schematic of the inventory
	Ready       State = "Ready"       // it is Running, and a Ready node of its Kubernetes cluster
	Failed      State = "Failed"      // gave up; the record says why and what to do
	Held        State = "Held"        // not touched, because touching it would not be safe
)

// ranks orders the states of a life; Failed and Held have none.
var ranks = map[State]int{
	Pending: 1, Identified: 2, Armed: 3, PowerCycled: 4, Booting: 5, Maintenance: 6, Configured: 7, Installed: 8, Ready: 9,
}

func (s State) rank() int { return ranks[s] }

// step is how far a node is inside a state. Each is written before its effect,
// so that a controller that dies in between knows what it may have done (I8).
type step string

const (
	stepNone step = ""
	// Of Armed.
	stepPoweringOff step = "powering-off"
	stepOff         step = "off"
	stepPoweringOn  step = "powering-on"
	// Of Maintenance.
	stepApplying step = "applying"
	// Of Configured: the node may or may not have taken its config.
	stepUnsure step = "unsure"
	// Of Installed: etcd of a new cluster is being bootstrapped on this node.
	stepBootstrapping step = "bootstrapping"
)

// GivenUp says whether a run ended for a node in this state without its goal.
func (s State) GivenUp() bool { return s == Failed || s == Held }

// InFlight says whether the node has, or may have, been power cycled by its
// run without having been confirmed yet. Only then is it served an install (I3).
func (s State) InFlight() bool { return s == PowerCycled || s == Booting }

// settled says that the run has booted the node, or will not: it has nothing to
// boot from the network any more.
func (s State) settled() bool { return s.GivenUp() || s.rank() >= Maintenance.rank() }

// waitsForPower says whether the run has not powered the node on yet.
func (s State) waitsForPower() bool { return s == Pending || s == Identified || s == Armed }
