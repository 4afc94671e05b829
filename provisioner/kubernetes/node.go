package kubernetes

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Node is a Node object.
type Node struct {
	Name string
	// Addresses are those of type InternalIP.
	Addresses []string
	// MachineID, SystemUUID and BootID are as the kubelet reads them from the machine. A
	// machine whose name changed keeps the first two, and leaves a second Node object
	// behind (siderolabs/talos#10760).
	MachineID, SystemUUID, BootID string
	// ProviderID is spec.providerID.
	ProviderID string
	// Kubelet is its version, such as v1.36.3.
	Kubelet string
	Labels  map[string]string
	// Ready is the condition of that name.
	Ready bool
	// Unschedulable: it is cordoned.
	Unschedulable bool
	// Ours: it is cordoned by us, for Reason.
	Ours   bool
	Reason string
}

// chunk is how many objects one answer holds at most.
const chunk = 500

// Nodes are all Node objects, by name.
func (c *Cluster) Nodes(ctx context.Context) ([]Node, error) {
	var nodes []Node
	options := metav1.ListOptions{Limit: chunk}
	for {
		page, err := c.client.CoreV1().Nodes().List(ctx, options)
		if err != nil {
			return nil, c.failure(ctx, "list the nodes of Kubernetes", err)
		}
		for i := range page.Items {
			nodes = append(nodes, nodeOf(&page.Items[i]))
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return nodes, nil
		}
	}
}

func nodeOf(n *corev1.Node) Node {
	info := n.Status.NodeInfo
	node := Node{
		Name: n.Name, MachineID: info.MachineID, SystemUUID: info.SystemUUID, BootID: info.BootID, ProviderID: n.Spec.ProviderID,
		Kubelet: info.KubeletVersion, Labels: n.Labels, Unschedulable: n.Spec.Unschedulable,
		Ready: slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}),
	}
	if ours(n) {
		node.Ours, node.Reason = true, n.Annotations[annotationReason]
	}
	for _, address := range n.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			node.Addresses = append(node.Addresses, address.Address)
		}
	}
	return node
}
