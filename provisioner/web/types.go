package web

import (
	"time"

	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/store"
)

// RunRequest names the nodes of a run and what to do with them, as a person
// types it: Nodes, Exclude and Reinstall are hostlists, Selector is key=value.
type RunRequest struct {
	Cluster   string `json:"cluster"` // required
	Nodes     string `json:"nodes,omitempty"`
	Selector  string `json:"selector,omitempty"`
	Exclude   string `json:"exclude,omitempty"`
	Reinstall string `json:"reinstall,omitempty"`
	// Until is how far the run takes the nodes; "" leaves it to each node.
	Until string `json:"until,omitempty"`
	// MaxFailures is a number of nodes or a share, such as 3 or 10%; "" is no limit.
	MaxFailures string `json:"maxFailures,omitempty"`
	// Digest is the plan that was confirmed. Starting a run requires it; a plan ignores it.
	Digest string `json:"digest,omitempty"`
}

// PlanAnswer is a plan and what names it.
type PlanAnswer struct {
	// Digest changes whenever the plan would do something else.
	Digest string           `json:"digest"`
	Plan   provisioner.Plan `json:"plan"`
}

// RunInfo is a run, under way or over.
type RunInfo struct {
	ID      string    `json:"run"`
	Cluster string    `json:"cluster"`
	Started time.Time `json:"started"`
	// Finished is zero while the run is under way.
	Finished time.Time `json:"finished,omitzero"`
	// Site is the site of the controllers that carry it out; "" without sites.
	Site string `json:"site,omitempty"`
	// Until and MaxFailures are what was asked for.
	Until       string `json:"until,omitempty"`
	MaxFailures string `json:"maxFailures,omitempty"`
	// Stopped says that a person ended it before its time.
	Stopped bool `json:"stopped,omitempty"`
	// By is who started it.
	By string `json:"by,omitempty"`
	// After is the number of the newest event from before the run: its own have greater ones.
	After uint64 `json:"after"`
	// Nodes is how many nodes the run works on, States how many of them are in each state.
	Nodes  int            `json:"nodes"`
	States map[string]int `json:"states,omitempty"`
	// Error is why the run itself ended early, such as an interrupt; nodes that failed are in Summary.
	Error string `json:"error,omitempty"`
	// Summary is there when the run is over.
	Summary *RunSummary `json:"summary,omitempty"`
}

// RunSummary is how a run ended: provisioner.Summary in the API's form.
type RunSummary struct {
	Run        string                 `json:"run"`
	Done       []store.Node           `json:"done"`
	Failed     []store.Node           `json:"failed"`
	Held       []store.Node           `json:"held"`
	Unfinished []store.Node           `json:"unfinished"`
	Skipped    []provisioner.PlanNode `json:"skipped"`
}

// Event is an event of the stream with its number, from which a stream can be resumed.
type Event struct {
	Seq uint64 `json:"seq"`
	store.Event
}

// InventoryInfo is the inventory in use, and the newer one that was refused.
type InventoryInfo struct {
	// Source is where it comes from: a folder, or a remote without credentials.
	Source     string    `json:"source"`
	Generation string    `json:"generation"`
	Commit     *Commit   `json:"commit,omitempty"` // nil unless it comes from git
	Loaded     time.Time `json:"loaded"`
	Clusters   int       `json:"clusters"`
	Nodes      int       `json:"nodes"`
	Install    int       `json:"install"` // nodes that are marked install: true
	// Refused is nil when the newest generation is the one in use.
	Refused *Refusal `json:"refused,omitempty"`
}

// Commit is a commit of the inventory's repository.
type Commit struct {
	Hash    string    `json:"hash"`
	Author  string    `json:"author"`
	Subject string    `json:"subject"`
	Time    time.Time `json:"time"`
	// VerifiedBy is the key whose signature was checked; "" when signatures are not asked for.
	VerifiedBy string `json:"verifiedBy,omitempty"`
}

// Refusal is a generation of the inventory that is not used, and why.
type Refusal struct {
	Generation string              `json:"generation,omitempty"` // "" when it could not even be fetched
	Time       time.Time           `json:"time"`
	Error      string              `json:"error,omitempty"`
	Findings   []inventory.Finding `json:"findings,omitempty"`
}

// Check is one thing that must work.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Vital says that without it the process is of no use and should be started anew:
	// it fails /healthz too, and not only /readyz.
	Vital bool `json:"vital,omitempty"`
	// What is the state in words. Only who may read the API is shown it.
	What string `json:"what,omitempty"`
}

// Health is the answer of /healthz and /readyz: OK is what the status code says.
type Health struct {
	OK     bool    `json:"ok"`
	Checks []Check `json:"checks"`
}

// holdRequest is the body of a hold.
type holdRequest struct {
	Reason string `json:"reason"` // required
}
