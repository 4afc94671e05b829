package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/talosnode"
	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner/machineconfig"
	"github.com/talos-provision/provision/provisioner/talos"
)

// start boots the site's nodes from disks on which they were installed with the
// configs that init made, and bootstraps the cluster.
func (s clusterSite) start(t *testing.T, change func(name string, disk *talosnode.DiskState, config *talosnode.Config)) {
	t.Helper()
	tree, _, err := inventory.Load(s.inventory)
	if err != nil {
		t.Fatal(err)
	}
	source := machineconfig.Source{Inventory: s.inventory}
	var clusters talosnode.Clusters
	for _, n := range tree.Nodes {
		c, _, err := source.Render(n)
		if err != nil {
			t.Fatal(err)
		}
		disk := talosnode.DiskState{Device: "/dev/vda", Version: "v1.13.9", Schematic: vanillaSchematic, Cmdline: "talos.platform=metal", MachineConfig: c.Data()}
		config := talosnode.Config{
			Address: n.IP, UUID: "11223344-5566-7788-99aa-bbccddeeff0" + n.IP[len(n.IP)-1:], FromDisk: true, Clusters: &clusters,
		}
		if change != nil {
			change(n.Name, &disk, &config)
		}
		config.Disk = talosnode.NewDisk(disk, nil)
		node, err := talosnode.Start(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(node.Stop)
	}
	s.bootstrap(t)
}

func (s clusterSite) bootstrap(t *testing.T) {
	t.Helper()
	access, err := talos.LoadAccess(filepath.Join(s.dir, "configs/prod/talosconfig"), "")
	if err != nil {
		t.Fatal(err)
	}
	admin := talos.Admin{Access: access}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		err := admin.Bootstrap(ctx, s.hosts[0])
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("bootstrap: %v", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// until runs a command until its result is as wanted; a cluster takes a moment
// to come up.
func (s clusterSite) until(t *testing.T, wanted func(result) bool, args ...string) result {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		r := s.run(t, args...)
		if wanted(r) || time.Now().After(deadline) {
			return r
		}
	}
}

// The configs that init makes run a cluster: it is healthy, as the inventory says,
// and gives its kubeconfig.
func TestAClusterMadeByInitIsHealthyAndGivesItsKubeconfig(t *testing.T) {
	t.Parallel()
	s := newClusterSite(t)
	s.init(t, "--install-disk", "/dev/vda")
	s.start(t, nil)

	r := s.until(t, func(r result) bool { return r.status == exitDone }, "cluster", "health", "prod")
	if r.status != exitDone || !strings.Contains(r.out, "prod is healthy, and as the inventory says") || !strings.Contains(r.err, "waiting for etcd") {
		t.Fatalf("health: status %d\n%s%s", r.status, r.out, r.err)
	}
	for _, want := range []string{"NODE", "cp-1", "controlplane", "worker-1", "v1.13.9", "37656798…", "running", "Ready"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("health lacks %q:\n%s", want, r.out)
		}
	}
	file := filepath.Join(s.dir, "kubeconfig")
	if r := s.run(t, "cluster", "kubeconfig", "prod", "--out", file); r.status != exitDone || r.out != "wrote "+file+"\n" {
		t.Errorf("kubeconfig: status %d: %s%s", r.status, r.out, r.err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("kubeconfig: %v, mode %v", err, info.Mode())
	}
	printed := s.run(t, "cluster", "kubeconfig", "prod", "--out", "-")
	if printed.status != exitDone || !strings.Contains(printed.out, "current-context:") {
		t.Errorf("kubeconfig on standard output: status %d, %d bytes", printed.status, len(printed.out))
	}
	if r := s.run(t, "cluster", "kubeconfig", "prod", "--out", file); r.status != exitRefused || !strings.Contains(r.err, "--merge adds to it") {
		t.Errorf("over a file: status %d: %s", r.status, r.err)
	}
	writeFile(t, file, "clusters: [{name: mine}]\nusers: []\ncontexts: []\n")
	if r := s.run(t, "cluster", "kubeconfig", "prod", "--out", file, "--merge"); r.status != exitDone || !strings.Contains(textOf(t, file), "name: mine") || !strings.Contains(textOf(t, file), "prod") {
		t.Errorf("merge: status %d: %s", r.status, r.err)
	}
	for _, key := range keyMaterial(t, textOf(t, s.secrets)) {
		if strings.Contains(r.out+r.err, key) {
			t.Errorf("a key of the cluster is shown: %.4s…", key)
		}
	}
}

// What runs and what the inventory says drift apart; both are shown, by node.
func TestHealthShowsWhatDrifted(t *testing.T) {
	t.Parallel()
	s := newClusterSite(t)
	s.init(t, "--install-disk", "/dev/vda")
	s.start(t, func(name string, disk *talosnode.DiskState, config *talosnode.Config) {
		if name == "worker-1" {
			disk.Version, disk.Schematic = "v1.12.11", strings.Repeat("ab", 32)
			config.UUID = "99999999-5566-7788-99aa-bbccddeeff00"
		}
	})
	s.put(t, "prod/worker-1.yaml", "ip: "+s.hosts[1]+"\nuuid: 11223344-5566-7788-99aa-bbccddeeff02\nlabels: {role: worker}\n")
	var report healthReport
	r := s.until(t, func(r result) bool {
		report = healthReport{}
		return json.Unmarshal([]byte(r.out), &report) == nil && report.Check.Passed
	}, "cluster", "health", "prod", "-o", "json", "--timeout", "10s")
	if r.status != exitFailed {
		t.Fatalf("status %d: %s%s", r.status, r.out, r.err)
	}
	if report.Healthy || len(report.Nodes) != 2 || len(report.Nodes[0].Problems) != 0 {
		t.Errorf("report: %+v", report)
	}
	problems := strings.Join(report.Nodes[1].Problems, "\n")
	for _, want := range []string{"another machine has this address", "Talos v1.12.11, not v1.13.9", "schematic abababab…, not 37656798…"} {
		if !strings.Contains(problems, want) {
			t.Errorf("problems lack %q:\n%s", want, problems)
		}
	}
}

// scriptedAdmin is an administrator's way that tests speak for.
type scriptedAdmin struct {
	running   map[string]talos.Running
	health    map[string]error
	healthAt  []string
	requested talos.HealthRequest
}

func (a *scriptedAdmin) Inspect(_ context.Context, host string) talos.Running { return a.running[host] }

func (a *scriptedAdmin) Kubeconfig(context.Context, string) ([]byte, error) {
	return nil, errors.New("connection refused")
}

func (a *scriptedAdmin) Health(_ context.Context, host string, request talos.HealthRequest, progress func(string)) error {
	a.healthAt, a.requested = append(a.healthAt, host), request
	progress("waiting for etcd to be healthy")
	return a.health[host]
}

func threeNodes(admin clusterAdmin) *runningCluster {
	node := func(name, ip string, controlPlane bool) clusterNode {
		role := "worker"
		if controlPlane {
			role = "controlplane"
		}
		return clusterNode{Node: inventory.Node{Name: name, Cluster: "prod", IP: ip, TalosVersion: "v1.13.9"}, controlPlane: controlPlane, role: role}
	}
	return &runningCluster{name: "prod", admin: admin, nodes: []clusterNode{node("a", "10.0.0.1", true), node("b", "10.0.0.2", true), node("c", "10.0.0.3", false), node("d", "", false)}}
}

func TestHealthSaysOfEachNodeWhatIsWrongWithIt(t *testing.T) {
	t.Parallel()
	good := talos.Running{State: talos.Configured, Reached: true, Version: "v1.13.9", Stage: "running", Ready: true, Role: "controlplane", Kubernetes: talos.Node{Registered: true, Ready: true}}
	for name, tc := range map[string]struct {
		seen func(talos.Running) talos.Running
		want string
	}{
		"good":        {func(r talos.Running) talos.Running { return r }, ""},
		"cordoned":    {func(r talos.Running) talos.Running { r.Kubernetes.Unschedulable = true; return r }, ""},
		"maintenance": {func(talos.Running) talos.Running { return talos.Running{State: talos.Maintenance} }, "in maintenance mode: it has no machine config"},
		"other PKI":   {func(talos.Running) talos.Running { return talos.Running{State: talos.Configured, WrongPKI: true} }, "of another cluster: it does not accept the talosconfig"},
		"silent":      {func(talos.Running) talos.Running { return talos.Running{Err: errors.New("port refused")} }, "port refused"},
		"stage":       {func(r talos.Running) talos.Running { r.Stage = "booting"; return r }, "stage booting"},
		"unmet": {func(r talos.Running) talos.Running {
			r.Ready, r.Unmet = false, []string{"nodeReady: not ready"}
			return r
		}, "not ready: nodeReady: not ready"},
		"role":      {func(r talos.Running) talos.Running { r.Role = "worker"; return r }, "role worker, not controlplane"},
		"hostname":  {func(r talos.Running) talos.Running { r.Hostname = "talos-x"; return r }, "hostname talos-x, not a"},
		"no node":   {func(r talos.Running) talos.Running { r.Kubernetes = talos.Node{}; return r }, "not in Kubernetes"},
		"not Ready": {func(r talos.Running) talos.Running { r.Kubernetes.Ready = false; return r }, "not Ready in Kubernetes"},
		"half read": {func(r talos.Running) talos.Running { r.Err = errors.New("no disks"); return r }, "not all could be read: no disks"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var h nodeHealth
			h.fill(threeNodes(nil).nodes[0], tc.seen(good))
			if got := strings.Join(h.Problems, "\n"); got != tc.want {
				t.Errorf("problems %q, want %q", got, tc.want)
			}
		})
	}
}

// A control plane node that cannot be reached is not the verdict; one that finds
// the cluster unhealthy is.
func TestHealthAsksTheNextControlPlaneOnlyWhereOneCannotAnswer(t *testing.T) {
	t.Parallel()
	unhealthy := errors.Join(talos.ErrUnhealthy, errors.New("etcd member is missing"))
	for name, tc := range map[string]struct {
		health map[string]error
		asked  []string
		passed bool
	}{
		"healthy":       {nil, []string{"10.0.0.1"}, true},
		"first is down": {map[string]error{"10.0.0.1": errors.New("refused")}, []string{"10.0.0.1", "10.0.0.2"}, true},
		"all are down":  {map[string]error{"10.0.0.1": errors.New("refused"), "10.0.0.2": errors.New("refused")}, []string{"10.0.0.1", "10.0.0.2"}, false},
		"unhealthy":     {map[string]error{"10.0.0.1": unhealthy}, []string{"10.0.0.1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			admin := &scriptedAdmin{health: tc.health}
			got, err := threeNodes(admin).check(t.Context(), time.Minute, func(string) {})
			if err != nil || got.Passed != tc.passed || (got.Error == "") != tc.passed || len(got.Messages) != len(tc.asked) {
				t.Errorf("check %+v, error %v", got, err)
			}
			if diff := cmp.Diff(tc.asked, admin.healthAt); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			want := talos.HealthRequest{ControlPlanes: []string{"10.0.0.1", "10.0.0.2"}, Workers: []string{"10.0.0.3"}, Timeout: time.Minute}
			if diff := cmp.Diff(want, admin.requested); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCommandsOfARunningClusterSayWhatTheyMiss(t *testing.T) {
	t.Parallel()
	s := newClusterSite(t)
	if r := s.run(t, "cluster", "health", "prod"); r.status != exitUsage || !strings.Contains(r.err, "set talosconfig in the cluster's _defaults.yaml") {
		t.Errorf("without a talosconfig: status %d: %s", r.status, r.err)
	}
	if r := s.run(t, "cluster", "health", "nowhere"); r.status != exitUsage || !strings.Contains(r.err, "nowhere") {
		t.Errorf("of no cluster: status %d: %s", r.status, r.err)
	}
	s.init(t)
	r := s.run(t, "cluster", "kubeconfig", "prod", "--out", filepath.Join(s.dir, "k"))
	if r.status != exitFailed || !strings.Contains(r.err, s.hosts[0]) {
		t.Errorf("of a cluster that is off: status %d: %s", r.status, r.err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "k")); err == nil {
		t.Error("a file was written without a kubeconfig")
	}
}
