// Package talos speaks with machines through the Talos API on port 50000, of
// Talos 1.9 to 1.14.
//
// A Prober needs no certificate. It tells what is at an address: nothing, a
// machine in maintenance mode, or a configured node; in maintenance mode also
// which version and which machine it is and what disks it has, and it applies a
// machine config. An Admin has the client certificate of a cluster's
// talosconfig. It tells how a configured node and its etcd are, bootstraps etcd,
// fetches the kubeconfig and has the cluster checked.
//
// Neither logs, and no value of a machine config or key of a talosconfig is in
// what they return (I9).
package talos

import (
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"

	"github.com/talos-provision/provision/inventory/identity"
)

// State is what answers at an address.
type State int

// The states. The zero value claims nothing.
const (
	// Unreachable: no Talos API answers; Observation.Err says what was seen instead.
	Unreachable State = iota
	// Maintenance: the maintenance service answers, the machine waits for its config.
	Maintenance
	// Configured: the server demands a client certificate, so the machine has a config (I2).
	Configured
)

// String is the state's name in lower case.
func (s State) String() string {
	switch s {
	case Maintenance:
		return "maintenance"
	case Configured:
		return "configured"
	default:
		return "unreachable"
	}
}

// Observation is what one probe saw.
type Observation struct {
	// Host is the address that was probed.
	Host  string
	State State
	// Version is the Talos version, e.g. "v1.13.9"; empty when it cannot be told, which is
	// always so in Talos 1.9 and in a configured node.
	Version string
	// Stage and Ready are the node's MachineStatus, e.g. "maintenance"; empty when it was not read.
	Stage string
	Ready bool
	// Facts are the serial, UUID and the MACs of physical links. Talos knows no board serial.
	Facts identity.Facts
	// CertCN is the server certificate's common name and Fingerprint its base64 SHA-256 of the
	// public key, as Talos prints it on its console. Talos issues a new certificate whenever an
	// address changes, so a fingerprint is soon stale.
	CertCN, Fingerprint string
	// Cmdline is the kernel command line, readable from Talos 1.11 on.
	Cmdline string
	// Err says what stood in the way: always set when State is Unreachable; set in Maintenance
	// when not all could be read.
	Err error
}

// Up says that the node reports, ready, the maintenance stage. That it is the
// expected machine remains to be told from Facts (I5).
func (o Observation) Up() bool {
	return o.State == Maintenance && o.Ready && o.Stage == runtime.MachineStageMaintenance.String()
}
