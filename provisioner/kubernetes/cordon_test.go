package kubernetes_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/talos-provision/provision/e2e/kubeapi"
	"github.com/talos-provision/provision/provisioner/kubernetes"
)

var nodeScenarios = []scenario{
	{"tells the version of the server", func(t *testing.T, l lab) {
		version, err := l.cluster.ServerVersion(t.Context())
		if err != nil || version != "v1.37.2" {
			t.Errorf("the version is %q (%v)", version, err)
		}
	}},
	// siderolabs/talos#10760
	{"tells of two Node objects of one machine that its name changed", func(t *testing.T, l lab) {
		for _, n := range []kubeapi.Node{
			{Name: "renamed-old", Address: "10.0.9.1", NotReady: true, MachineID: "m-9", SystemUUID: "u-9", BootID: "b-1"},
			{Name: "renamed-new", Address: "10.0.9.1", Kubelet: "v1.36.3", MachineID: "m-9", SystemUUID: "u-9", BootID: "b-2", ProviderID: "talos://m-9", Labels: map[string]string{"zone": "a"}},
		} {
			must(t, l.AddNode(t.Context(), n))
		}
		nodes, err := l.cluster.Nodes(t.Context())
		must(t, err)
		nodes = slices.DeleteFunc(nodes, func(n kubernetes.Node) bool { return n.MachineID != "m-9" })
		want := []kubernetes.Node{
			{Name: "renamed-new", Addresses: []string{"10.0.9.1"}, Kubelet: "v1.36.3", MachineID: "m-9", SystemUUID: "u-9", BootID: "b-2", ProviderID: "talos://m-9", Labels: map[string]string{"zone": "a", "kubernetes.io/hostname": "renamed-new"}, Ready: true},
			{Name: "renamed-old", Addresses: []string{"10.0.9.1"}, Kubelet: "v1.37.2", MachineID: "m-9", SystemUUID: "u-9", BootID: "b-1", Labels: map[string]string{"kubernetes.io/hostname": "renamed-old"}},
		}
		if diff := cmp.Diff(want, nodes, cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	}},
}

var cordonScenarios = []scenario{
	{"cordons, changes its reason, and uncordons", func(t *testing.T, l lab) {
		node := l.node(t, "cordon-ours")
		for _, reason := range []string{"upgrading to v1.13.9", "it did not come back"} {
			ours, err := l.cluster.Cordon(t.Context(), node, "run-1", reason)
			if err != nil || !ours {
				t.Fatalf("cordon: ours %v, %v", ours, err)
			}
			if got := l.seen(t, node); !got.Unschedulable || !got.Ours || got.Reason != reason {
				t.Errorf("after the cordon for %q the node is %+v", reason, got)
			}
		}
		// Again and again: a controller that was killed does not know how far it came.
		for range 2 {
			must(t, l.cluster.Uncordon(t.Context(), node))
			if got := l.get(t, node); got.Spec.Unschedulable || len(got.Annotations) > 0 {
				t.Errorf("after the uncordon it has unschedulable %v and %v", got.Spec.Unschedulable, got.Annotations)
			}
		}
	}},
	{"writes nothing when all is as wanted", func(t *testing.T, l lab) {
		node := l.node(t, "cordon-twice")
		versions := make([]string, 0, 2)
		for range 2 {
			_, err := l.cluster.Cordon(t.Context(), node, "run-1", "reason")
			must(t, err)
			versions = append(versions, l.get(t, node).ResourceVersion)
		}
		if versions[0] != versions[1] {
			t.Errorf("the second cordon wrote: %v", versions)
		}
	}},
	{"goes on with a cordon of an earlier run", func(t *testing.T, l lab) {
		node := l.node(t, "cordon-earlier")
		for _, run := range []string{"run-1", "run-2"} {
			if ours, err := l.cluster.Cordon(t.Context(), node, run, "reason"); err != nil || !ours {
				t.Fatalf("cordon of %s: ours %v, %v", run, ours, err)
			}
		}
		if by := l.get(t, node).Annotations["provision.talos/cordoned-by"]; by != "run-2" {
			t.Errorf("it is cordoned by %q", by)
		}
	}},
	// rancher/system-upgrade-controller#341
	{"leaves what somebody else cordoned", func(t *testing.T, l lab) {
		node := l.node(t, "cordon-theirs")
		l.kubectl(t, node, true)
		ours, err := l.cluster.Cordon(t.Context(), node, "run-1", "reason")
		if err != nil || ours {
			t.Errorf("cordon: ours %v, %v", ours, err)
		}
		must(t, l.cluster.Uncordon(t.Context(), node))
		if got := l.seen(t, node); !got.Unschedulable || got.Ours {
			t.Errorf("it is left as %+v", got)
		}
	}},
	{"leaves what somebody else uncordoned and cordoned again after us", func(t *testing.T, l lab) {
		node := l.node(t, "cordon-again")
		_, err := l.cluster.Cordon(t.Context(), node, "run-1", "reason")
		must(t, err)
		l.kubectl(t, node, false)
		l.kubectl(t, node, true)
		if got := l.seen(t, node); got.Ours {
			t.Errorf("it counts as ours: %+v", got)
		}
		must(t, l.cluster.Uncordon(t.Context(), node))
		if got := l.get(t, node); !got.Spec.Unschedulable || len(got.Annotations) > 0 {
			t.Errorf("after the uncordon it has unschedulable %v and %v", got.Spec.Unschedulable, got.Annotations)
		}
	}},
	{"cordons again what somebody else uncordoned", func(t *testing.T, l lab) {
		node := l.node(t, "cordon-undone")
		for range 2 {
			if ours, err := l.cluster.Cordon(t.Context(), node, "run-1", "reason"); err != nil || !ours {
				t.Fatalf("cordon: ours %v, %v", ours, err)
			}
			if got := l.seen(t, node); !got.Ours {
				t.Errorf("it is %+v", got)
			}
			l.kubectl(t, node, false)
		}
	}},
	{"cordons while the kubelet reports", func(t *testing.T, l lab) {
		node := l.node(t, "cordon-busy")
		ctx, cancel := context.WithCancel(t.Context())
		var busy sync.WaitGroup
		busy.Go(func() {
			for ready := true; ctx.Err() == nil; ready = !ready {
				_ = l.SetReady(ctx, node, ready)
			}
		})
		for range 5 {
			ours, err := l.cluster.Cordon(t.Context(), node, "run-1", "reason")
			if err != nil || !ours {
				t.Errorf("cordon: ours %v, %v", ours, err)
			}
			if err := l.cluster.Uncordon(t.Context(), node); err != nil {
				t.Error(err)
			}
		}
		cancel()
		busy.Wait()
		if got := l.seen(t, node); got.Unschedulable || got.Ours {
			t.Errorf("it is left as %+v", got)
		}
	}},
	{"tells of a node that is not there", func(t *testing.T, l lab) {
		if _, err := l.cluster.Cordon(t.Context(), "nobody", "run-1", "reason"); !errors.Is(err, kubernetes.ErrNoNode) {
			t.Errorf("cordon: %v", err)
		}
		must(t, l.cluster.Uncordon(t.Context(), "nobody"))
	}},
	{"leaves other annotations and the rest of the node", func(t *testing.T, l lab) {
		node := l.node(t, "cordon-annotated")
		n := l.get(t, node)
		n.Annotations = map[string]string{"their/own": "note"}
		_, err := l.Client.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{FieldManager: "them"})
		must(t, err)
		before := l.get(t, node)
		_, err = l.cluster.Cordon(t.Context(), node, "run-1", "reason")
		must(t, err)
		must(t, l.cluster.Uncordon(t.Context(), node))
		after := l.get(t, node)
		if diff := cmp.Diff(before, after, cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ResourceVersion", "ManagedFields", "Generation")); diff != "" {
			t.Error(diff)
		}
	}},
}

// seen is the node as the Cluster tells it.
func (l lab) seen(t *testing.T, name string) kubernetes.Node {
	t.Helper()
	nodes, err := l.cluster.Nodes(t.Context())
	must(t, err)
	at := slices.IndexFunc(nodes, func(n kubernetes.Node) bool { return n.Name == name })
	if at < 0 {
		t.Fatalf("there is no node %s", name)
	}
	return nodes[at]
}
