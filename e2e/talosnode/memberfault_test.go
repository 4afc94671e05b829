package talosnode_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/client"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/talos-provision/provision/e2e/talosnode"
)

func etcdStatus(t *testing.T, c *client.Client) *machine.EtcdMemberStatus {
	t.Helper()
	answer, err := c.EtcdStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetMessages()[0].GetMemberStatus()
}

func TestMembersAreUnlike(t *testing.T) {
	t.Parallel()
	clusters := new(talosnode.Clusters)
	nodes := clusterOf(t, newPKI(t), clusters, "30.20", controlPlane, controlPlane, controlPlane)
	if err := bootstrap(t.Context(), nodes[0].admin); err != nil {
		t.Fatal(err)
	}
	for _, m := range nodes {
		eventually(t, "ready", runs(m.admin, true))
	}
	answer, err := nodes[1].admin.MachineClient.Hostname(t.Context(), &emptypb.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	name := answer.GetMessages()[0].GetHostname()
	leader, index := etcdStatus(t, nodes[0].admin).GetLeader(), etcdStatus(t, nodes[0].admin).GetRaftIndex()
	if index < 5 {
		t.Fatalf("raft index %d", index)
	}
	set := func(fault talosnode.MemberFault) *machine.EtcdMemberStatus {
		if !clusters.SetMember("k8s-prod", name, fault) {
			t.Fatal("there is no such member")
		}
		return etcdStatus(t, nodes[1].admin)
	}
	if got := set(talosnode.MemberFault{Learner: true}); !got.GetIsLearner() {
		t.Errorf("learner: %v", got)
	}
	if got := set(talosnode.MemberFault{Lag: 3}); got.GetRaftIndex()+3 != etcdStatus(t, nodes[0].admin).GetRaftIndex() {
		t.Errorf("lag: %v", got)
	}
	if got := set(talosnode.MemberFault{OtherLeader: true}); got.GetLeader() == leader || got.GetLeader() == 0 {
		t.Errorf("other leader: %v", got)
	}
	if got := set(talosnode.MemberFault{NoLeader: true, Errors: []string{"x"}}); got.GetLeader() != 0 || len(got.GetErrors()) != 2 {
		t.Errorf("no leader: %v", got)
	}
	if got := set(talosnode.MemberFault{}); got.GetLeader() != leader || len(got.GetErrors()) != 0 {
		t.Errorf("right again: %v", got)
	}
	if clusters.SetMember("k8s-prod", "nobody", talosnode.MemberFault{}) {
		t.Error("a member that is not there was changed")
	}
}

func TestEtcdLosesItsLeaderWithAQuorumOfItsNodes(t *testing.T) {
	t.Parallel()
	nodes := clusterOf(t, newPKI(t), new(talosnode.Clusters), "30.21", controlPlane, controlPlane, controlPlane)
	if err := bootstrap(t.Context(), nodes[0].admin); err != nil {
		t.Fatal(err)
	}
	for _, m := range nodes {
		eventually(t, "ready", runs(m.admin, true))
	}
	last := nodes[2].admin
	first := etcdStatus(t, last).GetLeader()
	nodes[0].node.Stop() // which leads
	if now := etcdStatus(t, last); now.GetLeader() == first || now.GetLeader() == 0 {
		t.Errorf("without the leader, %v leads", now.GetLeader())
	}
	if _, err := last.EtcdMemberList(t.Context(), &machine.EtcdMemberListRequest{}); err != nil {
		t.Errorf("two of three: %v", err)
	}
	nodes[1].node.Stop()
	if now := etcdStatus(t, last); now.GetLeader() != 0 {
		t.Errorf("one of three, and %v leads", now.GetLeader())
	}
	_, err := last.EtcdMemberList(t.Context(), &machine.EtcdMemberListRequest{})
	if diff := cmp.Diff(answer{codes.DeadlineExceeded, "context deadline exceeded"}, answerOf(err)); diff != "" {
		t.Errorf("one of three (-want +got):\n%s", diff)
	}
}

func TestANodeObjectDecides(t *testing.T) {
	t.Parallel()
	pki, clusters := newPKI(t), new(talosnode.Clusters)
	node := booted(t, talosnode.Config{UUID: "o", Disk: configuredDisk(pki.config(t, controlPlane)), FromDisk: true, Clusters: clusters, NodeObjects: true})
	admin := pki.admin(t, node)
	if err := bootstrap(t.Context(), admin); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs without being ready", runs(admin, false))
	name := clusters.Report()[0].Nodes[0].Name
	if !clusters.SetNodeObject("k8s-prod", name, talosnode.NodeObject{Exists: true, Ready: true}) {
		t.Fatal("there is no such node")
	}
	eventually(t, "it is ready", runs(admin, true))
	clusters.SetNodeObject("k8s-prod", name, talosnode.NodeObject{})
	eventually(t, "without its object it is not", runs(admin, false))
}
