package kubeapi_test

import (
	"context"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/talos-provision/provision/e2e/kubeapi"
)

func TestEvictsAsBudgetsAllowAndEndsPodsAsAKubeletDoes(t *testing.T) {
	t.Parallel()
	api, ctx := kubeapi.StartForTest(t, "127.71.0.1"), t.Context()
	must(t, api.AddNode(ctx, kubeapi.Node{Name: "w-1", Address: "10.0.0.1"}))
	web := map[string]string{"app": "web"}
	for _, name := range []string{"web-1", "web-2"} {
		must(t, api.AddPod(ctx, kubeapi.Pod{Name: name, Node: "w-1", Owner: "ReplicaSet", Labels: web}))
	}
	must(t, api.AddPod(ctx, kubeapi.Pod{Name: "kept", Node: "w-1", Owner: "ReplicaSet"}))
	must(t, api.AddBudget(ctx, kubeapi.Budget{Name: "web", Match: web, MinAvailable: 1, Expected: 2, Healthy: 2, Desired: 1, Allowed: 1}))

	evict := func(name string) error {
		return api.Client.PolicyV1().Evictions("default").Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
	}
	must(t, evict("web-1"))
	gone(ctx, t, api, "web-1")
	// The API server itself counts down what the budget allows.
	if err := evict("web-2"); !apierrors.IsTooManyRequests(err) {
		t.Errorf("the second eviction ends with %v", err)
	}

	api.StopKubelet("w-1")
	must(t, evict("kept"))
	if pod, err := api.Client.CoreV1().Pods("default").Get(ctx, "kept", metav1.GetOptions{}); err != nil || pod.DeletionTimestamp == nil {
		t.Errorf("without a kubelet the pod does not stay Terminating: %v", err)
	}
	api.StartKubelet("w-1")
	gone(ctx, t, api, "kept")
}

func gone(ctx context.Context, t *testing.T, api *kubeapi.API, pod string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := api.Client.CoreV1().Pods("default").Get(ctx, pod, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the pod %s does not go: %v", pod, err)
		case <-tick.C:
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
