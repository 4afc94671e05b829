package fleet

import (
	"testing"

	"github.com/siderolabs/talos/pkg/machinery/resources/k8s"

	"github.com/cosi-project/runtime/pkg/safe"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kube "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/kubeapi"
)

// kubernetesFleet starts a fleet whose clusters have a Kubernetes API.
func kubernetesFleet(t *testing.T, config Config) *Fleet {
	t.Helper()
	kubeapi.Need(t)
	config.Dir, config.MachineConfigs, config.Kubernetes, config.Installed = t.TempDir(), true, true, true
	f, err := Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := f.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

// talosKubernetes is a client with the kubeconfig that Talos gives.
func (f *Fleet) talosKubernetes(t *testing.T, m *Machine) kube.Interface {
	t.Helper()
	kubeconfig, err := f.admin(t, m).Kubeconfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kube.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestNodesRegisterInARealKubernetesAPI(t *testing.T) {
	t.Parallel()
	f := kubernetesFleet(t, Config{
		Clusters: []Cluster{{Name: "k8s-prod", ControlPlanes: 1, Workers: 1}}, TalosVersion: "v1.12.12", Network: prefix("127.46.0.0/16"),
	})
	first, worker := f.Machines()[0], f.Machines()[1]
	client := f.talosKubernetes(t, first)
	want, err := kubernetesFor("v1.12.12")
	if err != nil {
		t.Fatal(err)
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil || version.GitVersion != "v"+want {
		t.Errorf("the API tells %v, %v; want %s", version, err, want)
	}
	node, err := client.CoreV1().Nodes().Get(t.Context(), "node-02", metav1.GetOptions{})
	if err != nil || !isReady(node) || node.Status.NodeInfo.KubeletVersion != version.GitVersion || node.Status.NodeInfo.SystemUUID != worker.Hardware.UUID {
		t.Fatalf("node-02 is %+v, %v", node, err)
	}

	cordon := []byte(`{"spec":{"unschedulable":true}}`)
	if _, err := client.CoreV1().Nodes().Patch(t.Context(), "node-02", types.MergePatchType, cordon, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	talos := f.admin(t, worker)
	status := func() k8s.NodeStatusSpec {
		r, err := safe.StateGetByID[*k8s.NodeStatus](t.Context(), talos.COSI, "node-02")
		if err != nil {
			return k8s.NodeStatusSpec{}
		}
		return *r.TypedSpec()
	}
	eventually(t, "Talos knows of the cordon", func() bool { s := status(); return s.Unschedulable && s.NodeReady })

	if err := worker.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	ready := func() (ready, cordoned bool) {
		node, err := client.CoreV1().Nodes().Get(t.Context(), "node-02", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return isReady(node), node.Spec.Unschedulable
	}
	eventually(t, "a node without power is not Ready", func() bool { r, _ := ready(); return !r })
	if err := worker.PowerOn(t.Context(), redfishtest.Boot{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is Ready again, and cordoned still", func() bool { r, c := ready(); return r && c })

	// The Node object decides, whatever the kubelet says.
	if err := f.Kubernetes("k8s-prod").SetReady(t.Context(), "node-02", false); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Talos says that it is not ready", func() bool { s := status(); return s.Nodename != "" && !s.NodeReady })

	if err := first.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("the API answers without its only control plane")
	}
}

func TestOnlyClientsOfTheClusterReachItsKubernetesAPI(t *testing.T) {
	t.Parallel()
	f := kubernetesFleet(t, Config{
		Clusters: []Cluster{{Name: "a", ControlPlanes: 1}, {Name: "b", ControlPlanes: 1}}, Network: prefix("127.47.0.0/16"),
	})
	kubeconfig, err := f.admin(t, f.Machines()[0]).Kubeconfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.Host = "https://" + f.kubernetesAddress("b").String() + ":6443"
	config.CAData, config.Insecure = nil, true
	client, err := kube.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("the API of b lets an administrator of a in")
	}
	nodes, err := f.talosKubernetes(t, f.Machines()[1]).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 1 {
		t.Errorf("b has %v, %v", nodes, err)
	}
}

func TestKubernetesNeedsMachineConfigs(t *testing.T) {
	t.Parallel()
	_, err := Start(t.Context(), Config{Dir: t.TempDir(), Kubernetes: true, Clusters: []Cluster{{Name: "a", ControlPlanes: 1}}})
	if err == nil {
		t.Error("it starts")
	}
}
