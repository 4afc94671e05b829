package store

import (
	"time"

	"github.com/talos-provision/provision/inventory/identity"
)

// Node is the last known state of one inventory node. It holds no secret (I9).
type Node struct {
	Cluster string `json:"cluster"`
	Name    string `json:"node"`
	// Run is the run that wrote this record last.
	Run string `json:"run"`
	// State is the state of the node's life, such as PowerCycled.
	State string `json:"state"`
	// Step is how far inside State the node is, where a step has an effect that must not be repeated.
	Step string `json:"step,omitempty"`
	// Since is when State was entered.
	Since   time.Time `json:"since"`
	Message string    `json:"message,omitempty"`
	Error   string    `json:"error,omitempty"`
	Hint    string    `json:"hint,omitempty"`
	// Cause is the class of Error: stable words for machines to read.
	Cause string `json:"cause,omitempty"`
	// Progress is how far a download is that Message tells of.
	Progress *Progress `json:"progress,omitempty"`

	// Attempts counts the power cycles of this run (I7).
	Attempts int `json:"attempts"`
	// LastPowerOn is when this tool last asked the BMC to power the node on (I7).
	LastPowerOn time.Time `json:"lastPowerOn,omitzero"`

	// Facts are what the BMC reported of the machine.
	Facts identity.Facts `json:"facts,omitzero"`
	// IdentifiedBy is the key of Facts that tells it from every other node.
	IdentifiedBy identity.Key `json:"identifiedBy,omitempty"`
	Vendor       string       `json:"vendor,omitempty"`
	Model        string       `json:"model,omitempty"`
	// Address is where the node's Talos API answered, or where the node was last seen.
	Address string `json:"address,omitempty"`
	// SeenInMaintenance says that this run found the machine in maintenance: it was no member of any cluster then.
	SeenInMaintenance bool `json:"seenInMaintenance,omitempty"`
	// ConfiguredBy is the run that gave it its machine config, or found it with one, since it was last
	// booted from the network; kept over all runs (I2).
	ConfiguredBy string `json:"configuredBy,omitempty"`
	// InstallDisk is the disk that its machine config selected on the node, such as /dev/sda.
	InstallDisk string `json:"installDisk,omitempty"`
	// TalosVersion is what the node itself reported, empty when it cannot tell (Talos 1.9).
	TalosVersion string `json:"talosVersion,omitempty"`
	// TalosFacts are what Talos reported of the machine when it was last confirmed.
	TalosFacts identity.Facts `json:"talosFacts,omitzero"`
}

// Event is one step of one node's life. Its JSON is the stable form of
// `-o json` and carries no secret (I9).
type Event struct {
	Time     time.Time `json:"time"`
	Run      string    `json:"run"`
	Cluster  string    `json:"cluster"`
	Node     string    `json:"node"`
	State    string    `json:"state"`
	Previous string    `json:"previous"`
	Message  string    `json:"message"`
	Error    string    `json:"error"`
	Hint     string    `json:"hint"`
	// Cause is the class of Error, in stable words; empty when nothing failed.
	Cause string `json:"cause,omitempty"`
	// Progress is there when the event tells how far a download is.
	Progress *Progress `json:"progress,omitempty"`
}

// Progress is how far a node is with the download of one file. Both numbers are bytes.
type Progress struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
	Total int64  `json:"total"`
}

// Run is one `provision --cluster NAME`, which several processes may have
// carried on when the first was killed. A cluster has one run in each site.
type Run struct {
	ID      string `json:"run"`
	Cluster string `json:"cluster"`
	// Site is the site of the controllers that carry it out; "" without sites.
	Site     string    `json:"site,omitempty"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished,omitzero"`
	// Daemon says that a daemon began it, and goes on with it by itself.
	Daemon bool `json:"daemon,omitempty"`
	// Stopped says that a person ended it before its time: no daemon goes on with it.
	Stopped bool `json:"stopped,omitempty"`
	// Until, MaxFailures and Nodes, as cluster/name, are what was asked for last.
	Until       string   `json:"until,omitempty"`
	MaxFailures string   `json:"maxFailures,omitempty"`
	Nodes       []string `json:"nodes,omitempty"`
}
