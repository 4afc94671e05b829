package install_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/talos-provision/provision/e2e/kubeapi"
)

// rendered are the objects that kustomize makes of a folder.
func rendered(t testing.TB, folder string) []*unstructured.Unstructured {
	t.Helper()
	text := output(t, repository(t), "go", "tool", "-modfile=tools/kustomize/go.mod", "kustomize", "build", folder)
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	var objects []*unstructured.Unstructured
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(o)
		if errors.Is(err, io.EOF) {
			return objects
		}
		must(t, err)
		objects = append(objects, o)
	}
}

// monitored is a folder of the user's that adds the component.
func monitored(t testing.TB, of string) string {
	t.Helper()
	folder := t.TempDir()
	relative, err := filepath.Rel(folder, filepath.Join(repository(t), "deploy/kubernetes"))
	must(t, err)
	write(t, filepath.Join(folder, "kustomization.yaml"), fmt.Sprintf(
		"resources: [%[1]s/%[2]s]\ncomponents: [%[1]s/components/monitoring]\n", relative, of))
	return folder
}

// podOf is the pod that the Deployment makes.
func podOf(t testing.TB, objects []*unstructured.Unstructured) (pod corev1.PodSpec, replicas int64, strategy string) {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() != "Deployment" {
			continue
		}
		spec, _, err := unstructured.NestedMap(o.Object, "spec", "template", "spec")
		must(t, err)
		must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &pod))
		replicas, _, _ = unstructured.NestedInt64(o.Object, "spec", "replicas")
		strategy, _, _ = unstructured.NestedString(o.Object, "spec", "strategy", "type")
		return pod, replicas, strategy
	}
	t.Fatal("there is no Deployment")
	return pod, 0, ""
}

// server is a real API that knows what Prometheus' operator brings.
type server struct {
	t      *testing.T
	client dynamic.Interface
	mapper meta.RESTMapper
}

// warnings of the API, such as of what is deprecated, are failures.
type warnings struct{ t *testing.T }

func (w warnings) HandleWarningHeader(_ int, _, text string) { w.t.Errorf("the API warns: %s", text) }

func newServer(t *testing.T) *server {
	t.Helper()
	api := kubeapi.StartForTest(t, "127.71.0.40")
	kubeconfig, err := api.Kubeconfig()
	must(t, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	must(t, err)
	config.WarningHandler = warnings{t}
	client, err := dynamic.NewForConfig(config)
	must(t, err)
	s := &server{t: t, client: client}
	s.learn(discovery.NewDiscoveryClientForConfigOrDie(config))
	return s
}

// learn makes the ServiceMonitor known, without its schema, and waits for it.
func (s *server) learn(d *discovery.DiscoveryClient) {
	s.t.Helper()
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "servicemonitors.monitoring.coreos.com"},
		"spec": map[string]any{
			"group": "monitoring.coreos.com", "scope": "Namespaced",
			"names": map[string]any{"kind": "ServiceMonitor", "plural": "servicemonitors"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
			}}},
		},
	}}
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	definitions := s.client.Resource(definition.GroupVersionKind().GroupVersion().WithResource("customresourcedefinitions"))
	_, err := definitions.Create(ctx, definition, metav1.CreateOptions{})
	must(s.t, err)
	for {
		groups, err := restmapper.GetAPIGroupResources(d)
		must(s.t, err)
		s.mapper = restmapper.NewDiscoveryRESTMapper(groups)
		if _, err := s.mapper.RESTMapping(schema.GroupKind{Group: "monitoring.coreos.com", Kind: "ServiceMonitor"}, "v1"); err == nil {
			return
		}
		select {
		case <-ctx.Done():
			s.t.Fatal("the API does not come to know ServiceMonitor")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// apply is `kubectl apply --server-side --dry-run=server --validate=strict`; a
// namespace is made in fact, because the others are checked in it.
func (s *server) apply(o *unstructured.Unstructured) error {
	kind := o.GroupVersionKind()
	mapping, err := s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return fmt.Errorf("the API knows no %s: %w", kind, err)
	}
	raw, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	options := metav1.PatchOptions{FieldManager: "test", FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}}
	var resource dynamic.ResourceInterface = s.client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if o.GetNamespace() == "" {
			return fmt.Errorf("%s %s has no namespace", kind.Kind, o.GetName())
		}
		resource = s.client.Resource(mapping.Resource).Namespace(o.GetNamespace())
	}
	if kind.Kind == "Namespace" {
		options.DryRun = nil
	}
	_, err = resource.Patch(s.t.Context(), o.GetName(), types.ApplyPatchType, raw, options)
	return err
}

// pod is a pod of the Deployment in a namespace.
func pod(t testing.TB, spec corev1.PodSpec, namespace string) *unstructured.Unstructured {
	t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "try", Namespace: namespace}, Spec: spec,
	})
	must(t, err)
	return &unstructured.Unstructured{Object: object}
}

func TestAKubernetesAPITakesWhatKustomizeMakes(t *testing.T) {
	t.Parallel()
	kubeapi.Need(t)
	s := newServer(t)
	for name, folder := range map[string]string{
		"one":                        "deploy/kubernetes/base",
		"two over etcd":              "deploy/kubernetes/overlays/etcd",
		"two over etcd, and watched": monitored(t, "overlays/etcd"),
	} {
		objects := rendered(t, folder)
		if len(objects) < 4 {
			t.Errorf("%s: only %d objects", name, len(objects))
		}
		for _, o := range objects {
			if err := s.apply(o); err != nil {
				t.Errorf("%s: %s %s: %v", name, o.GetKind(), o.GetName(), err)
			}
		}
		spec, _, _ := podOf(t, objects)
		if err := s.apply(pod(t, spec, "provision")); err != nil {
			t.Errorf("%s: its pod: %v", name, err)
		}
	}
	s.refuses(t)
}

// refuses shows that the API looks: at fields, at values, and at what a namespace allows.
func (s *server) refuses(t *testing.T) {
	t.Helper()
	spec, _, _ := podOf(t, rendered(t, "deploy/kubernetes/base"))
	misspelt := pod(t, spec, "provision")
	must(t, unstructured.SetNestedField(misspelt.Object, true, "spec", "hostNetworks"))
	if err := s.apply(misspelt); err == nil {
		t.Error("a misspelt field is taken")
	}
	strict := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{
		"name": "strict", "labels": map[string]any{"pod-security.kubernetes.io/enforce": "baseline"},
	}}}
	must(t, s.apply(strict))
	if err := s.apply(pod(t, spec, "strict")); !apierrors.IsForbidden(err) {
		t.Errorf("a namespace that forbids the host's network says %v", err)
	}
}

func TestThePodHasWhatTheProgramNeedsAndNoMore(t *testing.T) {
	t.Parallel()
	for name, folder := range map[string]string{"base": "deploy/kubernetes/base", "etcd": "deploy/kubernetes/overlays/etcd"} {
		spec, replicas, strategy := podOf(t, rendered(t, folder))
		c := spec.Containers[0]
		security := c.SecurityContext
		if got := fmt.Sprint(security.Capabilities.Drop, security.Capabilities.Add); got != "[ALL] [NET_BIND_SERVICE NET_RAW]" {
			t.Errorf("%s: capabilities %s", name, got)
		}
		if !*security.ReadOnlyRootFilesystem || !*spec.SecurityContext.RunAsNonRoot || *spec.SecurityContext.RunAsUser != 65532 {
			t.Errorf("%s: it may write to its image, or is root: %+v", name, security)
		}
		// no_new_privs would take the capabilities from the file.
		if !*security.AllowPrivilegeEscalation {
			t.Errorf("%s: a program that is not root's gets no capabilities this way", name)
		}
		if !spec.HostNetwork || *spec.TerminationGracePeriodSeconds < 900 || *spec.AutomountServiceAccountToken {
			t.Errorf("%s: host network %t, %d s to stop, token %t", name, spec.HostNetwork, *spec.TerminationGracePeriodSeconds, *spec.AutomountServiceAccountToken)
		}
		want := map[string]string{"base": "1 Recreate healthz --ready", "etcd": "2 RollingUpdate healthz"}[name]
		if got := fmt.Sprintf("%d %s %s", replicas, strategy, strings.Join(c.ReadinessProbe.Exec.Command[1:], " ")); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		for _, v := range spec.Volumes {
			if name == "etcd" && v.PersistentVolumeClaim != nil {
				t.Errorf("two pods would share the volume %s", v.Name)
			}
		}
		if name == "etcd" && (spec.Affinity == nil || len(spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) != 1) {
			t.Error("two controllers may come onto one node, where both want the same ports")
		}
	}
}

// The program itself reads the configurations that are handed out.
func TestTheProgramTakesTheConfigurationsThatAreHandedOut(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "provision")
	output(t, repository(t), "go", "build", "-o", program, "./cmd/provision")
	for _, file := range []string{
		"deploy/kubernetes/base/provision.yaml", "deploy/kubernetes/overlays/etcd/provision.yaml", "docs/examples/provision.yaml",
	} {
		r := try(t, t.TempDir(), program, "healthz", "--config", filepath.Join(repository(t), file), "--state", t.TempDir())
		// Nobody answers, which is status 1; a configuration that is wrong is status 2.
		if r.err == nil || r.err.Error() != "exit status 1" || !strings.Contains(r.errOut, "no answer") {
			t.Errorf("%s: %v %s", file, r.err, r.errOut)
		}
	}
	wrong := filepath.Join(t.TempDir(), "provision.yaml")
	must(t, os.WriteFile(wrong, []byte("networks: {}\n"), 0o644))
	if r := try(t, t.TempDir(), program, "healthz", "--config", wrong); r.err == nil || r.err.Error() != "exit status 2" {
		t.Errorf("a wrong configuration gives %v %s", r.err, r.errOut)
	}
}
