package kubeapi

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Workload is a number of equal pods with a budget.
type Workload struct {
	// Namespace is "default" unless given.
	Namespace, Name string
	Replicas        int
	// MinAvailable is that of its budget.
	MinAvailable int
	// Nodes are those that it may run on; empty for all.
	Nodes []string
}

// AddWorkload makes a workload and keeps it up until Stop: it stands in for the
// controllers of ReplicaSets and of budgets, and for the scheduler. Pods of nodes
// that are not ready count as healthy, as they do for some minutes in a cluster.
func (a *API) AddWorkload(ctx context.Context, w Workload) error {
	w.Namespace = cmp.Or(w.Namespace, metav1.NamespaceDefault)
	budget := Budget{Namespace: w.Namespace, Name: w.Name, Match: w.labels(), MinAvailable: w.MinAvailable, Expected: int32(w.Replicas), Desired: int32(w.MinAvailable)} //nolint:gosec // a few
	if err := a.AddBudget(ctx, budget); err != nil {
		return err
	}
	if err := a.keep(ctx, w, budget, 0); err != nil {
		return err
	}
	a.kubelet.running.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for round := 1; ; round++ {
			select {
			case <-a.stopping.Done():
				return
			case <-tick.C:
				// What fails is done in the next round, as controllers do.
				_ = a.keep(a.stopping, w, budget, round)
			}
		}
	})
	return nil
}

func (w Workload) labels() map[string]string { return map[string]string{"app": w.Name} }

// Running are the pods of a workload that are healthy, by node.
func (a *API) Running(ctx context.Context, w Workload) (map[string]int, error) {
	w.Namespace = cmp.Or(w.Namespace, metav1.NamespaceDefault)
	pods, err := a.Client.CoreV1().Pods(w.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(w.labels()).String()})
	if err != nil {
		return nil, fmt.Errorf("list the pods of %s/%s: %w", w.Namespace, w.Name, err)
	}
	found := map[string]int{}
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil {
			found[pods.Items[i].Spec.NodeName]++
		}
	}
	return found, nil
}

// keep makes what is missing where there is room, and tells the budget.
func (a *API) keep(ctx context.Context, w Workload, budget Budget, round int) error {
	running, err := a.Running(ctx, w)
	if err != nil {
		return err
	}
	nodes, err := a.schedulable(ctx, w.Nodes)
	if err != nil {
		return err
	}
	healthy := 0
	for _, n := range running {
		healthy += n
	}
	for ; healthy < w.Replicas && len(nodes) > 0; healthy++ {
		node := slices.MinFunc(nodes, func(x, y string) int { return cmp.Compare(running[x], running[y]) })
		pod := Pod{
			Namespace: w.Namespace, Name: fmt.Sprintf("%s-%d-%d", w.Name, round, healthy), Node: node,
			Labels: w.labels(), Owner: "ReplicaSet", OwnerName: w.Name,
		}
		if err := a.AddPod(ctx, pod); err != nil {
			return err
		}
		running[node]++
	}
	return a.tell(ctx, budget, int32(healthy)) //nolint:gosec // a few
}

// tell changes the status of a budget when it is another. An eviction that the
// API server counted in between comes first: that is a conflict.
func (a *API) tell(ctx context.Context, b Budget, healthy int32) error {
	budgets := a.Client.PolicyV1().PodDisruptionBudgets(b.Namespace)
	budget, err := budgets.Get(ctx, b.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	allowed := max(healthy-b.Desired, 0)
	if budget.Status.CurrentHealthy == healthy && budget.Status.DisruptionsAllowed == allowed {
		return nil
	}
	// The pods were counted before this version was read, so what was evicted since must not be counted twice.
	if running, err := a.Running(ctx, Workload{Namespace: b.Namespace, Name: b.Name}); err != nil || sum(running) != healthy {
		return err
	}
	budget.Status.ObservedGeneration, budget.Status.DisruptedPods = budget.Generation, nil
	budget.Status.ExpectedPods, budget.Status.DesiredHealthy = b.Expected, b.Desired
	budget.Status.CurrentHealthy, budget.Status.DisruptionsAllowed = healthy, allowed
	if _, err := budgets.UpdateStatus(ctx, budget, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
		return err
	}
	return nil
}

func sum(running map[string]int) (total int32) {
	for _, n := range running {
		total += int32(n) //nolint:gosec // a few
	}
	return total
}

// schedulable are the nodes that take pods, out of some or of all.
func (a *API) schedulable(ctx context.Context, of []string) ([]string, error) {
	nodes, err := a.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	var found []string
	for i := range nodes.Items {
		ready := slices.ContainsFunc(nodes.Items[i].Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		name := nodes.Items[i].Name
		if ready && !nodes.Items[i].Spec.Unschedulable && (len(of) == 0 || slices.Contains(of, name)) {
			found = append(found, name)
		}
	}
	return found, nil
}
