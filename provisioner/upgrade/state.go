package upgrade

import "time"

// State is how far a node is on the way to the stop that its run takes it to.
type State string

// The states, in the order of the way. Upgraded, Failed and Held end it.
const (
	Pending    State = "Pending"    // not touched yet
	Gated      State = "Gated"      // the cluster was fit, and it is its turn
	Cordoned   State = "Cordoned"   // no new pods come; or it is known to be cordoned by others
	Drained    State = "Drained"    // its pods have moved away
	Upgrading  State = "Upgrading"  // the new boot assets are written, and it has not rebooted
	Rebooting  State = "Rebooting"  // its reboot was, or may have been, ordered
	Verifying  State = "Verifying"  // it has booted anew
	Uncordoned State = "Uncordoned" // it runs what it should, and takes pods again
	Upgraded   State = "Upgraded"   // and the cluster is fit with it
	Failed     State = "Failed"     // the verdict says why; it stays cordoned if it was
	Held       State = "Held"       // not touched: its findings speak against it
)

// step is how far a node is inside a state. Each is written before its effect, so
// that a controller that dies in between knows what it may have done. What one
// that starts again does:
//
//	cordoning, draining, uncordoning   it asks again: twice is the same as once
//	net-booting                        it waits, and boots the node from the network again if that does not show
//	installing                         it asks again, unless the node runs the target, or has rebooted on a legacy order;
//	                                   a node that is at it refuses a second order
//	Upgrading                          it orders the reboot, and installs nothing
//	ordering                           the order gets its time to show, and is only then given again
//	ordered                            it waits
//	power-cycling                      it waits: the machine is not power cycled twice
type step string

const (
	stepNone step = ""
	// Of Gated.
	stepCordoning step = "cordoning"
	// Of Cordoned.
	stepDraining step = "draining"
	// Of Drained.
	stepNetBooting step = "net-booting"
	stepInstalling step = "installing"
	// Of Rebooting.
	stepOrdering     step = "ordering"
	stepOrdered      step = "ordered"
	stepPowerCycling step = "power-cycling"
	// Of Verifying.
	stepUncordoning step = "uncordoning"
)

// Record is what a run knows of a node, and must not forget. It holds no secret.
type Record struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	Run     string `json:"run"`
	Host    string `json:"host"`
	Role    string `json:"role"`
	// KubernetesName is the name of its Node object; "" when the run goes without.
	KubernetesName string `json:"kubernetesName,omitempty"`

	State   State     `json:"state"`
	Step    string    `json:"step,omitempty"`
	Since   time.Time `json:"since"`
	Message string    `json:"message,omitempty"`
	Error   string    `json:"error,omitempty"`
	Hint    string    `json:"hint,omitempty"`
	// Verdict is how it ended; FailedIn and FailedStep where, when it failed.
	Verdict    Verdict `json:"verdict,omitempty"`
	FailedIn   State   `json:"failedIn,omitempty"`
	FailedStep string  `json:"failedStep,omitempty"`

	// From is what it ran before, Target the stop that it goes to.
	From   Version `json:"from"`
	Target Version `json:"target"`
	// Schematic is the one that it has to run then.
	Schematic string `json:"schematic"`
	Image     string `json:"image"`
	API       API    `json:"api"`
	// BootID is that of the boot before; another one tells that it rebooted.
	BootID string `json:"bootID,omitempty"`
	// UUID tells another machine at its address.
	UUID string `json:"uuid,omitempty"`

	// NetBooted: it runs, or ran, the target from the network, and has its installation still before it.
	NetBooted bool `json:"netBooted,omitempty"`

	// Cordoned: it is, or may be, cordoned by us.
	Cordoned bool `json:"cordoned"`
	// Rescued: the BMC was, or may have been, told to power cycle it.
	Rescued bool `json:"rescued,omitempty"`
	// Lines are the last that its installer said.
	Lines []string `json:"lines,omitempty"`
}

// touched says whether a run has done, or may have done, anything to the node
// that it has not brought to its end.
func (r Record) touched() bool {
	switch r.State {
	case Pending, Upgraded, Held:
		return false
	case Gated:
		return r.Step != string(stepNone)
	case Failed:
		return r.FailedIn != Pending && (r.FailedIn != Gated || r.FailedStep != string(stepNone))
	default:
		return true
	}
}

// ended says whether the run has nothing more to do for the node.
func (r Record) ended() bool { return r.State == Upgraded || r.State == Failed || r.State == Held }

// Run is one upgrade of a cluster, which several processes may have carried on
// when the first was killed.
type Run struct {
	ID       string    `json:"run"`
	Cluster  string    `json:"cluster"`
	Target   Version   `json:"target"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished,omitzero"`
	// Stopped says why the last process stopped before the end.
	Stopped string `json:"stopped,omitempty"`
}
