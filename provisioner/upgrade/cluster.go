package upgrade

import (
	"slices"

	"github.com/talos-provision/provision/provisioner/talos"
)

// The roles of nodes, as Talos calls them.
const (
	ControlPlane = "controlplane"
	Worker       = "worker"
)

// Member is a node of the cluster, as the inventory has it.
type Member struct {
	Name string
	// Host is the address of its Talos API.
	Host string
	// Schematic is the one to upgrade to; "" keeps the one that runs.
	Schematic string
	// SecureBoot: it boots the signed image.
	SecureBoot bool
	// Image is the installer to take; "" is the Image Factory's.
	Image string
	// Chassis is what it shares with others that must not be away with it; "" is nothing.
	Chassis string
	// Labels are the user's own.
	Labels map[string]string
}

// Machine is a node, and what was seen of it.
type Machine struct {
	Member
	Running    talos.Running
	Details    talos.Details
	DetailsErr error
	// Kubernetes is its Node object; nil when there is none.
	Kubernetes *KubernetesNode
	// Budgets are the PodDisruptionBudgets that keep it from being drained.
	Budgets []string
	// ServesAPI: our way to the Kubernetes API leads to it.
	ServesAPI bool
}

// version is what runs, if it told.
func (m Machine) version() (Version, bool) {
	v, err := ParseVersion(m.Running.Version)
	return v, err == nil
}

// settled says whether the node is a working one of Talos.
func (m Machine) settled() bool {
	return m.Running.Reached && m.Running.Stage == stageRunning && m.Running.Ready
}

// stageRunning is the MachineStatus of a node that has booted.
const stageRunning = "running"

// Etcd is what the control planes tell of etcd.
type Etcd struct {
	Members []talos.Member
	Alarms  []talos.Alarm
	// Err says why these could not be read.
	Err error
	// Status is each control plane's own view, by node.
	Status map[string]EtcdStatus
}

// EtcdStatus is the view of one control plane, or why it has none.
type EtcdStatus struct {
	talos.MemberStatus
	Err error
}

// Leader names the node whose member leads, as all see it; "" when they do not agree.
func (e Etcd) Leader() string {
	var leader uint64
	for _, s := range e.Status {
		if s.Err != nil || s.Leader == 0 || leader != 0 && s.Leader != leader {
			return ""
		}
		leader = s.Leader
	}
	for node, s := range e.Status {
		if s.MemberID == leader {
			return node
		}
	}
	return ""
}

// Survey is a cluster at one moment.
type Survey struct {
	Machines []Machine
	Etcd     Etcd
	// Kubernetes is the version of its API server; KubernetesErr says why it did not tell.
	Kubernetes    string
	KubernetesErr error
	// Strangers are Node objects that no machine is.
	Strangers []KubernetesNode
}

// controlPlanes names the nodes that are, or should be, etcd members.
func (s Survey) controlPlanes() []string {
	var names []string
	for _, m := range s.Machines {
		if m.Running.Role == ControlPlane {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

// host is the address of a node.
func (s Survey) host(name string) string {
	i := slices.IndexFunc(s.Machines, func(m Machine) bool { return m.Name == name })
	if i < 0 {
		return ""
	}
	return s.Machines[i].Host
}
