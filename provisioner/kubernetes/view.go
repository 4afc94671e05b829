package kubernetes

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// view is what decides about evictions, as it was at one moment.
type view struct {
	now     time.Time
	pods    []corev1.Pod
	budgets []policyv1.PodDisruptionBudget
	// daemonSets are those that exist, by namespace/name.
	daemonSets map[string]bool
}

// look reads the pods of a node, or of all nodes, and what guards them.
func (c *Cluster) look(ctx context.Context, node string) (*view, error) {
	v := &view{now: time.Now(), daemonSets: map[string]bool{}}
	options := metav1.ListOptions{Limit: chunk}
	if node != "" {
		options.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
	}
	for {
		page, err := c.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return nil, c.failure(ctx, "list the pods", err)
		}
		v.pods = append(v.pods, page.Items...)
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	budgets, err := c.client.PolicyV1().PodDisruptionBudgets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, c.failure(ctx, "list the PodDisruptionBudgets", err)
	}
	v.budgets = budgets.Items
	sets, err := c.client.AppsV1().DaemonSets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, c.failure(ctx, "list the DaemonSets", err)
	}
	for i := range sets.Items {
		v.daemonSets[nameOf(&sets.Items[i])] = true
	}
	return v, nil
}
