package talosnode

import (
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
)

// alarm is one etcd alarm of one member.
type alarm struct {
	member uint64
	kind   machine.EtcdMemberAlarm_AlarmType
}

// members are the peers with an etcd member; the lock is held.
func (c *cluster) members() []*peer {
	var all []*peer
	for _, p := range c.sorted() {
		if p.etcd != 0 {
			all = append(all, p)
		}
	}
	return all
}

// voters are the members that vote; the lock is held.
func (c *cluster) voters() []*peer {
	var all []*peer
	for _, p := range c.members() {
		if !p.fault.Learner {
			all = append(all, p)
		}
	}
	return all
}

// quorum tells whether more than half of the voters run; the lock is held.
func (c *cluster) quorum() bool {
	voters, up := c.voters(), 0
	for _, p := range voters {
		if p.serves {
			up++
		}
	}
	return up > 0 && up*2 > len(voters)
}

// elect makes a member that runs the leader if the old one is gone; the lock is held.
func (c *cluster) elect() {
	if !c.quorum() {
		c.leader = 0
		return
	}
	var first uint64
	for _, p := range c.voters() {
		if p.serves && p.etcd == c.leader {
			return
		}
		if p.serves && first == 0 {
			first = p.etcd
		}
	}
	c.leader = first
	c.term++
}

// healthy tells whether etcd takes writes.
func (c *cluster) healthy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.quorum()
}

// forfeit gives the leadership to another member that runs, and returns its
// name; "" when the member is not the leader or no other runs.
func (c *cluster) forfeit(member uint64) (heir string) {
	c.change(func() {
		if c.leader != member {
			return
		}
		for _, p := range c.voters() {
			if p.serves && p.etcd != member {
				c.leader, heir = p.etcd, p.hostname
				c.term++
				return
			}
		}
	})
	return heir
}

// remove takes a member out of etcd and reports whether it was there.
func (c *cluster) remove(member uint64) (found bool) {
	c.change(func() {
		for _, p := range c.members() {
			if p.etcd == member {
				p.etcd, p.serves, found = 0, false, true
			}
		}
	})
	return found
}

// RaiseAlarm makes a member of the named cluster's etcd raise an alarm. It
// reports whether the cluster has such a member.
func (c *Clusters) RaiseAlarm(cluster, hostname string, kind machine.EtcdMemberAlarm_AlarmType) (found bool) {
	for _, one := range c.named(cluster) {
		one.change(func() {
			for _, p := range one.members() {
				if p.hostname == hostname {
					one.alarms, found = append(one.alarms, alarm{p.etcd, kind}), true
				}
			}
		})
	}
	return found
}
