package talosnode

import (
	"cmp"
	"slices"
	"sync"

	"github.com/siderolabs/crypto/x509"
)

// Clusters joins the nodes of one process: nodes whose configs have the same
// cluster id form a cluster, as real ones do through the network. The zero
// Clusters is ready for use; it is safe for concurrent use.
type Clusters struct {
	mu   sync.Mutex
	byID map[string]*cluster
}

// ClusterReport is how one cluster looks to somebody who sees everything.
type ClusterReport struct {
	// ID and Name are the cluster's in the machine configs.
	ID, Name string
	// Bootstraps is how often etcd was bootstrapped: more than once means data loss on real nodes.
	Bootstraps int
	// Members are the host names of the etcd members, sorted.
	Members []string
	// Nodes are the configured nodes, sorted by name.
	Nodes []NodeReport
}

// NodeReport is one node of a ClusterReport, as "kubectl get nodes" would show it.
type NodeReport struct {
	Name, Address, Version string
	ControlPlane           bool
	// Up: the node runs. Registered: the Kubernetes node exists. Ready: it is ready, and up.
	Up, Registered, Ready bool
	// InKubernetes: it is ready in the eyes of the Kubernetes API too, where there is one.
	InKubernetes bool
}

// Report describes every cluster that ever had a node, sorted by name and id.
func (c *Clusters) Report() []ClusterReport {
	c.mu.Lock()
	all := make([]*cluster, 0, len(c.byID))
	for _, one := range c.byID {
		all = append(all, one)
	}
	c.mu.Unlock()
	reports := make([]ClusterReport, 0, len(all))
	for _, one := range all {
		reports = append(reports, one.report())
	}
	slices.SortFunc(reports, func(a, b ClusterReport) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return reports
}

// named are the clusters with this name.
func (c *Clusters) named(name string) (all []*cluster) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.byID {
		if one.name == name {
			all = append(all, one)
		}
	}
	return all
}

// of returns the cluster with this id; it comes into being with its first node.
func (c *Clusters) of(id, name string) *cluster {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil {
		c.byID = map[string]*cluster{}
	}
	if c.byID[id] == nil {
		c.byID[id] = &cluster{id: id, name: name, peers: map[string]*peer{}, changed: make(chan struct{})}
	}
	return c.byID[id]
}

// peer is one node of a cluster. It stays when the node goes down.
type peer struct {
	key, hostname, address, version string
	controlPlane                    bool
	up                              bool
	// authority signs server certificates for workers, which trustd on control planes does; nil on workers.
	authority *x509.CertificateAuthority
	// etcd is the id of the node's etcd member, 0 without; serves: it runs.
	etcd              uint64
	serves            bool
	fault             MemberFault
	registered, ready bool
	// object is the Node object of a real Kubernetes API, nil without one.
	object *NodeObject
}

// cluster is what the nodes of one cluster share.
type cluster struct {
	id, name string

	mu         sync.Mutex
	peers      map[string]*peer
	bootstraps int
	leader     uint64
	term       uint64
	index      uint64
	alarms     []alarm
	changed    chan struct{} // closed at the next change
}

// change changes something under the lock and tells everybody.
func (c *cluster) change(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
	c.elect()
	c.index++
	close(c.changed)
	c.changed = make(chan struct{})
}

// watch returns a channel that is closed at the next change.
func (c *cluster) watch() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// read calls look under the lock.
func (c *cluster) read(look func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	look()
}

// sorted are the peers by host name; the lock is held.
func (c *cluster) sorted() []*peer {
	all := make([]*peer, 0, len(c.peers))
	for _, p := range c.peers {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *peer) int { return cmp.Or(cmp.Compare(a.hostname, b.hostname), cmp.Compare(a.key, b.key)) })
	return all
}

// authority is what signs certificates of workers: that of any control plane that runs; nil while none does.
func (c *cluster) authority() *x509.CertificateAuthority {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.sorted() {
		if p.up && p.authority != nil {
			return p.authority
		}
	}
	return nil
}

func (c *cluster) report() ClusterReport {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := ClusterReport{ID: c.id, Name: c.name, Bootstraps: c.bootstraps}
	for _, p := range c.sorted() {
		if p.etcd != 0 {
			r.Members = append(r.Members, p.hostname)
		}
		r.Nodes = append(r.Nodes, NodeReport{
			Name: p.hostname, Address: p.address, Version: p.version, ControlPlane: p.controlPlane,
			Up: p.up, Registered: p.registered, Ready: p.ready && p.up,
			InKubernetes: p.up && p.kubernetesReady(),
		})
	}
	return r
}
