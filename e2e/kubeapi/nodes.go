package kubeapi

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Node is a node as its kubelet registers it.
type Node struct {
	Name string
	// Address is its InternalIP.
	Address  string
	NotReady bool
	// Kubelet is its version; "" is v1.37.2.
	Kubelet                       string
	MachineID, SystemUUID, BootID string
	ProviderID                    string
	Labels                        map[string]string
}

// AddNode registers a node, or reports its status again. A cordon stays.
func (a *API) AddNode(ctx context.Context, n Node) error {
	nodes := a.Client.CoreV1().Nodes()
	// The kubelet's own label. Of an object that is made without any field, the API
	// server never keeps who changed it.
	labels := map[string]string{corev1.LabelHostname: n.Name}
	maps.Copy(labels, n.Labels)
	object := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: n.ProviderID},
	}
	if _, err := nodes.Create(ctx, object, metav1.CreateOptions{FieldManager: "kubelet"}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("register the node %s: %w", n.Name, err)
	}
	return a.updateNode(ctx, n.Name, func(s *corev1.NodeStatus) {
		s.NodeInfo = corev1.NodeSystemInfo{
			KubeletVersion: cmp.Or(n.Kubelet, "v1.37.2"), MachineID: n.MachineID, SystemUUID: n.SystemUUID, BootID: n.BootID,
		}
		s.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: n.Name}, {Type: corev1.NodeInternalIP, Address: n.Address}}
		s.Conditions = []corev1.NodeCondition{readiness(!n.NotReady)}
	})
}

// SetReady changes the condition Ready of a node.
func (a *API) SetReady(ctx context.Context, node string, ready bool) error {
	return a.updateNode(ctx, node, func(s *corev1.NodeStatus) { s.Conditions = []corev1.NodeCondition{readiness(ready)} })
}

func (a *API) updateNode(ctx context.Context, name string, change func(*corev1.NodeStatus)) error {
	err := again(func() error {
		node, err := a.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(&node.Status)
		_, err = a.Client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{FieldManager: "kubelet"})
		return err
	})
	if err != nil {
		return fmt.Errorf("report the status of the node %s: %w", name, err)
	}
	return nil
}

func readiness(ready bool) corev1.NodeCondition {
	c := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", LastHeartbeatTime: metav1.Now()}
	if ready {
		c.Status, c.Reason = corev1.ConditionTrue, "KubeletReady"
	}
	return c
}
