package talosnode

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	clusterapi "github.com/siderolabs/talos/pkg/machinery/api/cluster"
	"google.golang.org/grpc"
)

type clusterService struct {
	clusterapi.UnimplementedClusterServiceServer
	system *system
}

// healthCheck is one condition of the server-side health check, in Talos' words.
type healthCheck struct {
	condition string
	// met returns why it is not met; the cluster's lock is held.
	met func(c *cluster, nodes []*peer) error
}

// HealthCheck waits for one condition after the other and streams how it goes.
// It ends without an error when all are met, with DeadlineExceeded when the
// time that the caller gave is over.
func (s *clusterService) HealthCheck(req *clusterapi.HealthCheckRequest, stream grpc.ServerStreamingServer[clusterapi.HealthCheckProgress]) error {
	if err := s.system.needControlPlane("cluster health check"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(stream.Context(), req.GetWaitTimeout().AsDuration())
	defer cancel()
	say := func(format string, a ...any) error {
		return stream.Send(&clusterapi.HealthCheckProgress{Message: fmt.Sprintf(format, a...)})
	}
	info := req.GetClusterInfo()
	wanted := append(slices.Clone(info.GetControlPlaneNodes()), info.GetWorkerNodes()...)
	if len(wanted) == 0 {
		s.system.cluster.read(func() {
			for _, p := range s.system.cluster.sorted() {
				wanted = append(wanted, p.address)
			}
		})
	}
	for _, address := range wanted {
		if _, err := netip.ParseAddr(address); err != nil {
			return fmt.Errorf("ParseAddr(%q): unable to parse IP", address)
		}
	}
	if err := say("discovered nodes: %q", wanted); err != nil {
		return err
	}
	for _, check := range healthChecks {
		if err := s.await(ctx, check, wanted, say); err != nil {
			return err
		}
	}
	return nil
}

// await returns when the condition is met.
func (s *clusterService) await(ctx context.Context, check healthCheck, wanted []string, say func(string, ...any) error) error {
	if err := say("waiting for %s: ...", check.condition); err != nil {
		return err
	}
	last := ""
	for {
		changed := s.system.cluster.watch()
		var unmet error
		s.system.cluster.read(func() {
			nodes, err := s.system.cluster.nodesAt(wanted)
			if unmet = err; err == nil {
				unmet = check.met(s.system.cluster, nodes)
			}
		})
		if unmet == nil {
			return say("waiting for %s: OK", check.condition)
		}
		if line := unmet.Error(); line != last {
			last = line
			if err := say("waiting for %s: %s", check.condition, line); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-time.After(healthInterval): // as Talos polls
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// healthInterval is how often a condition is looked at without a change.
const healthInterval = 5 * time.Second

// nodesAt are the peers with these addresses; the lock is held.
func (c *cluster) nodesAt(addresses []string) ([]*peer, error) {
	var nodes []*peer
	for _, address := range addresses {
		i := slices.IndexFunc(c.sorted(), func(p *peer) bool { return p.address == address })
		if i < 0 {
			return nil, fmt.Errorf("1 error occurred:\n\t* %s: rpc error: code = Unavailable desc = connection error", address)
		}
		nodes = append(nodes, c.sorted()[i])
	}
	return nodes, nil
}

// every makes a check of a property that each node must have.
func every(what string, has func(*peer) bool) func(*cluster, []*peer) error {
	return func(_ *cluster, nodes []*peer) error {
		var lacking []string
		for _, p := range nodes {
			if !has(p) {
				lacking = append(lacking, p.address)
			}
		}
		if len(lacking) > 0 {
			return fmt.Errorf("%s: %s", strings.Join(lacking, ", "), what)
		}
		return nil
	}
}

var healthChecks = []healthCheck{
	{"etcd to be healthy", func(c *cluster, nodes []*peer) error {
		if !c.quorum() {
			return fmt.Errorf("rpc error: code = Unknown desc = etcd has no leader")
		}
		return every("service \"etcd\" not in expected state \"Running\"", func(p *peer) bool { return !p.controlPlane || p.serves })(c, nodes)
	}},
	{"etcd members to be consistent across nodes", met},
	{"etcd members to be control plane nodes", etcdMembersAreControlPlanes},
	{"apid to be ready", every("service \"apid\" is not ready", func(p *peer) bool { return p.up })},
	{"all nodes memory sizes", met},
	{"all nodes disk sizes", met},
	{"no diagnostics", met},
	{"kubelet to be healthy", every("service \"kubelet\" not in expected state \"Running\"", func(p *peer) bool { return p.up && p.registered })},
	{"all nodes to finish boot sequence", every("machine is not in the stage running", func(p *peer) bool { return p.up && p.registered })},
	{"all k8s nodes to report", allNodesReport},
	{"all control plane static pods to be running", met},
	{"all control plane components to be ready", met},
	{"all k8s nodes to report ready", every("some nodes are not ready", func(p *peer) bool { return p.up && p.ready })},
	{"kube-proxy to report ready", met},
	{"coredns to report ready", met},
	{"all k8s nodes to report schedulable", met},
}

func met(*cluster, []*peer) error { return nil }

// etcdMembersAreControlPlanes finds members that are no node of the list, and the other way round.
func etcdMembersAreControlPlanes(c *cluster, nodes []*peer) error {
	members, controlPlanes := make([]string, 0, len(nodes)), make([]string, 0, len(nodes))
	for _, p := range c.members() {
		members = append(members, p.address)
	}
	for _, p := range nodes {
		if p.controlPlane {
			controlPlanes = append(controlPlanes, p.address)
		}
	}
	slices.Sort(members)
	slices.Sort(controlPlanes)
	if !slices.Equal(members, controlPlanes) {
		return fmt.Errorf("etcd member ips %q are not subset of control plane node ips %q", members, controlPlanes)
	}
	return nil
}

func allNodesReport(c *cluster, nodes []*peer) error {
	reported, expected := make([]string, 0, len(nodes)), make([]string, 0, len(nodes))
	for _, p := range c.sorted() {
		if p.registered {
			reported = append(reported, p.address)
		}
	}
	for _, p := range nodes {
		expected = append(expected, p.address)
	}
	slices.Sort(expected)
	slices.Sort(reported)
	if !slices.Equal(reported, expected) {
		return fmt.Errorf("expected nodes %q but got nodes %q", expected, reported)
	}
	return nil
}
