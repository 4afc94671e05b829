package web

import (
	"github.com/talos-provision/provision/inventory/identity"
	"github.com/talos-provision/provision/provisioner/store"
)

// InventoryNode is a node as the inventory in use has it. It holds no secret (I9).
type InventoryNode struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	// File is the node's own file, relative to the inventory's root.
	File         string            `json:"file"`
	Install      bool              `json:"install"`
	IP           string            `json:"ip,omitempty"`
	BMC          string            `json:"bmc,omitempty"` // address
	TalosVersion string            `json:"talosVersion,omitempty"`
	SchematicID  string            `json:"schematicID,omitempty"`
	Arch         string            `json:"arch"`
	SecureBoot   bool              `json:"secureBoot,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	// Facts are what the inventory says of the machine's identity.
	Facts identity.Facts `json:"facts,omitzero"`
}

// NodeDetail is all that is known of one node. What is nil is not known.
type NodeDetail struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	// Inventory is nil when the node has left the inventory.
	Inventory *InventoryNode `json:"inventory,omitempty"`
	// Record is nil when no run has worked on the node.
	Record *store.Node `json:"record,omitempty"`
	// Boot is what the machine sent when it asked for its last boot script, and the script.
	Boot *store.Boot `json:"boot,omitempty"`
	// Hold is there when a person keeps runs off the node.
	Hold *store.Hold `json:"hold,omitempty"`
	// Conflict says why the node cannot be told from others; "" when it can.
	Conflict string `json:"conflict,omitempty"`
	// Events are the node's newest, oldest first; at most 200.
	Events []Event `json:"events"`
}

// Collision is a value that several nodes show, such as the serial of a chassis of four
// boards. It identifies none of them.
type Collision struct {
	Key   identity.Key `json:"key"`
	Value string       `json:"value"`
	// Nodes are all that show it, as cluster/name.
	Nodes []string `json:"nodes"`
	// Frozen are those of them that nothing else tells apart: no run touches them (I1).
	Frozen []string `json:"frozen,omitempty"`
}
