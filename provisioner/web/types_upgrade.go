package web

import "time"

// UpgradeRequest is what a person asks of a rolling upgrade: the flags of
// `provision upgrade`. Times are written as 15m; "" takes the configured ones.
type UpgradeRequest struct {
	Cluster  string `json:"cluster"` // required
	Nodes    string `json:"nodes,omitempty"`
	Selector string `json:"selector,omitempty"`
	Exclude  string `json:"exclude,omitempty"`
	// To is the version; "" takes the inventory's, or that of the upgrade that is carried on.
	To                string `json:"to,omitempty"`
	Method            string `json:"method,omitempty"`
	API               string `json:"api,omitempty"`
	MaxUnavailable    string `json:"maxUnavailable,omitempty"`
	Canary            string `json:"canary,omitempty"`
	Order             string `json:"order,omitempty"`
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	Stops             bool   `json:"stops,omitempty"`
	NoDrain           bool   `json:"noDrain,omitempty"`
	EvictBarePods     bool   `json:"evictBarePods,omitempty"`
	KeepEmptyDir      bool   `json:"keepEmptyDir,omitempty"`
	NoHealth          bool   `json:"noHealth,omitempty"`
	SingleNode        bool   `json:"singleNode,omitempty"`
	BMCRescue         bool   `json:"bmcRescue,omitempty"`
	PowerCycle        bool   `json:"powerCycle,omitempty"`
	// Continue carries the unfinished upgrade on.
	Continue       bool   `json:"continue,omitempty"`
	GateTimeout    string `json:"gateTimeout,omitempty"`
	PullTimeout    string `json:"pullTimeout,omitempty"`
	DrainTimeout   string `json:"drainTimeout,omitempty"`
	InstallTimeout string `json:"installTimeout,omitempty"`
	RebootTimeout  string `json:"rebootTimeout,omitempty"`
	VerifyTimeout  string `json:"verifyTimeout,omitempty"`
	// Digest is the plan that was confirmed. Starting an upgrade requires it; a plan ignores it.
	Digest string `json:"digest,omitempty"`
}

// UpgradePlanAnswer is the plan of an upgrade and what names it.
type UpgradePlanAnswer struct {
	// Digest changes whenever the plan would do something else.
	Digest string `json:"digest"`
	// Plan is as `provision upgrade --dry-run -o json` prints it.
	Plan map[string]any `json:"plan"`
}

// The ways in which an upgrade ends.
const (
	UpgradeDone    = "done"
	UpgradeFailed  = "failed"
	UpgradeRefused = "refused" // for safety: it did not begin, or does not go on
)

// UpgradeInfo is the newest rolling upgrade of a cluster.
type UpgradeInfo struct {
	ID       string    `json:"run"`
	Cluster  string    `json:"cluster"`
	Target   string    `json:"target"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished,omitzero"`
	// Active: this daemon works on it.
	Active bool `json:"active,omitempty"`
	// By is who started it, when it was this daemon that did.
	By string `json:"by,omitempty"`
	// After is the number of the newest event from before it; 0 when it is not known.
	After uint64 `json:"after,omitempty"`
	// Stopped says why it stopped before its end; "" while it goes on, and when it is finished.
	Stopped string `json:"stopped,omitempty"`
	// Outcome is how it ended in this daemon: done, failed or refused; Error and Findings say why.
	Outcome  string        `json:"outcome,omitempty"`
	Error    string        `json:"error,omitempty"`
	Findings []string      `json:"findings,omitempty"`
	Nodes    []UpgradeNode `json:"nodes"`
}

// UpgradeNode is one node of an upgrade.
type UpgradeNode struct {
	Node    string    `json:"node"`
	Role    string    `json:"role,omitempty"`
	State   string    `json:"state"`
	From    string    `json:"from,omitempty"`
	Since   time.Time `json:"since"`
	Message string    `json:"message,omitempty"`
	Error   string    `json:"error,omitempty"`
	Hint    string    `json:"hint,omitempty"`
	// Cordoned: it is, or may be, left cordoned. KubernetesName is the name of its Node object.
	Cordoned       bool   `json:"cordoned,omitempty"`
	KubernetesName string `json:"kubernetesName,omitempty"`
}
