package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

// The mark on nodes that we cordoned. It is written together with the cordon and
// taken off together with it, so it is right whenever we are killed.
const (
	annotationBy     = "provision.talos/cordoned-by"
	annotationReason = "provision.talos/cordoned-because"
)

// Cordon makes a node unschedulable and marks it as ours, with the run and the
// reason. Marking again changes those only. A node that somebody else cordoned is
// left as it is, and ours is false (rancher/system-upgrade-controller#341).
func (c *Cluster) Cordon(ctx context.Context, node, run, reason string) (marked bool, err error) {
	err = c.change(ctx, "cordon the node "+node, node, func(n *corev1.Node) map[string]any {
		if marked = ours(n) || !n.Spec.Unschedulable; !marked {
			return nil
		}
		if n.Spec.Unschedulable && n.Annotations[annotationBy] == run && n.Annotations[annotationReason] == reason {
			return nil
		}
		return patch(n, true, map[string]any{annotationBy: run, annotationReason: reason})
	})
	return marked && err == nil, err
}

// Uncordon takes our mark and our cordon off a node. Without our mark it does
// nothing, and nothing is wrong with a node that is not there any more.
func (c *Cluster) Uncordon(ctx context.Context, node string) error {
	err := c.change(ctx, "uncordon the node "+node, node, func(n *corev1.Node) map[string]any {
		if _, marked := n.Annotations[annotationBy]; !marked {
			return nil
		}
		// Somebody else cordoned it after us: only the mark goes.
		keep := n.Spec.Unschedulable && !ours(n)
		return patch(n, keep, map[string]any{annotationBy: nil, annotationReason: nil})
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// ours says whether the node is cordoned, and by us. The mark alone does not
// tell: somebody may have uncordoned the node by hand and cordoned it again
// since. The API server keeps who wrote a field last.
func ours(n *corev1.Node) bool {
	if _, marked := n.Annotations[annotationBy]; !marked || !n.Spec.Unschedulable {
		return false
	}
	known := false
	for _, entry := range n.ManagedFields {
		var fields struct {
			Spec map[string]any `json:"f:spec"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, owns := fields.Spec["f:unschedulable"]; !owns {
			continue
		}
		if entry.Manager == manager {
			return true
		}
		known = true
	}
	return !known
}

// patch is a merge patch for exactly the version of the node that was looked at.
func patch(n *corev1.Node, unschedulable bool, annotations map[string]any) map[string]any {
	spec := map[string]any{"unschedulable": nil}
	if unschedulable {
		spec["unschedulable"] = true
	}
	return map[string]any{
		"metadata": map[string]any{"uid": n.UID, "resourceVersion": n.ResourceVersion, "annotations": annotations},
		"spec":     spec,
	}
}

// change reads a node and patches it, until nobody came in between. There is
// nothing to change when the patch is nil.
func (c *Cluster) change(ctx context.Context, what, node string, patch func(*corev1.Node) map[string]any) error {
	nodes := c.client.CoreV1().Nodes()
	err := retry.OnError(retry.DefaultBackoff, func(err error) bool { return apierrors.IsConflict(err) && ctx.Err() == nil }, func() error {
		n, err := nodes.Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		body := patch(n)
		if body == nil {
			return nil
		}
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("write the patch: %w", err)
		}
		_, err = nodes.Patch(ctx, node, types.MergePatchType, text, metav1.PatchOptions{FieldManager: manager})
		return err
	})
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s: %w (%w)", what, ErrNoNode, err)
	}
	return c.failure(ctx, what, err)
}
