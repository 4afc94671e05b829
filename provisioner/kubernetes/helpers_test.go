package kubernetes_test

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/talos-provision/provision/e2e/kubeapi"
	"github.com/talos-provision/provision/provisioner/kubernetes"
)

// lab is a real API server with an administrator's Cluster.
type lab struct {
	*kubeapi.API
	cluster *kubernetes.Cluster
}

// patience is how long a loaded machine may take for what is not measured.
const patience = 2 * time.Minute

func newLab(t *testing.T, address string) lab {
	t.Helper()
	api := kubeapi.StartForTest(t, address)
	l := lab{API: api}
	l.cluster = l.as(t, "admin", "system:masters")
	return l
}

// as is a Cluster of another user.
func (l lab) as(t *testing.T, user string, groups ...string) *kubernetes.Cluster {
	t.Helper()
	kubeconfig, err := l.KubeconfigFor(user, groups...)
	must(t, err)
	cluster, err := kubernetes.Connect(kubeconfig, patience)
	must(t, err)
	return cluster
}

// node adds a node that is named for the test.
func (l lab) node(t *testing.T, name string) string {
	t.Helper()
	must(t, l.AddNode(t.Context(), kubeapi.Node{Name: name, Address: "10.0.0.1"}))
	return name
}

// pod adds a pod of a ReplicaSet unless it says otherwise.
func (l lab) pod(t *testing.T, p kubeapi.Pod) {
	t.Helper()
	if p.Owner == "" {
		p.Owner = "ReplicaSet"
	}
	must(t, l.AddPod(t.Context(), p))
}

// namespace adds a namespace, so that budgets of one test guard no pods of another.
func (l lab) namespace(t *testing.T, name string) string {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := l.Client.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{})
	must(t, err)
	return name
}

// get reads a node as it is.
func (l lab) get(t *testing.T, node string) *corev1.Node {
	t.Helper()
	n, err := l.Client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	must(t, err)
	return n
}

// kubectl cordons or uncordons as somebody else does.
func (l lab) kubectl(t *testing.T, node string, cordon bool) {
	t.Helper()
	body := `{"spec":{"unschedulable":null}}`
	if cordon {
		body = `{"spec":{"unschedulable":true}}`
	}
	_, err := l.Client.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "kubectl-cordon"})
	must(t, err)
}

// left are the pods of a namespace, by name.
func (l lab) left(t *testing.T, namespace string) []string {
	t.Helper()
	pods, err := l.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	names := make([]string, 0, len(pods.Items))
	for i := range pods.Items {
		names = append(names, pods.Items[i].Name)
	}
	return names
}

// until asks again and again until it is so.
func until(t *testing.T, what string, so func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !so(ctx) {
		select {
		case <-ctx.Done():
			t.Fatalf("it does not happen: %s", what)
		case <-tick.C:
		}
	}
}

// told keeps what is told.
type told struct {
	mu    sync.Mutex
	lines []string
}

func (l *told) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *told) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines...)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
