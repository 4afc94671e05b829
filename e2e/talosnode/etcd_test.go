package talosnode_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc/codes"

	"github.com/talos-provision/provision/e2e/talosnode"
)

func TestEtcdCalls(t *testing.T) {
	t.Parallel()
	clusters := new(talosnode.Clusters)
	nodes := clusterOf(t, newPKI(t), clusters, "30.2", controlPlane, controlPlane, controlPlane, worker)
	first, ctx := nodes[0].admin, t.Context()
	if err := bootstrap(ctx, first); err != nil {
		t.Fatal(err)
	}
	for _, m := range nodes[:3] {
		eventually(t, "ready", runs(m.admin, true))
	}
	list, err := first.EtcdMemberList(ctx, &machine.EtcdMemberListRequest{})
	if err != nil || len(list.GetMessages()[0].GetMembers()) != 3 {
		t.Fatalf("members = %v, %v", list, err)
	}
	before, err := first.EtcdStatus(ctx)
	if err != nil {
		t.Fatal(err)
	}
	own := before.GetMessages()[0].GetMemberStatus()
	if own.GetLeader() != own.GetMemberId() {
		t.Errorf("the node that was bootstrapped does not lead: %v", own)
	}
	if alarms, err := first.EtcdAlarmList(ctx); err != nil || len(alarms.GetMessages()[0].GetMemberAlarms()) != 0 {
		t.Errorf("alarms = %v, %v", alarms, err)
	}
	if !clusters.RaiseAlarm("k8s-prod", list.GetMessages()[0].GetMembers()[1].GetHostname(), machine.EtcdMemberAlarm_NOSPACE) {
		t.Error("no member to raise an alarm")
	}
	alarms, err := first.EtcdAlarmList(ctx)
	if err != nil || len(alarms.GetMessages()[0].GetMemberAlarms()) != 1 ||
		alarms.GetMessages()[0].GetMemberAlarms()[0].GetAlarm() != machine.EtcdMemberAlarm_NOSPACE {
		t.Errorf("alarms = %v, %v", alarms, err)
	}
	heir, err := first.EtcdForfeitLeadership(ctx, &machine.EtcdForfeitLeadershipRequest{})
	if err != nil || heir.GetMessages()[0].GetMember() == "" {
		t.Fatalf("heir = %v, %v", heir, err)
	}
	after, err := first.EtcdStatus(ctx)
	if err != nil || after.GetMessages()[0].GetMemberStatus().GetLeader() == own.GetMemberId() {
		t.Errorf("leader afterwards: %v, %v", after, err)
	}
	if err := first.EtcdLeaveCluster(ctx, &machine.EtcdLeaveClusterRequest{}); err != nil {
		t.Error(err)
	}
	list, err = nodes[1].admin.EtcdMemberList(ctx, &machine.EtcdMemberListRequest{})
	if err != nil || len(list.GetMessages()[0].GetMembers()) != 2 {
		t.Errorf("members after one left = %v, %v", list, err)
	}
	_, err = nodes[3].admin.EtcdMemberList(ctx, &machine.EtcdMemberListRequest{})
	if diff := cmp.Diff(answer{codes.Unimplemented, "member list is only available on control plane nodes"}, answerOf(err)); diff != "" {
		t.Errorf("worker (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(answer{codes.Unimplemented, "bootstrap is only available on control plane nodes"}, answerOf(bootstrap(ctx, nodes[3].admin))); diff != "" {
		t.Errorf("worker (-want +got):\n%s", diff)
	}
}
