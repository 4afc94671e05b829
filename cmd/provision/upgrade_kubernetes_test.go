package main

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/e2e/kubeapi"
)

// cordons watches the Node objects of a site, and keeps what it sees of cordons.
type cordons struct {
	mu      sync.Mutex
	on      map[string]bool
	seen    []string // nodes, as they were cordoned
	most    int      // at the same time
	reasons map[string]string
}

// watchCordons watches until the test ends.
func (s upgradeSite) watchCordons() *cordons {
	s.t.Helper()
	c := &cordons{on: map[string]bool{}, reasons: map[string]string{}}
	factory := informers.NewSharedInformerFactory(s.Kubernetes("prod").Client, 0)
	see := func(obj any) {
		if node, ok := obj.(*corev1.Node); ok {
			c.see(node)
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, obj any) { see(obj) }}
	if _, err := factory.Core().V1().Nodes().Informer().AddEventHandler(handler); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	s.t.Cleanup(func() { cancel(); factory.Shutdown() })
	return c
}

func (c *cordons) see(node *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if node.Spec.Unschedulable && !c.on[node.Name] {
		c.seen = append(c.seen, node.Name)
	}
	c.on[node.Name] = node.Spec.Unschedulable
	c.reasons[node.Name] = node.Annotations["provision.talos/cordoned-because"]
	now := 0
	for _, on := range c.on {
		if on {
			now++
		}
	}
	c.most = max(c.most, now)
}

// cordoned are the nodes that Kubernetes has as unschedulable now.
func (s upgradeSite) cordoned() []string {
	s.t.Helper()
	list, err := s.Kubernetes("prod").Client.CoreV1().Nodes().List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	var names []string
	for _, n := range list.Items {
		if n.Spec.Unschedulable {
			names = append(names, n.Name)
		}
	}
	return names
}

// The whole of it over a real Kubernetes API: plan, cordon, drain, kill, another
// controller, budgets.
func TestUpgradeOverARealKubernetesAPI(t *testing.T) {
	t.Parallel()
	s := newUpgradeSite(t, fleet.Config{Kubernetes: true, POST: 300 * time.Millisecond})
	api := s.Kubernetes("prod")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(api.AddPod(t.Context(), kubeapi.Pod{Name: "web-1", Node: "node-04", Owner: "ReplicaSet", OwnerName: "web", Labels: map[string]string{"app": "web"}}))
	budget := kubeapi.Budget{Name: "web", Match: map[string]string{"app": "web"}, MinAvailable: 1, Expected: 1, Healthy: 1, Desired: 1, Allowed: 0}
	must(api.AddBudget(t.Context(), budget))

	// A budget that can't be met holds its node in the plan.
	s.command("--dry-run", "--to", after).says(t, exitRefused, "held (disruption-budget): node-04", "web-1", "4 to upgrade, 0 to go on with, 0 done, 1 held")
	budget.Healthy, budget.Expected, budget.Allowed = 2, 2, 1
	must(api.SetBudget(t.Context(), budget))
	seen := s.watchCordons()

	// Killed while a node is drained, it goes on.
	first := s.start("--to", after, "--max-unavailable", "50%")
	first.await("a cordoned node", reaches("Cordoned", ""))
	s.otherIsRefused()
	must(first.cmd.Process.Signal(syscall.SIGKILL))
	first.end()
	r := s.command("--continue", "--yes", "-o", "json")
	r.says(t, exitDone)
	s.allRun(after)
	if diff := cmp.Diff(s.each(2), s.boots()); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
	if got := s.cordoned(); len(got) > 0 {
		t.Errorf("left cordoned: %v", got)
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if got := slices.Compact(slices.Sorted(slices.Values(seen.seen))); len(got) != 5 || seen.most != 1 {
		t.Errorf("cordoned %v, at most %d at the same time; want all five, one by one", seen.seen, seen.most)
	}
	if _, err := api.Client.CoreV1().Pods("default").Get(t.Context(), "web-1", metav1.GetOptions{}); err == nil {
		t.Error("the pod web-1 was not evicted")
	}
}

// otherIsRefused checks that a controller with another state is kept off by the Lease.
func (s upgradeSite) otherIsRefused() {
	s.t.Helper()
	r := s.command("--state", filepath.Join(s.t.TempDir(), "other"), "--to", after, "--yes")
	r.says(s.t, exitRefused, "another upgrade of this cluster is running")
}

// A node that fails stays cordoned, and says why; mended, the run goes on with it.
// Nothing that is printed or kept holds a key (I9).
func TestI9AFailedNodeStaysCordonedWithTheReasonAndNoKeyIsShown(t *testing.T) {
	t.Parallel()
	s := newUpgradeSite(t, fleet.Config{Kubernetes: true, Clusters: oneAndOne, Adjust: func(m *fleet.Machine) {
		m.Faults.UpgradeRollsBack = m.Name == "node-02"
	}})
	seen := s.watchCordons()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	provision(t, "cluster", "kubeconfig", "prod", "--config", s.ConfigFile(), "--out", file).says(t, exitDone)
	var shown strings.Builder
	run := func(status int, args ...string) {
		t.Helper()
		r := s.command(append([]string{"--single-node", "--yes", "--log-level", "debug"}, args...)...)
		r.says(t, status)
		shown.WriteString(r.out + r.err)
	}
	run(exitDone, "--to", after, "--dry-run", "-o", "json")
	run(exitFailed, "--to", after)
	if got := s.cordoned(); !slices.Equal(got, []string{"node-02"}) {
		t.Errorf("cordoned: %v, want node-02", got)
	}
	seen.mu.Lock()
	if got := seen.reasons["node-02"]; got != "rolled back" {
		t.Errorf("the Node object says %q", got)
	}
	seen.mu.Unlock()

	broken := s.Machines()[1]
	if err := broken.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	broken.Faults.UpgradeRollsBack = false
	if err := broken.PowerOn(t.Context(), redfishtest.Boot{}); err != nil {
		t.Fatal(err)
	}
	s.ready()
	run(exitDone, "--continue", "--kubeconfig", file)
	s.allRun(after)
	if got := s.cordoned(); len(got) > 0 {
		t.Errorf("left cordoned: %v", got)
	}
	shown.WriteString(textOf(t, filepath.Join(filepath.Dir(s.ConfigFile()), "state", "state.db")))
	for name, keys := range s.keys(file) {
		for _, key := range keys {
			if strings.Contains(shown.String(), key) {
				t.Errorf("a key of %s is shown: %.4s…", name, key)
			}
		}
	}
}

// ready waits until every node is.
func (s upgradeSite) ready() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	if err := s.AwaitReady(ctx); err != nil {
		s.t.Fatal(err)
	}
}

// keys are the secrets of the site's files, by file.
func (s upgradeSite) keys(kubeconfig string) map[string][]string {
	s.t.Helper()
	dir := filepath.Dir(s.ConfigFile())
	files := map[string]string{"kubeconfig": kubeconfig, "talosconfig": filepath.Join(dir, "configs/prod/talosconfig")}
	for _, m := range s.Machines() {
		files[m.Name] = filepath.Join(dir, "configs/prod", m.Name+".yaml")
	}
	keys := map[string][]string{}
	for name, file := range files {
		keys[name] = keysIn(textOf(s.t, file))
		if len(keys[name]) == 0 {
			s.t.Fatalf("no keys in %s", file)
		}
	}
	password, err := os.ReadFile(filepath.Join(dir, "bmc-password"))
	if err != nil {
		s.t.Fatal(err)
	}
	keys["bmc-password"] = []string{strings.TrimSpace(string(password))}
	return keys
}

// keysIn are the values of a file that are secret, by the names of their fields.
func keysIn(text string) []string {
	secret := map[string]bool{"key": true, "secret": true, "token": true, "client-key-data": true, "secretboxEncryptionSecret": true}
	found := map[string]bool{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.Trim(strings.TrimSpace(line), "- "), ": ")
		if value = strings.Trim(strings.TrimSpace(value), `"'`); secret[name] && len(value) > 10 {
			found[value] = true
		}
	}
	return slices.Collect(maps.Keys(found))
}
