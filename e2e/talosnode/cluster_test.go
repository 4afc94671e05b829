package talosnode_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/safe"
	"github.com/google/go-cmp/cmp"
	"github.com/siderolabs/talos/pkg/machinery/api/cluster"
	"github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/client"
	machinetype "github.com/siderolabs/talos/pkg/machinery/config/machine"
	clusterres "github.com/siderolabs/talos/pkg/machinery/resources/cluster"
	"github.com/siderolabs/talos/pkg/machinery/resources/k8s"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
	"google.golang.org/grpc/codes"
	"gopkg.in/yaml.v3"

	"github.com/talos-provision/provision/e2e/talosnode"
)

// member is one node of a test cluster.
type member struct {
	node  *talosnode.Node
	admin *client.Client
	disk  *talosnode.Disk
}

// clusterOf starts installed nodes of one cluster on addresses of their own.
func clusterOf(t *testing.T, pki clusterPKI, clusters *talosnode.Clusters, net string, kinds ...machinetype.Type) []member {
	t.Helper()
	all := make([]member, 0, len(kinds))
	for i, kind := range kinds {
		m := member{disk: configuredDisk(pki.config(t, kind))}
		m.node = booted(t, talosnode.Config{
			Address: fmt.Sprintf("127.%s.%d:0", net, i+1), Version: "v1.13.9", UUID: fmt.Sprintf("%s-%d", net, i), Disk: m.disk, FromDisk: true,
			Clusters: clusters, Cmdline: "talos.platform=metal",
		})
		m.admin = pki.admin(t, m.node)
		all = append(all, m)
	}
	return all
}

func bootstrap(ctx context.Context, c *client.Client) error {
	return c.Bootstrap(ctx, &machine.BootstrapRequest{})
}

func TestClusterComesUpAfterOneBootstrap(t *testing.T) {
	t.Parallel()
	var clusters talosnode.Clusters
	nodes := clusterOf(t, newPKI(t), &clusters, "30.1", controlPlane, controlPlane, controlPlane, worker)
	for _, m := range nodes {
		status, err := machineStatus(t.Context(), m.admin)
		if err != nil {
			t.Fatal(err)
		}
		if status.Stage != runtime.MachineStageBooting || status.Status.Ready || len(status.Status.UnmetConditions) == 0 {
			t.Errorf("before the bootstrap: %+v", status)
		}
	}
	services, err := nodes[0].admin.ServiceInfo(t.Context(), "etcd")
	if err != nil || len(services) != 1 {
		t.Fatal(services, err)
	}
	if got := services[0].Service.GetState(); got != "Preparing" {
		t.Errorf("etcd is %s before the bootstrap", got)
	}
	if err := bootstrap(t.Context(), nodes[0].admin); err != nil {
		t.Fatal(err)
	}
	for i, m := range nodes {
		eventually(t, fmt.Sprintf("node %d runs and is ready", i), runs(m.admin, true))
	}
	for i, kind := range []string{"control plane", "joined control plane"} {
		want := answer{codes.AlreadyExists, "etcd data directory is not empty"}
		if diff := cmp.Diff(want, answerOf(bootstrap(t.Context(), nodes[i].admin))); diff != "" {
			t.Errorf("bootstrap of a %s (-want +got):\n%s", kind, diff)
		}
	}
	report := clusters.Report()
	if len(report) != 1 || report[0].Bootstraps != 1 || len(report[0].Members) != 3 || len(report[0].Nodes) != 4 {
		t.Errorf("report = %+v", report)
	}
	var ready []string
	for _, n := range report[0].Nodes {
		if n.Ready {
			ready = append(ready, n.Name)
		}
	}
	members, err := safe.StateListAll[*clusterres.Member](t.Context(), nodes[3].admin.COSI)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for m := range members.All() {
		names = append(names, m.TypedSpec().Hostname)
	}
	slices.Sort(names)
	if diff := cmp.Diff(ready, names); diff != "" {
		t.Errorf("members (-ready nodes +seen by the worker):\n%s", diff)
	}
	nodename, err := safe.StateGetByID[*k8s.Nodename](t.Context(), nodes[3].admin.COSI, k8s.NodenameID)
	if err != nil {
		t.Fatal(err)
	}
	kube, err := safe.StateGetByID[*k8s.NodeStatus](t.Context(), nodes[3].admin.COSI, nodename.TypedSpec().Nodename)
	if err != nil || !kube.TypedSpec().NodeReady {
		t.Errorf("Kubernetes node: %v, %v", kube, err)
	}
}

// A worker has no key for its own certificate: trustd of a control plane signs it.
func TestWorkerWaitsForAControlPlane(t *testing.T) {
	t.Parallel()
	pki, clusters := newPKI(t), new(talosnode.Clusters)
	node, err := talosnode.Start(t.Context(), talosnode.Config{
		Address: "127.30.3.1:50000", Version: "v1.13.9", UUID: "w", Disk: configuredDisk(pki.config(t, worker)), FromDisk: true, Clusters: clusters,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.Stop)
	if isOpen(t.Context(), node.Addr().String()) {
		t.Error("the port is open without a control plane")
	}
	clusterOf(t, newPKI(t), clusters, "30.4", controlPlane) // of another cluster
	if isOpen(t.Context(), node.Addr().String()) {
		t.Error("a control plane of another cluster signed")
	}
	clusterOf(t, pki, clusters, "30.5", controlPlane)
	admin := pki.admin(t, node)
	eventually(t, "the worker answers", func(ctx context.Context) bool {
		_, err := admin.Version(ctx)
		return err == nil
	})
}

func TestMembershipSurvivesAPowerCut(t *testing.T) {
	t.Parallel()
	pki, clusters := newPKI(t), new(talosnode.Clusters)
	one := clusterOf(t, pki, clusters, "30.6", controlPlane)[0]
	if err := bootstrap(t.Context(), one.admin); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ready", runs(one.admin, true))
	address := one.node.Addr().String()
	one.node.Stop()
	if up := clusters.Report()[0].Nodes[0]; up.Up || up.Ready {
		t.Errorf("still there: %+v", up)
	}
	// Another process would have another registry: the disk knows.
	again := booted(t, talosnode.Config{Address: address, UUID: "30.6-0", Disk: one.disk, FromDisk: true, Version: "v1.13.9"})
	admin := pki.admin(t, again)
	eventually(t, "ready again", runs(admin, true))
	want := answer{codes.AlreadyExists, "etcd data directory is not empty"}
	if diff := cmp.Diff(want, answerOf(bootstrap(t.Context(), admin))); diff != "" {
		t.Errorf("bootstrap again (-want +got):\n%s", diff)
	}
}

func TestHealthCheck(t *testing.T) {
	t.Parallel()
	pki, clusters := newPKI(t), new(talosnode.Clusters)
	nodes := clusterOf(t, pki, clusters, "30.7", controlPlane, worker)
	if err := bootstrap(t.Context(), nodes[0].admin); err != nil {
		t.Fatal(err)
	}
	last, err := health(t, nodes[0].admin, time.Minute, &cluster.ClusterInfo{ControlPlaneNodes: []string{"127.30.7.1"}, WorkerNodes: []string{"127.30.7.2"}})
	if err != nil || last != "waiting for all k8s nodes to report schedulable: OK" {
		t.Errorf("healthy cluster: %q, %v", last, err)
	}
	_, err = health(t, nodes[1].admin, time.Minute, nil)
	if diff := cmp.Diff(answer{codes.Unimplemented, "cluster health check is only available on control plane nodes"}, answerOf(err)); diff != "" {
		t.Errorf("worker (-want +got):\n%s", diff)
	}
	nodes[1].node.Stop()
	last, err = health(t, nodes[0].admin, 50*time.Millisecond, nil)
	if answerOf(err).Code != codes.DeadlineExceeded || !strings.Contains(last, "127.30.7.2") {
		t.Errorf("one node down: %q, %v", last, err)
	}
}

// health returns the last message.
func health(t *testing.T, c *client.Client, timeout time.Duration, info *cluster.ClusterInfo) (last string, err error) {
	t.Helper()
	stream, err := c.ClusterHealthCheck(t.Context(), timeout, info)
	if err != nil {
		return "", err
	}
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return last, nil
		}
		if err != nil {
			return last, err
		}
		last = message.GetMessage()
	}
}

func TestKubeconfigIsOfTheCluster(t *testing.T) {
	t.Parallel()
	one := clusterOf(t, newPKI(t), new(talosnode.Clusters), "30.8", controlPlane)[0]
	got, err := one.admin.Kubeconfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Kind     string
		Clusters []struct {
			Name    string
			Cluster struct{ Server string }
		}
	}
	if err := yaml.Unmarshal(got, &config); err != nil {
		t.Fatal(err)
	}
	if config.Kind != "Config" || len(config.Clusters) != 1 || config.Clusters[0].Name != "k8s-prod" || config.Clusters[0].Cluster.Server != "https://127.0.0.1:6443" {
		t.Errorf("kubeconfig of %+v", config)
	}
}

func TestNodeThatIsNeverReadySaysSo(t *testing.T) {
	t.Parallel()
	pki := newPKI(t)
	node := booted(t, talosnode.Config{
		UUID: "n", Disk: configuredDisk(pki.config(t, controlPlane)), FromDisk: true, Faults: talosnode.Faults{NeverReady: true},
	})
	admin := pki.admin(t, node)
	if err := bootstrap(t.Context(), admin); err != nil {
		t.Fatal(err)
	}
	eventually(t, "running", runs(admin, false))
	status, err := machineStatus(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	last := status.Status.UnmetConditions[len(status.Status.UnmetConditions)-1]
	if last.Name != "nodeReady" || !strings.HasSuffix(last.Reason, "is not ready") {
		t.Errorf("unmet = %+v", status.Status.UnmetConditions)
	}
}

func TestBootstrapIsTooEarlyUntilEtcdWaits(t *testing.T) {
	t.Parallel()
	pki := newPKI(t)
	node := booted(t, talosnode.Config{
		UUID: "early", Disk: configuredDisk(pki.config(t, controlPlane)), FromDisk: true, ReadyTime: time.Hour,
	})
	want := answer{codes.FailedPrecondition, "bootstrap is not available yet"}
	if diff := cmp.Diff(want, answerOf(bootstrap(t.Context(), pki.admin(t, node)))); diff != "" {
		t.Errorf("bootstrap (-want +got):\n%s", diff)
	}
}

// I6 is not for the node to keep: a second bootstrap on a node that has not
// joined yet is taken, and makes a second cluster.
func TestSecondBootstrapOnAnotherNodeIsTaken(t *testing.T) {
	t.Parallel()
	pki, clusters := newPKI(t), new(talosnode.Clusters)
	first := clusterOf(t, pki, clusters, "30.9", controlPlane)[0]
	if err := bootstrap(t.Context(), first.admin); err != nil {
		t.Fatal(err)
	}
	first.node.Stop() // so that nobody is there to join
	second := clusterOf(t, pki, clusters, "30.10", controlPlane)[0]
	if err := bootstrap(t.Context(), second.admin); err != nil {
		t.Fatal(err)
	}
	if got := clusters.Report()[0].Bootstraps; got != 2 {
		t.Errorf("bootstraps = %d, want 2 to be seen", got)
	}
}
