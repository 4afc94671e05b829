package kubeapi

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// kubelet stands in for those of all nodes: it ends the pods that are to go. A
// pod of a node without one stays Terminating, as on a node that is down.
type kubelet struct {
	client  kubernetes.Interface
	factory informers.SharedInformerFactory
	running sync.WaitGroup

	mu     sync.Mutex
	down   map[string]bool    // nodes
	ending map[types.UID]bool // pods
}

// startKubelet returns when the kubelet has seen all pods once.
func (a *API) startKubelet() error {
	ctx := a.stopping
	k := &kubelet{
		client: a.Client, factory: informers.NewSharedInformerFactory(a.Client, 0),
		down: map[string]bool{}, ending: map[types.UID]bool{},
	}
	a.kubelet = k
	pods := k.factory.Core().V1().Pods().Informer()
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { k.see(ctx, obj) },
		UpdateFunc: func(_, obj any) { k.see(ctx, obj) },
	})
	if err != nil {
		return fmt.Errorf("watch the pods: %w", err)
	}
	k.factory.Start(ctx.Done())
	k.factory.WaitForCacheSync(ctx.Done())
	return nil
}

func (k *kubelet) wait() {
	k.factory.Shutdown()
	k.running.Wait()
}

// see begins to end a pod that is to go.
func (k *kubelet) see(ctx context.Context, obj any) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.DeletionTimestamp == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.down[pod.Spec.NodeName] || k.ending[pod.UID] {
		return
	}
	k.ending[pod.UID] = true
	k.running.Go(func() { k.end(ctx, pod) })
}

// end takes the pod away: at once, or at the end of its grace period where it
// does not listen to SIGTERM.
func (k *kubelet) end(ctx context.Context, pod *corev1.Pod) {
	var wait time.Duration
	if pod.Annotations[annotationStubborn] != "" && pod.DeletionGracePeriodSeconds != nil {
		wait = time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(wait):
	}
	options := metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
	// What is gone already is as wanted; what a finalizer keeps stays for it.
	_ = k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, *options)
}

// StopKubelet has the pods of a node stay when they are deleted from now on.
func (a *API) StopKubelet(node string) {
	a.kubelet.mu.Lock()
	defer a.kubelet.mu.Unlock()
	a.kubelet.down[node] = true
}

// StartKubelet is the end of StopKubelet. Pods that were deleted in between are taken away.
func (a *API) StartKubelet(node string) {
	k := a.kubelet
	k.mu.Lock()
	delete(k.down, node)
	k.mu.Unlock()
	for _, obj := range k.factory.Core().V1().Pods().Informer().GetStore().List() {
		if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName == node {
			k.see(a.stopping, pod)
		}
	}
}
