package kubeapi

import (
	"cmp"
	"context"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Budget is a PodDisruptionBudget and what the disruption controller says of it.
type Budget struct {
	// Namespace is "default" unless given.
	Namespace, Name string
	// Match are the labels of the pods that it guards; it guards all of the namespace without any.
	Match map[string]string
	// MinAvailable is its spec; ignored when MaxUnavailable is given.
	MinAvailable int
	// MaxUnavailable is such as "0" or "25%".
	MaxUnavailable string
	// Unhealthy is its unhealthyPodEvictionPolicy.
	Unhealthy policyv1.UnhealthyPodEvictionPolicyType

	// Expected and Healthy are how many pods there are and are ready; Desired is how
	// many must be; Allowed is how many may go.
	Expected, Healthy, Desired, Allowed int32
	// Unseen: the controller has not seen this version of it yet.
	Unseen bool
}

// AddBudget makes a budget with its status, or changes its status.
func (a *API) AddBudget(ctx context.Context, b Budget) error {
	b.Namespace = cmp.Or(b.Namespace, metav1.NamespaceDefault)
	available := intstr.FromInt(b.MinAvailable)
	spec := policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: b.Match}, MinAvailable: &available}
	if b.MaxUnavailable != "" {
		unavailable := intstr.Parse(b.MaxUnavailable)
		spec.MinAvailable, spec.MaxUnavailable = nil, &unavailable
	}
	if b.Unhealthy != "" {
		spec.UnhealthyPodEvictionPolicy = &b.Unhealthy
	}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: b.Name}, Spec: spec}
	if _, err := a.Client.PolicyV1().PodDisruptionBudgets(b.Namespace).Create(ctx, budget, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the PodDisruptionBudget %s/%s: %w", b.Namespace, b.Name, err)
	}
	if b.Unseen {
		return nil
	}
	return a.SetBudget(ctx, b)
}

// SetBudget gives a budget another status.
func (a *API) SetBudget(ctx context.Context, b Budget) error {
	b.Namespace = cmp.Or(b.Namespace, metav1.NamespaceDefault)
	budgets := a.Client.PolicyV1().PodDisruptionBudgets(b.Namespace)
	err := again(func() error {
		budget, err := budgets.Get(ctx, b.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		budget.Status = policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: budget.Generation,
			ExpectedPods:       b.Expected, CurrentHealthy: b.Healthy, DesiredHealthy: b.Desired, DisruptionsAllowed: b.Allowed,
		}
		_, err = budgets.UpdateStatus(ctx, budget, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("change the status of the PodDisruptionBudget %s/%s: %w", b.Namespace, b.Name, err)
	}
	return nil
}
