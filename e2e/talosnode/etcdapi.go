package talosnode

import (
	"context"
	"fmt"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// needControlPlane refuses calls that only control planes answer, in Talos' words.
func (s *system) needControlPlane(api string) error {
	switch {
	case s.config == nil:
		return status.Errorf(codes.Unimplemented, "machine type is not set, cannot use %s API", api)
	case !s.config.Machine().Type().IsControlPlane():
		return status.Errorf(codes.Unimplemented, "%s is only available on control plane nodes", api)
	}
	return nil
}

// needMember also refuses while the node's etcd does not run: then nobody listens on its port.
func (s *system) needMember(api string) error {
	if err := s.needControlPlane(api); err != nil {
		return err
	}
	s.mu.Lock()
	up := s.progress.etcd
	s.mu.Unlock()
	if !up {
		return status.Error(codes.DeadlineExceeded, "context deadline exceeded")
	}
	return nil
}

// needEtcd also refuses what etcd without a quorum does not answer.
func (s *system) needEtcd(api string) error {
	if err := s.needMember(api); err != nil {
		return err
	}
	if !s.cluster.healthy() {
		return status.Error(codes.DeadlineExceeded, "context deadline exceeded")
	}
	return nil
}

// Bootstrap makes the node the first member of a new etcd, once.
func (s *machineService) Bootstrap(context.Context, *machine.BootstrapRequest) (*machine.BootstrapResponse, error) {
	sys := s.system
	sys.mu.Lock()
	waits := sys.progress.etcdWaits
	sys.mu.Unlock()
	if !waits && sys.config != nil && sys.config.Machine().Type().IsControlPlane() {
		return nil, status.Error(codes.FailedPrecondition, "bootstrap is not available yet")
	}
	if err := sys.needControlPlane("bootstrap"); err != nil {
		return nil, err
	}
	// A node that already joined, or was bootstrapped, has etcd's data. A node that has none is
	// bootstrapped whatever the others do: two calls on two nodes make two clusters that fight.
	if !sys.becomeMember(true) {
		return nil, status.Error(codes.AlreadyExists, "etcd data directory is not empty")
	}
	return &machine.BootstrapResponse{Messages: []*machine.Bootstrap{{}}}, nil
}

// EtcdMemberList lists the members.
func (s *machineService) EtcdMemberList(context.Context, *machine.EtcdMemberListRequest) (*machine.EtcdMemberListResponse, error) {
	if err := s.system.needEtcd("member list"); err != nil {
		return nil, err
	}
	list := &machine.EtcdMembers{}
	s.system.cluster.read(func() {
		for _, p := range s.system.cluster.members() {
			list.LegacyMembers = append(list.LegacyMembers, p.hostname)
			list.Members = append(list.Members, &machine.EtcdMember{
				Id: p.etcd, Hostname: p.hostname, IsLearner: p.fault.Learner,
				PeerUrls:   []string{fmt.Sprintf("https://%s:2380", p.address)},
				ClientUrls: []string{fmt.Sprintf("https://%s:2379", p.address)},
			})
		}
	})
	return &machine.EtcdMemberListResponse{Messages: []*machine.EtcdMembers{list}}, nil
}

// EtcdStatus is the state of the node's own member, which it tells without a quorum too.
func (s *machineService) EtcdStatus(context.Context, *emptypb.Empty) (*machine.EtcdStatusResponse, error) {
	if err := s.system.needMember("etcd status"); err != nil {
		return nil, err
	}
	var member *machine.EtcdMemberStatus
	s.system.cluster.read(func() {
		member = s.system.cluster.status(s.system.self)
		for _, a := range s.system.cluster.alarms {
			if a.member == member.GetMemberId() {
				member.Errors = append(member.Errors, fmt.Sprintf("memberID:%d alarm:%s ", a.member, a.kind))
			}
		}
	})
	return &machine.EtcdStatusResponse{Messages: []*machine.EtcdStatus{{MemberStatus: member}}}, nil
}

// EtcdAlarmList lists the alarms.
func (s *machineService) EtcdAlarmList(context.Context, *emptypb.Empty) (*machine.EtcdAlarmListResponse, error) {
	if err := s.system.needEtcd("etcd alarm list"); err != nil {
		return nil, err
	}
	list := &machine.EtcdAlarm{}
	s.system.cluster.read(func() {
		for _, a := range s.system.cluster.alarms {
			list.MemberAlarms = append(list.MemberAlarms, &machine.EtcdMemberAlarm{MemberId: a.member, Alarm: a.kind})
		}
	})
	return &machine.EtcdAlarmListResponse{Messages: []*machine.EtcdAlarm{list}}, nil
}

// EtcdForfeitLeadership makes another member the leader; it names it, or nobody
// where the node was not the leader or there is no other.
func (s *machineService) EtcdForfeitLeadership(context.Context, *machine.EtcdForfeitLeadershipRequest) (*machine.EtcdForfeitLeadershipResponse, error) {
	if err := s.system.needEtcd("etcd forfeit leadership"); err != nil {
		return nil, err
	}
	var own uint64
	s.system.cluster.read(func() { own = s.system.self.etcd })
	return &machine.EtcdForfeitLeadershipResponse{Messages: []*machine.EtcdForfeitLeadership{{Member: s.system.cluster.forfeit(own)}}}, nil
}

// EtcdLeaveCluster takes the node's member out of etcd.
func (s *machineService) EtcdLeaveCluster(context.Context, *machine.EtcdLeaveClusterRequest) (*machine.EtcdLeaveClusterResponse, error) {
	if err := s.system.needEtcd("etcd leave"); err != nil {
		return nil, err
	}
	var own uint64
	s.system.cluster.read(func() { own = s.system.self.etcd })
	s.system.cluster.remove(own)
	s.system.advance(func(p *progress) { p.etcd = false })
	if err := s.system.node.cfg.Disk.Update(func(d *DiskState) { d.EtcdMember = 0 }); err != nil {
		return nil, err
	}
	return &machine.EtcdLeaveClusterResponse{Messages: []*machine.EtcdLeaveCluster{{}}}, nil
}

// EtcdRemoveMemberByID takes another member out of etcd.
func (s *machineService) EtcdRemoveMemberByID(_ context.Context, req *machine.EtcdRemoveMemberByIDRequest) (*machine.EtcdRemoveMemberByIDResponse, error) {
	if err := s.system.needEtcd("etcd remove member"); err != nil {
		return nil, err
	}
	if !s.system.cluster.remove(req.GetMemberId()) {
		return nil, status.Error(codes.NotFound, "etcdserver: member not found")
	}
	return &machine.EtcdRemoveMemberByIDResponse{Messages: []*machine.EtcdRemoveMemberByID{{}}}, nil
}
