package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Blocker is a pod that keeps its node from being drained.
type Blocker struct {
	// Pod is its namespace/name.
	Pod  string
	Node string
	// Budget is the namespace/name of the PodDisruptionBudget that keeps it, if one does.
	Budget string
	// Why says what is in the way.
	Why string
	// Never: waiting does not help, somebody must change something.
	Never bool
}

// String names the pod, and why it stays.
func (b Blocker) String() string { return fmt.Sprintf("%s (%s)", b.Pod, b.Why) }

// DrainCheck says which pods of a node could not be evicted now, without touching
// any. The options are those that Drain would get.
func (c *Cluster) DrainCheck(ctx context.Context, node string, o DrainOptions) ([]Blocker, error) {
	all, err := c.check(ctx, node, o)
	return all[node], err
}

// DrainChecks is DrainCheck for all nodes, in as many requests as for one.
func (c *Cluster) DrainChecks(ctx context.Context, o DrainOptions) (map[string][]Blocker, error) {
	return c.check(ctx, "", o)
}

func (c *Cluster) check(ctx context.Context, node string, o DrainOptions) (map[string][]Blocker, error) {
	v, err := c.look(ctx, node)
	if err != nil {
		return nil, err
	}
	found := map[string][]Blocker{}
	for i := range v.pods {
		pod := &v.pods[i]
		if pod.Spec.NodeName == "" || v.stays(pod) {
			continue
		}
		if blocker, blocked := v.blocker(pod, o); blocked {
			found[blocker.Node] = append(found[blocker.Node], blocker)
		}
	}
	return found, nil
}

// stays says whether a drain leaves the pod where it is.
func (v *view) stays(pod *corev1.Pod) bool {
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return true
	}
	owner := metav1.GetControllerOf(pod)
	return owner != nil && isDaemonSet(owner) && !finished(pod) && v.daemonSets[pod.Namespace+"/"+owner.Name]
}

func isDaemonSet(owner *metav1.OwnerReference) bool {
	return owner.Kind == "DaemonSet" && owner.APIVersion == appsv1.SchemeGroupVersion.String()
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// blocker says what keeps a pod, in the order in which a drain asks.
func (v *view) blocker(pod *corev1.Pod, o DrainOptions) (Blocker, bool) {
	b := Blocker{Pod: nameOf(pod), Node: pod.Spec.NodeName}
	owner := metav1.GetControllerOf(pod)
	emptyDir := slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool { return volume.EmptyDir != nil })
	switch {
	case pod.DeletionTimestamp != nil:
		return v.terminating(pod, b)
	case finished(pod):
		return b, false
	case owner != nil && isDaemonSet(owner):
		b.Why, b.Never = "its DaemonSet "+owner.Name+" does not exist any more: delete the pod", !o.Bare
		return b, !o.Bare
	case owner == nil && !o.Bare:
		b.Why, b.Never = "it has no controller, so nobody would make it again: delete it, or allow such pods to go", true
		return b, true
	case emptyDir && o.KeepEmptyDir:
		b.Why, b.Never = "it has an emptyDir volume, which would be lost: delete it, or allow such volumes to go", true
		return b, true
	case pod.Status.Phase == corev1.PodPending:
		return b, false // no budget guards what has not begun
	}
	return v.guarded(pod, b)
}

// terminating pods are waited for; one that should have ended is in the way.
func (v *view) terminating(pod *corev1.Pod, b Blocker) (Blocker, bool) {
	late := v.now.Sub(pod.DeletionTimestamp.Time)
	switch {
	case len(pod.Finalizers) > 0:
		b.Why = "it is deleted, and waits for the finalizers " + strings.Join(pod.Finalizers, ", ")
	case late > 0:
		b.Why = fmt.Sprintf("it is deleted, and should have ended %v ago: look at the kubelet of %s", late.Round(time.Second), b.Node)
	default:
		return b, false
	}
	return b, true
}

// guarded asks the budgets as the API server would when the pod is evicted.
func (v *view) guarded(pod *corev1.Pod, b Blocker) (Blocker, bool) {
	budgets := v.budgetsOf(pod)
	switch {
	case len(budgets) == 0:
		return b, false
	case len(budgets) > 1:
		names := make([]string, 0, len(budgets))
		for _, budget := range budgets {
			names = append(names, nameOf(budget))
		}
		b.Budget, b.Never = names[0], true
		b.Why = "more than one PodDisruptionBudget guards it, which eviction does not support: " + strings.Join(names, ", ")
		return b, true
	}
	budget := budgets[0]
	b.Budget = nameOf(budget)
	if !ready(pod) && unhealthyMayGo(budget) {
		return b, false
	}
	status := budget.Status
	switch {
	case status.ObservedGeneration < budget.Generation:
		b.Why = fmt.Sprintf("the disruption controller has not looked at the PodDisruptionBudget %s yet", b.Budget)
		return b, true
	case status.DisruptionsAllowed > 0:
		return b, false
	}
	b.Never = status.DesiredHealthy >= status.ExpectedPods
	b.Why = fmt.Sprintf("PodDisruptionBudget %s allows no disruption: %d of %d pods are healthy, %d must be", b.Budget, status.CurrentHealthy, status.ExpectedPods, status.DesiredHealthy)
	if b.Never {
		b.Why += ", so none may ever go: run more replicas or change the budget"
	}
	return b, true
}

// unhealthyMayGo is the rule for running pods that are not ready.
func unhealthyMayGo(budget *policyv1.PodDisruptionBudget) bool {
	if policy := budget.Spec.UnhealthyPodEvictionPolicy; policy != nil && *policy == policyv1.AlwaysAllow {
		return true
	}
	return budget.Status.DesiredHealthy > 0 && budget.Status.CurrentHealthy >= budget.Status.DesiredHealthy
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func (v *view) budgetsOf(pod *corev1.Pod) []*policyv1.PodDisruptionBudget {
	var found []*policyv1.PodDisruptionBudget
	for i := range v.budgets {
		budget := &v.budgets[i]
		if budget.Namespace != pod.Namespace {
			continue
		}
		// No selector selects nothing, and an empty one everything.
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			found = append(found, budget)
		}
	}
	return found
}
