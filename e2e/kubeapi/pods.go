package kubeapi

import (
	"cmp"
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

// annotationStubborn marks pods that do not listen to SIGTERM.
const annotationStubborn = "kubeapi.test/stubborn"

// Pod is a pod that runs on a node.
type Pod struct {
	// Namespace is "default" unless given.
	Namespace, Name, Node string
	Labels                map[string]string
	// Owner is the kind of its controller, such as ReplicaSet; "" for none.
	Owner string
	// OwnerName is that of the controller; a DaemonSet must be there (AddDaemonSet).
	OwnerName string
	// Phase is Running unless given.
	Phase corev1.PodPhase
	// NotReady: it runs and is not ready.
	NotReady bool
	// EmptyDir gives it a volume that is lost with it.
	EmptyDir bool
	// Mirror makes it the image of a static pod.
	Mirror bool
	// Stubborn pods take the whole Grace to end; the others end at once.
	Stubborn bool
	// Grace is its terminationGracePeriodSeconds, 30 s unless given.
	Grace time.Duration
	// Finalizers keep the deleted pod.
	Finalizers []string
	// TolerateAll: a cordon does not keep it off a node.
	TolerateAll bool
}

// AddPod makes a pod that is bound to its node and has been started there.
func (a *API) AddPod(ctx context.Context, p Pod) error {
	p.Namespace = cmp.Or(p.Namespace, metav1.NamespaceDefault)
	pods := a.Client.CoreV1().Pods(p.Namespace)
	created, err := pods.Create(ctx, p.object(), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create the pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	created.Status.Phase = cmp.Or(p.Phase, corev1.PodRunning)
	ready := corev1.ConditionTrue
	if p.NotReady || created.Status.Phase != corev1.PodRunning {
		ready = corev1.ConditionFalse
	}
	created.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	if _, err := pods.UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("start the pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return nil
}

func (p Pod) object() *corev1.Pod {
	seconds := int64(cmp.Or(p.Grace, 30*time.Second) / time.Second)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name, Labels: p.Labels, Annotations: map[string]string{}, Finalizers: p.Finalizers,
		},
		Spec: corev1.PodSpec{
			NodeName: p.Node, TerminationGracePeriodSeconds: &seconds,
			Containers: []corev1.Container{{Name: "main", Image: "example.test/main:1"}},
		},
	}
	if p.Owner != "" {
		controls := true
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: appsv1.SchemeGroupVersion.String(), Kind: p.Owner, Name: cmp.Or(p.OwnerName, p.Name),
			UID: types.UID("uid-of-" + cmp.Or(p.OwnerName, p.Name)), Controller: &controls,
		}}
	}
	if p.EmptyDir {
		pod.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	}
	if p.Mirror {
		pod.Annotations[corev1.MirrorPodAnnotationKey] = "hash"
	}
	if p.Stubborn {
		pod.Annotations[annotationStubborn] = "true"
	}
	if p.TolerateAll {
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	return pod
}

// AddDaemonSet makes the controller of DaemonSet pods; it makes none by itself.
func (a *API) AddDaemonSet(ctx context.Context, namespace, name string) error {
	match := map[string]string{"daemon": name}
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: match},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: match},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.test/main:1"}}},
			},
		},
	}
	if _, err := a.Client.AppsV1().DaemonSets(namespace).Create(ctx, set, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the DaemonSet %s/%s: %w", namespace, name, err)
	}
	return nil
}

// again repeats what somebody else's change came before.
func again(do func() error) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, do)
}
