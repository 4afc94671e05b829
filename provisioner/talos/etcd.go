package talos

import (
	"context"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
)

// Member is one member of a cluster's etcd.
type Member struct {
	ID       uint64
	Hostname string
	// PeerURLs are where other members reach it, ClientURLs where Kubernetes does.
	PeerURLs, ClientURLs []string
	// Learner: it does not vote yet.
	Learner bool
}

// MemberStatus is an etcd member's own view.
type MemberStatus struct {
	// MemberID is its own ID, Leader that of the member that it takes for the leader; 0 means none.
	MemberID, Leader uint64
	// DBSize and DBInUse are bytes.
	DBSize, DBInUse int64
	// RaftIndex, RaftTerm and RaftAppliedIndex tell how far it follows the others.
	RaftIndex, RaftTerm, RaftAppliedIndex uint64
	// Errors are etcd's own words.
	Errors []string
	// Learner: it does not vote yet.
	Learner bool
}

// Alarm is an alarm that an etcd member raised.
type Alarm struct {
	MemberID uint64
	// Type is "NOSPACE" or "CORRUPT".
	Type string
}

// EtcdMembers lists the members of the cluster that the node's etcd is in. It
// fails when that has no quorum; on a worker it is an ErrNotSupported.
func (a Admin) EtcdMembers(ctx context.Context, host string) ([]Member, error) {
	var members []Member
	err := a.call(ctx, host, func(ctx context.Context, c *session) (err error) {
		if members, err = readMembers(ctx, c); err != nil {
			return callError(ctx, "listing the etcd members", host, err)
		}
		return nil
	})
	return members, err
}

func readMembers(ctx context.Context, c *session) ([]Member, error) {
	answer, err := c.EtcdMemberList(ctx, &machine.EtcdMemberListRequest{})
	if err != nil {
		return nil, err
	}
	var members []Member
	for _, message := range answer.GetMessages() {
		for _, m := range message.GetMembers() {
			members = append(members, Member{
				ID: m.GetId(), Hostname: m.GetHostname(),
				PeerURLs: m.GetPeerUrls(), ClientURLs: m.GetClientUrls(), Learner: m.GetIsLearner(),
			})
		}
	}
	return members, nil
}

// EtcdStatus asks the node's etcd member for its status.
func (a Admin) EtcdStatus(ctx context.Context, host string) (MemberStatus, error) {
	var status MemberStatus
	err := a.call(ctx, host, func(ctx context.Context, c *session) error {
		answer, err := c.EtcdStatus(ctx)
		if err != nil {
			return callError(ctx, "reading the etcd status", host, err)
		}
		for _, message := range answer.GetMessages() {
			s := message.GetMemberStatus()
			status = MemberStatus{
				MemberID: s.GetMemberId(), Leader: s.GetLeader(),
				DBSize: s.GetDbSize(), DBInUse: s.GetDbSizeInUse(),
				RaftIndex: s.GetRaftIndex(), RaftTerm: s.GetRaftTerm(), RaftAppliedIndex: s.GetRaftAppliedIndex(),
				Errors: s.GetErrors(), Learner: s.GetIsLearner(),
			}
		}
		return nil
	})
	return status, err
}

// EtcdAlarms lists the alarms of the cluster that the node's etcd is in.
func (a Admin) EtcdAlarms(ctx context.Context, host string) ([]Alarm, error) {
	var alarms []Alarm
	err := a.call(ctx, host, func(ctx context.Context, c *session) error {
		answer, err := c.EtcdAlarmList(ctx)
		if err != nil {
			return callError(ctx, "listing the etcd alarms", host, err)
		}
		for _, message := range answer.GetMessages() {
			for _, alarm := range message.GetMemberAlarms() {
				if alarm.GetAlarm() != machine.EtcdMemberAlarm_NONE {
					alarms = append(alarms, Alarm{MemberID: alarm.GetMemberId(), Type: alarm.GetAlarm().String()})
				}
			}
		}
		return nil
	})
	return alarms, err
}

// ForfeitLeadership has the node's etcd member hand the leadership over, before
// the node reboots, and returns the member that took it; empty when it did not lead.
func (a Admin) ForfeitLeadership(ctx context.Context, host string) (string, error) {
	var leader string
	err := a.change(ctx, host, func(ctx context.Context, c *session) error {
		answer, err := c.EtcdForfeitLeadership(ctx, &machine.EtcdForfeitLeadershipRequest{})
		if err != nil {
			return changeError(ctx, "moving the etcd leadership away", host, err)
		}
		for _, message := range answer.GetMessages() {
			leader = message.GetMember()
		}
		return nil
	})
	return leader, err
}
