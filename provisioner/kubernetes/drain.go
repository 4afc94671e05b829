package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubectl/pkg/drain"
)

// DrainOptions says how a node is drained. DaemonSets' and static pods stay in
// any case, and nothing is ever deleted past a PodDisruptionBudget.
type DrainOptions struct {
	// Timeout bounds all of it; 0 is 5 min, as talosctl's.
	Timeout time.Duration
	// GracePeriod is how long each pod gets to end; 0 is what the pod itself asks for.
	GracePeriod time.Duration
	// KeepEmptyDir refuses to drain pods with emptyDir volumes, which are lost with the pod.
	// talosctl and `kubectl drain --delete-emptydir-data` take them.
	KeepEmptyDir bool
	// Bare evicts pods without a controller too. Nobody makes them again.
	Bare bool
	// Retry is how long to wait after a budget refused an eviction; 0 is 5 s, as kubectl's.
	Retry time.Duration
	// Progress gets a line for each thing that happens, one at a time; it may be nil.
	Progress func(string)
}

const (
	defaultDrain = 5 * time.Minute
	defaultRetry = 5 * time.Second
	// afterwards is how long to look for what was in the way.
	afterwards = 15 * time.Second
)

// Drain evicts the pods of a node and waits until they are gone. A pod that its
// PodDisruptionBudgets keep is tried again until the time is over
// (siderolabs/talos#9882). The node should be cordoned before. What is left, and
// what keeps it, is told by a *DrainError.
func (c *Cluster) Drain(ctx context.Context, node string, o DrainOptions) error {
	if o.Timeout == 0 {
		o.Timeout = defaultDrain
	}
	limited, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	// The library deletes pods where it finds no way to evict them.
	version, err := drain.CheckEvictionSupport(c.client)
	if err != nil {
		return c.failure(limited, "drain the node "+node, err)
	}
	if version.Empty() {
		return fmt.Errorf("drain the node %s: this API server cannot evict pods, and nothing is deleted past the PodDisruptionBudgets: check its version", node)
	}
	helper := c.helper(limited, o)
	for {
		list, errs := helper.GetPodsForDeletion(node)
		if err := errors.Join(errs...); err != nil {
			return c.left(ctx, node, o, err)
		}
		pods := list.Pods()
		if len(pods) == 0 {
			return nil
		}
		if err := helper.DeleteOrEvictPods(pods); err != nil {
			return c.left(ctx, node, o, err)
		}
		// Again, for what was bound to the node just before its cordon. What tolerates
		// the cordon may come back at once, and would do so for ever.
		helper.AdditionalFilters = []drain.PodFilter{skipTolerant}
	}
}

func (c *Cluster) helper(ctx context.Context, o DrainOptions) *drain.Helper {
	seconds := -1 // the pod's own
	if o.GracePeriod > 0 {
		seconds = int(math.Ceil(o.GracePeriod.Seconds()))
	}
	if o.Retry == 0 {
		o.Retry = defaultRetry
	}
	told := &lines{tell: o.Progress}
	return &drain.Helper{
		Ctx: ctx, Client: c.client,
		Timeout: o.Timeout, GracePeriodSeconds: seconds, EvictErrorRetryDelay: o.Retry,
		IgnoreAllDaemonSets: true, DeleteEmptyDirData: !o.KeepEmptyDir, Force: o.Bare,
		ChunkSize: chunk, Out: told, ErrOut: told,
		OnPodDeletionOrEvictionFinished: func(pod *corev1.Pod, _ bool, err error) {
			if err == nil {
				_, _ = fmt.Fprintf(told, "pod %s/%s is gone", pod.Namespace, pod.Name)
			}
		},
	}
}

// skipTolerant leaves out pods that a cordon does not keep off the node.
func skipTolerant(pod corev1.Pod) drain.PodDeleteStatus {
	cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	for _, toleration := range pod.Spec.Tolerations {
		exists := toleration.Operator == corev1.TolerationOpExists || toleration.Value == ""
		if (toleration.Key == "" || toleration.Key == cordon.Key) && exists && (toleration.Effect == "" || toleration.Effect == cordon.Effect) {
			return drain.MakePodDeleteStatusSkip()
		}
	}
	return drain.MakePodDeleteStatusOkay()
}

// lines hands on what the library writes: a line each time, from several goroutines.
type lines struct {
	mu   sync.Mutex
	tell func(string)
}

func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if line := strings.TrimSpace(string(text)); l.tell != nil && line != "" {
		l.tell(line)
	}
	return len(text), nil
}

// DrainError is what kept a node from being drained.
type DrainError struct {
	Node string
	// Pods are those that are left, and what keeps each.
	Pods []Blocker
	// Err is how it ended.
	Err error
}

// named is how many pods an error names.
const named = 10

// Error names the pods and what keeps them.
func (e *DrainError) Error() string {
	if len(e.Pods) == 0 {
		return fmt.Sprintf("drain the node %s: %v", e.Node, e.Err)
	}
	texts := make([]string, 0, named+1)
	for i, pod := range e.Pods {
		if i == named {
			texts = append(texts, fmt.Sprintf("and %d more", len(e.Pods)-named))
			break
		}
		texts = append(texts, pod.String())
	}
	return fmt.Sprintf("drain the node %s: pods left: %s; make room for them or change what keeps them, and drain again", e.Node, strings.Join(texts, "; "))
}

// Unwrap is how it ended.
func (e *DrainError) Unwrap() error { return e.Err }

// left looks for what is still on the node after a drain that failed.
func (c *Cluster) left(ctx context.Context, node string, o DrainOptions, cause error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("drain the node %s: cut short: %w", node, context.Cause(ctx))
	}
	ctx, cancel := context.WithTimeout(ctx, afterwards)
	defer cancel()
	v, err := c.look(ctx, node)
	if err != nil {
		return fmt.Errorf("drain the node %s: %w (%w)", node, cause, err)
	}
	failed := &DrainError{Node: node, Err: cause}
	for i := range v.pods {
		if pod := &v.pods[i]; !v.stays(pod) {
			blocker, blocked := v.blocker(pod, o)
			if !blocked {
				blocker = Blocker{Pod: nameOf(pod), Node: node, Why: "it was not gone in time"}
			}
			failed.Pods = append(failed.Pods, blocker)
		}
	}
	return failed
}

func nameOf(object metav1.Object) string { return object.GetNamespace() + "/" + object.GetName() }
