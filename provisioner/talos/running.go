package talos

import (
	"github.com/talos-provision/provision/inventory/identity"
)

// Running is what a configured node tells its administrator. What a version
// does not tell is empty.
type Running struct {
	// Host is the address that was asked.
	Host string
	// State is what answers there: nothing, maintenance mode, or a configured node.
	State State
	// Reached: the node let us in and tells its status.
	Reached bool
	// WrongPKI: something answers that is not of the talosconfig's cluster. State tells a node
	// in maintenance mode, which is of no cluster, from one of another cluster.
	WrongPKI bool
	// Err says what stood in the way; also set when Reached and not all could be read.
	Err error
	// Facts are the serial, UUID and the MACs of physical links.
	Facts identity.Facts
	// Version is the running Talos, e.g. "v1.13.9".
	Version string
	// Stage, Ready and Unmet are the MachineStatus; an Unmet reads "name: reason".
	Stage string
	Ready bool
	Unmet []string
	// Hostname is the node's host name without its domain.
	Hostname string
	// Schematic is the Image Factory's schematic ID of the running image.
	Schematic string
	// SystemDisk is the device that Talos is installed on, e.g. "/dev/sda".
	SystemDisk string
	// Role is "controlplane" or "worker".
	Role string
	// BootID changes with each boot; it takes a talosconfig with the role os:admin.
	BootID string
	// Cmdline is the kernel command line; from Talos 1.11 on.
	Cmdline string
	// Kubernetes is the node as Kubernetes sees it.
	Kubernetes Node
	// Etcd is the etcd service; its ID is empty on a worker.
	Etcd Etcd
}

// Node is what Talos knows of its Kubernetes node.
type Node struct {
	// Name is the node's name in Kubernetes; empty as long as it has none.
	Name string
	// Registered: the API server knows the node.
	Registered bool
	// Ready and Unschedulable are the node's, as the API server has them.
	Ready, Unschedulable bool
}

// Service is a service of Talos, e.g. etcd or kubelet.
type Service struct {
	ID string
	// State is e.g. "Running", "Preparing", "Waiting", "Failed".
	State string
	// Healthy holds only when HealthKnown.
	Healthy, HealthKnown bool
	// Message is the service's newest event, e.g. "Waiting for etcd spec".
	Message string
}

// Etcd is the etcd service of a control plane.
type Etcd struct {
	Service
	// Waiting: it has no member yet, and waits for others or for its bootstrap.
	Waiting bool
}
