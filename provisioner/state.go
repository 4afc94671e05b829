package provisioner

// State is where a node is in its life. See docs/architecture.md for the way
// through them.
type State string

// The states of a run, in the order of a node's life. Maintenance, Failed and
// Held end a run for a node.
const (
	Pending     State = "Pending"     // not looked at yet
	Identified  State = "Identified"  // its BMC is this node's and nobody else's (I1)
	Armed       State = "Armed"       // the one-time network boot was set and read back (I4)
	PowerCycled State = "PowerCycled" // powered off, then on again
	Booting     State = "Booting"     // its own request reached the boot services (I4)
	Maintenance State = "Maintenance" // the Talos API at its address is in maintenance and is this machine's (I5)
	Failed      State = "Failed"      // gave up; the record says why and what to do
	Held        State = "Held"        // not touched, because touching it would not be safe
)

// step is how far a node is inside Armed. Each is written before its effect,
// so that a controller that dies in between knows what it may have done (I8).
type step string

const (
	stepNone        step = ""
	stepPoweringOff step = "powering-off"
	stepOff         step = "off"
	stepPoweringOn  step = "powering-on"
)

// Terminal says whether a run has nothing more to do for a node in this state.
func (s State) Terminal() bool {
	switch s {
	case Maintenance, Failed, Held:
		return true
	case Pending, Identified, Armed, PowerCycled, Booting:
		return false
	}
	return false
}

// InFlight says whether the node has, or may have, been power cycled by its
// run without having been confirmed yet. Only then is it served an install (I3).
func (s State) InFlight() bool { return s == PowerCycled || s == Booting }
