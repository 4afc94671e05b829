package talosnode

import "strings"

// NodeObject is what of a Node object of a real Kubernetes API its node goes by.
type NodeObject struct {
	// Exists: there is one of its name.
	Exists bool
	// Ready is its condition, Unschedulable its cordon.
	Ready, Unschedulable bool
}

// SetNodeObject tells the named cluster of a Node object that was seen in its
// Kubernetes API, by the object's name. From then on the node takes its word from
// it. It reports whether there is such a node.
func (c *Clusters) SetNodeObject(cluster, name string, object NodeObject) (found bool) {
	for _, one := range c.named(cluster) {
		one.read(func() {
			for _, p := range one.peers {
				same := p.object != nil && *p.object == object
				found = found || p.nodename() == name && same
			}
		})
		if found {
			return true
		}
		one.change(func() {
			for _, p := range one.peers {
				if p.nodename() == name {
					p.object, found = &object, true
				}
			}
		})
	}
	return found
}

// Watch returns a channel that is closed at the next change of the named cluster;
// nil while there is none of that name.
func (c *Clusters) Watch(cluster string) <-chan struct{} {
	for _, one := range c.named(cluster) {
		return one.watch()
	}
	return nil
}

// nodename is the peer's name in Kubernetes.
func (p *peer) nodename() string {
	short, _, _ := strings.Cut(p.hostname, ".")
	return strings.ToLower(short)
}

// unlisted tells whether a Kubernetes API that there is has no object of the node.
func (p *peer) unlisted() bool { return p.object != nil && !p.object.Exists }

// kubernetesReady tells whether the node is ready in the eyes of Kubernetes.
func (p *peer) kubernetesReady() bool {
	return p.ready && (p.object == nil || p.object.Exists && p.object.Ready)
}

// EtcdServes tells whether etcd of the named cluster has a quorum.
func (c *Clusters) EtcdServes(cluster string) bool {
	for _, one := range c.named(cluster) {
		if one.healthy() {
			return true
		}
	}
	return false
}
