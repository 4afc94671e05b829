package talosnode

import "github.com/siderolabs/talos/pkg/machinery/api/machine"

// MemberFault is what is wrong with one etcd member, beside what its node does.
type MemberFault struct {
	// Learner: it does not vote yet.
	Learner bool
	// Lag is how many entries of the raft log it is behind the others.
	Lag uint64
	// OtherLeader: it follows another leader than the others do. NoLeader: it knows none.
	OtherLeader, NoLeader bool
	// Errors are what it reports.
	Errors []string
}

// SetMember makes something wrong with a member of the named cluster's etcd, or
// right again with the zero MemberFault. It reports whether there is such a member.
func (c *Clusters) SetMember(cluster, hostname string, fault MemberFault) (found bool) {
	for _, one := range c.named(cluster) {
		one.change(func() {
			for _, p := range one.members() {
				if p.hostname == hostname {
					p.fault, found = fault, true
				}
			}
		})
	}
	return found
}

// ClearAlarms takes every alarm of the named cluster's etcd back, as disarming does.
func (c *Clusters) ClearAlarms(cluster string) {
	for _, one := range c.named(cluster) {
		one.change(func() { one.alarms = nil })
	}
}

// status is what a member tells of itself; the lock is held.
func (c *cluster) status(p *peer) *machine.EtcdMemberStatus {
	s := &machine.EtcdMemberStatus{
		ProtocolVersion: "3.6.12", StorageVersion: "3.6.0", DbSize: 5 << 20, DbSizeInUse: 2 << 20,
		MemberId: p.etcd, Leader: c.leader, RaftIndex: c.index, RaftAppliedIndex: c.index, RaftTerm: c.term,
		IsLearner: p.fault.Learner, Errors: append([]string(nil), p.fault.Errors...),
	}
	if lag := min(p.fault.Lag, c.index); lag > 0 {
		s.RaftIndex -= lag
		s.RaftAppliedIndex -= lag
	}
	switch {
	case p.fault.NoLeader:
		s.Leader = 0
	case p.fault.OtherLeader:
		s.Leader = p.etcd ^ 0xff // nobody's
	}
	if s.Leader == 0 {
		s.Errors = append(s.Errors, "etcdserver: no leader")
	}
	return s
}
