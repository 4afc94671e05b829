package kubernetes_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/talos-provision/provision/e2e/kubeapi"
	"github.com/talos-provision/provision/provisioner/kubernetes"
)

// verdict is what a check and the API server say of one pod.
type verdict struct {
	name    string
	pod     kubeapi.Pod
	budgets []kubeapi.Budget
	// blocked and never are the check's; why is a part of its words.
	blocked, never bool
	why            string
	// bare pods are no matter of the API server.
	bare bool
}

func budget(expected, healthy, desired, allowed int32) kubeapi.Budget {
	return kubeapi.Budget{Name: "web", Match: web, MinAvailable: int(desired), Expected: expected, Healthy: healthy, Desired: desired, Allowed: allowed}
}

func with(b kubeapi.Budget, change func(*kubeapi.Budget)) kubeapi.Budget {
	change(&b)
	return b
}

var verdicts = []verdict{
	{name: "free"},
	{name: "allowed", budgets: []kubeapi.Budget{budget(3, 3, 2, 1)}},
	{name: "not-now", budgets: []kubeapi.Budget{budget(3, 2, 2, 0)}, blocked: true, why: "2 of 3 pods are healthy, 2 must be"},
	{name: "all-needed", budgets: []kubeapi.Budget{budget(2, 2, 2, 0)}, blocked: true, never: true, why: "run more replicas"},
	{name: "single", budgets: []kubeapi.Budget{budget(1, 1, 1, 0)}, blocked: true, never: true, why: "none may ever go"},
	{name: "max-zero", budgets: []kubeapi.Budget{with(budget(4, 4, 4, 0), func(b *kubeapi.Budget) { b.MaxUnavailable = "0" })}, blocked: true, never: true, why: "none may ever go"},
	{name: "unseen", budgets: []kubeapi.Budget{with(budget(2, 2, 1, 1), func(b *kubeapi.Budget) { b.Unseen = true })}, blocked: true, why: "has not looked"},
	{name: "two-budgets", budgets: []kubeapi.Budget{budget(2, 2, 1, 1), with(budget(2, 2, 1, 1), func(b *kubeapi.Budget) { b.Name = "web-too" })}, blocked: true, never: true, why: "more than one PodDisruptionBudget"},
	{name: "everything", budgets: []kubeapi.Budget{with(budget(1, 1, 1, 0), func(b *kubeapi.Budget) { b.Match = nil })}, blocked: true, never: true, why: "none may ever go"},
	{name: "others", budgets: []kubeapi.Budget{with(budget(1, 1, 1, 0), func(b *kubeapi.Budget) { b.Match = map[string]string{"app": "db"} })}},
	{name: "unready", pod: kubeapi.Pod{NotReady: true}, budgets: []kubeapi.Budget{budget(3, 2, 2, 0)}},
	{name: "unready-few", pod: kubeapi.Pod{NotReady: true}, budgets: []kubeapi.Budget{budget(3, 1, 2, 0)}, blocked: true, why: "1 of 3 pods are healthy"},
	{name: "unready-always", pod: kubeapi.Pod{NotReady: true}, budgets: []kubeapi.Budget{with(budget(3, 1, 2, 0), func(b *kubeapi.Budget) { b.Unhealthy = policyv1.AlwaysAllow })}},
	{name: "pending", pod: kubeapi.Pod{Phase: "Pending"}, budgets: []kubeapi.Budget{budget(1, 0, 1, 0)}},
	{name: "failed", pod: kubeapi.Pod{Phase: "Failed"}, budgets: []kubeapi.Budget{budget(1, 0, 1, 0)}},
	{name: "bare", pod: kubeapi.Pod{Owner: "none"}, blocked: true, never: true, why: "no controller", bare: true},
	{name: "bare-done", pod: kubeapi.Pod{Owner: "none", Phase: "Succeeded"}},
}

var checkScenarios = []scenario{
	{"says before anything is touched what the API server says then", func(t *testing.T, l lab) {
		for _, v := range verdicts {
			t.Run(v.name, func(t *testing.T) {
				t.Parallel()
				v.check(t, l)
			})
		}
	}},
	{"tells all nodes at the same time as each", func(t *testing.T, l lab) {
		space := l.namespace(t, "check-all")
		for _, name := range []string{"check-all-1", "check-all-2"} {
			must(t, l.AddPod(t.Context(), kubeapi.Pod{Namespace: space, Name: name, Node: l.node(t, name)}))
		}
		must(t, l.AddPod(t.Context(), kubeapi.Pod{Namespace: space, Name: "unscheduled"}))
		all, err := l.cluster.DrainChecks(t.Context(), kubernetes.DrainOptions{})
		must(t, err)
		for _, node := range []string{"check-all-1", "check-all-2"} {
			one, err := l.cluster.DrainCheck(t.Context(), node, kubernetes.DrainOptions{})
			must(t, err)
			if diff := cmp.Diff(one, all[node]); diff != "" || len(one) != 1 {
				t.Errorf("%s: %v: %s", node, one, diff)
			}
		}
		if unscheduled, there := all[""]; there {
			t.Errorf("pods of no node are told: %v", unscheduled)
		}
	}},
}

func (v verdict) check(t *testing.T, l lab) {
	space := l.namespace(t, "check-"+v.name)
	node := l.node(t, "check-"+v.name)
	pod := v.pod
	pod.Namespace, pod.Name, pod.Node, pod.Labels = space, "web", node, web
	switch pod.Owner {
	case "":
		pod.Owner = "ReplicaSet"
	case "none":
		pod.Owner = ""
	}
	must(t, l.AddPod(t.Context(), pod))
	for _, b := range v.budgets {
		b.Namespace = space
		must(t, l.AddBudget(t.Context(), b))
	}
	found, err := l.cluster.DrainCheck(t.Context(), node, kubernetes.DrainOptions{})
	must(t, err)
	if len(found) > 1 || (len(found) == 1) != v.blocked {
		t.Fatalf("the check finds %v", found)
	}
	if v.blocked && (found[0].Never != v.never || !strings.Contains(found[0].Why, v.why) || found[0].Pod != space+"/web" || found[0].Node != node) {
		t.Errorf("the check finds %+v", found[0])
	}
	if v.bare {
		return
	}
	// The one that decides. It asks for 10 s of patience where a budget is not looked at yet.
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "web"}}
	path := "/api/v1/namespaces/" + space + "/pods/web/eviction"
	err = l.Client.PolicyV1().RESTClient().Post().AbsPath(path).MaxRetries(0).Body(eviction).Do(t.Context()).Error()
	if (err != nil) != v.blocked {
		t.Errorf("the check finds %v, and the API server answers %v", found, err)
	}
}

var accessScenarios = []scenario{
	{"says what the user may not do", func(t *testing.T, l lab) {
		node := l.node(t, "access-forbidden")
		reader := l.as(t, "reader", "nobodies")
		_, nodes := reader.Nodes(t.Context())
		_, cordon := reader.Cordon(t.Context(), node, "run-1", "reason")
		_, check := reader.DrainCheck(t.Context(), node, kubernetes.DrainOptions{})
		_, lock := reader.Lock(t.Context(), kubernetes.LockOptions{Holder: "reader"})
		for what, err := range map[string]error{
			"list the nodes": nodes, "cordon the node access-forbidden": cordon, "uncordon the node access-forbidden": reader.Uncordon(t.Context(), node),
			"list the pods": check, "drain the node access-forbidden": reader.Drain(t.Context(), node, quick()), "take the Lease kube-system/provision-upgrade": lock,
		} {
			if !errors.Is(err, kubernetes.ErrForbidden) || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), `User "reader" cannot`) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}},
	{"says that it is another cluster's kubeconfig", func(t *testing.T, l lab) {
		kubeconfig := otherAuthority(t, l)
		cluster, err := kubernetes.Connect(kubeconfig, patience)
		must(t, err)
		if _, err := cluster.ServerVersion(t.Context()); !errors.Is(err, kubernetes.ErrWrongAuthority) {
			t.Errorf("the version: %v", err)
		}
	}},
}
