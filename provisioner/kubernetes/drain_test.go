package kubernetes_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/talos-provision/provision/e2e/kubeapi"
	"github.com/talos-provision/provision/provisioner/kubernetes"
)

// quick is a drain that does not take long to find that it cannot be done.
func quick() kubernetes.DrainOptions {
	return kubernetes.DrainOptions{Timeout: 4 * time.Second, Retry: 200 * time.Millisecond}
}

// patient is a drain that ends when it is done.
func patient() kubernetes.DrainOptions {
	return kubernetes.DrainOptions{Timeout: patience, Retry: 200 * time.Millisecond}
}

var drainScenarios = []scenario{
	{"evicts all but DaemonSets' and static pods", func(t *testing.T, l lab) {
		node, space := l.node(t, "drain-all"), l.namespace(t, "drain-all")
		must(t, l.AddDaemonSet(t.Context(), space, "proxy"))
		for _, p := range []kubeapi.Pod{
			{Name: "web"}, {Name: "scratch", EmptyDir: true}, {Name: "done", Phase: "Succeeded"}, {Name: "waiting", Phase: "Pending"},
			{Name: "proxy", Owner: "DaemonSet"}, {Name: "static", Mirror: true, Owner: "Node"}, {Name: "tolerant", TolerateAll: true},
		} {
			p.Namespace, p.Node = space, node
			l.pod(t, p)
		}
		l.pod(t, kubeapi.Pod{Namespace: space, Name: "elsewhere", Node: l.node(t, "drain-all-not")})
		var lines told
		o := patient()
		o.Progress = lines.add
		must(t, l.cluster.Drain(t.Context(), node, o))
		if diff := cmp.Diff([]string{"elsewhere", "proxy", "static"}, l.left(t, space)); diff != "" {
			t.Error(diff)
		}
		for _, want := range []string{"evicting pod drain-all/web", "pod drain-all/web is gone"} {
			if !slices.Contains(lines.all(), want) {
				t.Errorf("%q is not told: %q", want, lines.all())
			}
		}
		// A node without pods is drained.
		must(t, l.cluster.Drain(t.Context(), node, quick()))
	}},
	// siderolabs/talos#9882
	{"waits for a budget, and goes on when it allows", func(t *testing.T, l lab) {
		node, space := l.node(t, "drain-wait"), l.namespace(t, "drain-wait")
		budget := kubeapi.Budget{Namespace: space, Name: "web", Match: web, MinAvailable: 1, Expected: 2, Healthy: 1, Desired: 1}
		must(t, l.AddBudget(t.Context(), budget))
		l.pod(t, kubeapi.Pod{Namespace: space, Name: "web", Node: node, Labels: web})
		var lines told
		o, ended := patient(), make(chan error, 1)
		o.Progress = lines.add
		go func() { ended <- l.cluster.Drain(t.Context(), node, o) }()
		refused := func() bool {
			return slices.ContainsFunc(lines.all(), func(line string) bool { return strings.Contains(line, "disruption budget") })
		}
		until(t, "a refusal is told", func(context.Context) bool { return refused() })
		if diff := cmp.Diff([]string{"web"}, l.left(t, space)); diff != "" {
			t.Error(diff)
		}
		budget.Allowed, budget.Healthy = 1, 2
		must(t, l.SetBudget(t.Context(), budget))
		must(t, <-ended)
		if left := l.left(t, space); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
	}},
	{"names the pods and the budgets that keep them", func(t *testing.T, l lab) {
		node, space := l.node(t, "drain-kept"), l.namespace(t, "drain-kept")
		must(t, l.AddBudget(t.Context(), kubeapi.Budget{Namespace: space, Name: "db", Match: web, MinAvailable: 3, Expected: 3, Healthy: 3, Desired: 3}))
		l.pod(t, kubeapi.Pod{Namespace: space, Name: "db-0", Node: node, Labels: web})
		l.pod(t, kubeapi.Pod{Namespace: space, Name: "other", Node: node})
		err := l.cluster.Drain(t.Context(), node, quick())
		want := []kubernetes.Blocker{{
			Pod: "drain-kept/db-0", Node: node, Budget: "drain-kept/db", Never: true,
			Why: "PodDisruptionBudget drain-kept/db allows no disruption: 3 of 3 pods are healthy, 3 must be, so none may ever go: run more replicas or change the budget",
		}}
		var failed *kubernetes.DrainError
		if !errors.As(err, &failed) || cmp.Diff(want, failed.Pods) != "" || !strings.Contains(err.Error(), "drain-kept/db-0 (PodDisruptionBudget drain-kept/db") {
			t.Errorf("the drain ends with %v", err)
		}
		// The others went all the same.
		if diff := cmp.Diff([]string{"db-0"}, l.left(t, space)); diff != "" {
			t.Error(diff)
		}
	}},
	{"touches nothing when a pod has no controller", func(t *testing.T, l lab) {
		node, space := l.node(t, "drain-bare"), l.namespace(t, "drain-bare")
		l.pod(t, kubeapi.Pod{Namespace: space, Name: "web", Node: node})
		must(t, l.AddPod(t.Context(), kubeapi.Pod{Namespace: space, Name: "bare", Node: node}))
		err := l.cluster.Drain(t.Context(), node, quick())
		if err == nil || !strings.Contains(err.Error(), "drain-bare/bare (it has no controller") {
			t.Errorf("the drain ends with %v", err)
		}
		if diff := cmp.Diff([]string{"bare", "web"}, l.left(t, space)); diff != "" {
			t.Error(diff)
		}
		o := patient()
		o.Bare = true
		must(t, l.cluster.Drain(t.Context(), node, o))
		if left := l.left(t, space); len(left) > 0 {
			t.Errorf("%v are left", left)
		}
	}},
	{"keeps emptyDir volumes where it is told to", func(t *testing.T, l lab) {
		node, space := l.node(t, "drain-scratch"), l.namespace(t, "drain-scratch")
		l.pod(t, kubeapi.Pod{Namespace: space, Name: "scratch", Node: node, EmptyDir: true})
		o := quick()
		o.KeepEmptyDir = true
		if err := l.cluster.Drain(t.Context(), node, o); err == nil || !strings.Contains(err.Error(), "drain-scratch/scratch (it has an emptyDir volume") {
			t.Errorf("the drain ends with %v", err)
		}
	}},
	{"gives pods their grace period, or the one that is given", func(t *testing.T, l lab) {
		node, space := l.node(t, "drain-grace"), l.namespace(t, "drain-grace")
		for _, c := range []struct {
			name        string
			grace, want time.Duration
		}{{"own", 0, 2 * time.Second}, {"given", 1500 * time.Millisecond, 2 * time.Second}, {"short", time.Millisecond, time.Second}} {
			own := 600 * time.Second
			if c.grace == 0 {
				own = c.want
			}
			l.pod(t, kubeapi.Pod{Namespace: space, Name: c.name, Node: node, Stubborn: true, Grace: own})
			o, before := patient(), time.Now()
			o.GracePeriod = c.grace
			must(t, l.cluster.Drain(t.Context(), node, o))
			if took := time.Since(before); took < c.want {
				t.Errorf("%s: it took %v, the pod had %v", c.name, took, c.want)
			}
		}
	}},
	{"names pods that do not end", func(t *testing.T, l lab) {
		node, space := l.node(t, "drain-down"), l.namespace(t, "drain-down")
		l.StopKubelet(node)
		l.pod(t, kubeapi.Pod{Namespace: space, Name: "hangs", Node: node, Grace: time.Second})
		l.pod(t, kubeapi.Pod{Namespace: space, Name: "final", Node: node, Grace: time.Second, Finalizers: []string{"example.test/hold"}})
		err := l.cluster.Drain(t.Context(), node, quick())
		for _, want := range []string{"drain-down/hangs (it is deleted, and should have ended", "drain-down/final (it is deleted, and waits for the finalizers example.test/hold"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the drain ends with %v, without %q", err, want)
			}
		}
	}},
	{"moves a workload without ever taking more than its budget allows", func(t *testing.T, l lab) {
		space := l.namespace(t, "drain-move")
		must(t, l.AddNode(t.Context(), kubeapi.Node{Name: "drain-move", Address: "10.0.0.1"}))
		w := kubeapi.Workload{Namespace: space, Name: "web", Replicas: 4, MinAvailable: 3, Nodes: []string{"drain-move", "drain-move-to"}}
		must(t, l.AddWorkload(t.Context(), w))
		must(t, l.AddNode(t.Context(), kubeapi.Node{Name: "drain-move-to", Address: "10.0.0.2"}))
		_, err := l.cluster.Cordon(t.Context(), "drain-move", "run-1", "reason")
		must(t, err)
		fewest, o := 4, patient()
		o.Progress = func(string) {
			running, err := l.Running(t.Context(), w)
			if err != nil {
				t.Error(err)
				return
			}
			fewest = min(fewest, running["drain-move"]+running["drain-move-to"])
		}
		must(t, l.cluster.Drain(t.Context(), "drain-move", o))
		if fewest < 3 {
			t.Errorf("only %d of its pods were left", fewest)
		}
		until(t, "it is complete on the other node", func(ctx context.Context) bool {
			running, err := l.Running(ctx, w)
			return err == nil && running["drain-move"] == 0 && running["drain-move-to"] == 4
		})
	}},
	{"ends when it is told to", func(t *testing.T, l lab) {
		node, space := l.node(t, "drain-cut"), l.namespace(t, "drain-cut")
		must(t, l.AddBudget(t.Context(), kubeapi.Budget{Namespace: space, Name: "web", Match: web, MinAvailable: 1, Expected: 1, Healthy: 1, Desired: 1}))
		l.pod(t, kubeapi.Pod{Namespace: space, Name: "web", Node: node, Labels: web})
		ctx, cancel := context.WithCancel(t.Context())
		o := patient()
		o.Progress = func(string) { cancel() }
		if err := l.cluster.Drain(ctx, node, o); !errors.Is(err, context.Canceled) {
			t.Errorf("the drain ends with %v", err)
		}
		if diff := cmp.Diff([]string{"web"}, l.left(t, space)); diff != "" {
			t.Error(diff)
		}
	}},
	{"drains again what came just before the cordon", func(t *testing.T, l lab) {
		node, space := l.node(t, "drain-late"), l.namespace(t, "drain-late")
		l.pod(t, kubeapi.Pod{Namespace: space, Name: "early", Node: node})
		o, came := patient(), false
		o.Progress = func(string) {
			if came {
				return
			}
			came = true
			// The scheduler had bound them already. What tolerates the cordon may stay.
			for _, p := range []kubeapi.Pod{{Name: "late"}, {Name: "tolerant", TolerateAll: true}} {
				p.Namespace, p.Node, p.Owner = space, node, "ReplicaSet"
				if err := l.AddPod(t.Context(), p); err != nil {
					t.Error(err)
				}
			}
		}
		must(t, l.cluster.Drain(t.Context(), node, o))
		if diff := cmp.Diff([]string{"tolerant"}, l.left(t, space)); diff != "" {
			t.Error(diff)
		}
	}},
	{"names the DaemonSet that is gone", func(t *testing.T, l lab) {
		node, space := l.node(t, "drain-orphan"), l.namespace(t, "drain-orphan")
		l.pod(t, kubeapi.Pod{Namespace: space, Name: "orphan", Node: node, Owner: "DaemonSet"})
		if err := l.cluster.Drain(t.Context(), node, quick()); err == nil || !strings.Contains(err.Error(), "drain-orphan/orphan (its DaemonSet orphan does not exist any more") {
			t.Errorf("the drain ends with %v", err)
		}
	}},
	{"evicts no more than budgets allow, of several pods at the same time", func(t *testing.T, l lab) {
		node, space := l.node(t, "drain-one"), l.namespace(t, "drain-one")
		must(t, l.AddBudget(t.Context(), kubeapi.Budget{Namespace: space, Name: "web", Match: web, MinAvailable: 2, Expected: 3, Healthy: 3, Desired: 2, Allowed: 1}))
		for _, name := range []string{"web-1", "web-2", "web-3"} {
			l.pod(t, kubeapi.Pod{Namespace: space, Name: name, Node: node, Labels: web})
		}
		if err := l.cluster.Drain(t.Context(), node, quick()); err == nil {
			t.Error("it drained past the budget")
		}
		if left := l.left(t, space); len(left) != 2 {
			t.Errorf("%v are left", left)
		}
		got, err := l.Client.PolicyV1().PodDisruptionBudgets(space).Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil || got.Status.DisruptionsAllowed != 0 {
			t.Errorf("the budget allows %d more (%v)", got.Status.DisruptionsAllowed, err)
		}
	}},
}

var web = map[string]string{"app": "web"}
