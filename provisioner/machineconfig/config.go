// Package machineconfig prepares the machine configs of nodes: it reads or
// generates them, fills in templates, applies patches, and finds what is wrong
// with them before a machine is touched.
//
// A machine config holds the keys of a cluster. A Config gives its text away
// through Data only, and no error of this package repeats a value of one (I9).
package machineconfig

import (
	"crypto/sha256"
	"encoding/hex"
)

// Config is the machine config of one node, ready to be applied. The zero value
// is an empty config.
//
// It is opaque: kinds of documents that this program does not know, of a Talos
// newer than it, pass through unchanged. What the accessors tell is read
// leniently from the documents that are known.
type Config struct {
	text *text
}

// text is behind a pointer so that no way of formatting what holds a Config
// reaches it.
type text struct {
	data   []byte
	digest string
	facts  facts
}

// Parse reads a machine config, one or more YAML documents. It fails on what is
// not YAML and on what has no document at all; whether Talos takes the config is
// for a dry run on the node to say.
func Parse(data []byte) (Config, error) {
	documents, err := documentsOf(data)
	if err != nil {
		return Config{}, err
	}
	sum := sha256.Sum256(data)
	return Config{&text{data: data, digest: hex.EncodeToString(sum[:]), facts: factsOf(documents)}}, nil
}

// Data is the config as it is sent to the node: SECRET. It must not be changed.
func (c Config) Data() []byte { return c.of().data }

// Digest is the SHA-256 of Data in hex, which may be logged and stored.
func (c Config) Digest() string { return c.of().digest }

// ControlPlane says whether the node becomes a control plane node.
func (c Config) ControlPlane() bool {
	return c.MachineType() == "controlplane" || c.MachineType() == "init"
}

// MachineType is machine.type as written: controlplane, worker, or "" when the
// config does not say it, with which Talos stays in maintenance mode.
func (c Config) MachineType() string { return c.of().facts.machineType }

// Hostname is what the config sets, of HostnameConfig or machine.network; "" when
// it leaves the hostname to the kernel's ip= argument or to DHCP.
func (c Config) Hostname() string { return c.of().facts.hostname }

// ClusterName is cluster.clusterName; "" when the config does not say it.
func (c Config) ClusterName() string { return c.of().facts.clusterName }

// Endpoint is the URL of the cluster's Kubernetes API, as written.
func (c Config) Endpoint() string { return c.of().facts.endpoint }

// KubernetesVersion is the version in the tag of the kubelet's image, without
// "v"; "" when it cannot be told.
func (c Config) KubernetesVersion() string { return c.of().facts.kubernetes }

// Install is what the config says of the installation on a disk.
func (c Config) Install() Install { return c.of().facts.install }

// Kinds are the kinds of the config's documents in their order; the document
// with machine and cluster is "v1alpha1".
func (c Config) Kinds() []string { return c.of().facts.kinds }

// of makes the zero value usable.
func (c Config) of() *text {
	if c.text == nil {
		return &text{}
	}
	return c.text
}
