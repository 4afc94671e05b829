package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/talos-provision/provision/e2e/kubeapi"
	"github.com/talos-provision/provision/e2e/talosnode"
)

// kubernetesPort is where the Kubernetes API of a cluster is, at its own address.
const kubernetesPort = 6443

// kubernetes is the Kubernetes side of one cluster: a real API server, and what
// kubelets and Talos do with it.
type kubernetes struct {
	cluster string
	version string
	fleet   *Fleet
	api     *kubeapi.API
	front   *http.Server
	stop    context.CancelFunc
	work    sync.WaitGroup
}

// startKubernetes starts an API for each cluster.
func (f *Fleet) startKubernetes(ctx context.Context) error {
	for _, cluster := range f.clusterNames() {
		k, err := f.startAPI(ctx, cluster)
		if k != nil {
			f.kubernetes = append(f.kubernetes, k)
		}
		if err != nil {
			return fmt.Errorf("start Kubernetes of the emulated cluster %s: %w", cluster, err)
		}
	}
	return nil
}

// Kubernetes is the Kubernetes API of a cluster; nil without one. Pods and
// budgets are made by it.
func (f *Fleet) Kubernetes(cluster string) *kubeapi.API {
	for _, k := range f.kubernetes {
		if k.cluster == cluster {
			return k.api
		}
	}
	return nil
}

func (f *Fleet) startAPI(ctx context.Context, cluster string) (*kubernetes, error) {
	dir, err := filepath.Abs(filepath.Join(f.config.Dir, "kubernetes", cluster))
	if err != nil {
		return nil, err
	}
	// What an earlier fleet left there is of another cluster.
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return nil, err
	}
	version, err := kubernetesFor(f.config.TalosVersion)
	if err != nil {
		return nil, err
	}
	k := &kubernetes{cluster: cluster, version: "v" + version, fleet: f, stop: func() {}}
	if k.api, err = kubeapi.Start(ctx, kubeapi.Options{Dir: dir, Address: f.kubernetesAddress(cluster).String()}); err != nil {
		return nil, err
	}
	if err := k.startFront(ctx); err != nil {
		return k, err
	}
	ctx, k.stop = context.WithCancel(ctx)
	if err := k.watchNodes(ctx); err != nil {
		return k, err
	}
	k.work.Go(func() { k.report(ctx) })
	return k, nil
}

// watchNodes has each node know its Node object, as Talos watches it.
func (k *kubernetes) watchNodes(ctx context.Context) error {
	factory := informers.NewSharedInformerFactory(k.api.Client, 0)
	see := func(obj any, exists bool) {
		if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		if node, ok := obj.(*corev1.Node); ok {
			k.fleet.clusters.SetNodeObject(k.cluster, node.Name, talosnode.NodeObject{
				Exists: exists, Ready: exists && isReady(node), Unschedulable: node.Spec.Unschedulable,
			})
		}
	}
	_, err := factory.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { see(obj, true) },
		UpdateFunc: func(_, obj any) { see(obj, true) },
		DeleteFunc: func(obj any) { see(obj, false) },
	})
	if err != nil {
		return fmt.Errorf("watch the nodes: %w", err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	k.work.Go(factory.Shutdown)
	return nil
}

func isReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// report does what the kubelets do: they register their nodes and say that they
// are ready, and what Kubernetes does about a node that is away.
func (k *kubernetes) report(ctx context.Context) {
	told := map[string]talosnode.NodeReport{}
	poll := time.NewTicker(200 * time.Millisecond) // until the cluster has a node, and after an error
	defer poll.Stop()
	for ctx.Err() == nil {
		changed := k.fleet.clusters.Watch(k.cluster)
		for _, n := range k.nodes() {
			n.InKubernetes = false // is what comes of it
			if !n.Registered || told[n.Name] == n {
				continue
			}
			if err := k.tell(ctx, n); err != nil {
				k.fleet.config.Log.Debug("a kubelet cannot report", "node", n.Name, "error", err)
				continue
			}
			told[n.Name] = n
		}
		select {
		case <-changed:
		case <-poll.C:
		case <-ctx.Done():
		}
	}
}

func (k *kubernetes) nodes() []talosnode.NodeReport {
	for _, c := range k.fleet.clusters.Report() {
		if c.Name == k.cluster {
			return c.Nodes
		}
	}
	return nil
}

// tell reports one node.
func (k *kubernetes) tell(ctx context.Context, n talosnode.NodeReport) error {
	name, _, _ := strings.Cut(strings.ToLower(n.Name), ".")
	labels := map[string]string{}
	if n.ControlPlane {
		labels["node-role.kubernetes.io/control-plane"] = ""
	}
	uuid := ""
	for _, m := range k.fleet.machines {
		if m.Cluster == k.cluster && m.Name == n.Name {
			uuid = m.Hardware.UUID
		}
	}
	if n.Up {
		k.api.StartKubelet(name)
	} else {
		k.api.StopKubelet(name)
	}
	return k.api.AddNode(ctx, kubeapi.Node{
		Name: name, Address: n.Address, NotReady: !n.Ready, Kubelet: k.version, SystemUUID: uuid, MachineID: uuid, Labels: labels,
	})
}

func (k *kubernetes) close() error {
	k.stop()
	var err error
	if k.front != nil {
		err = k.front.Close()
	}
	k.work.Wait()
	return errors.Join(err, k.api.Stop())
}
