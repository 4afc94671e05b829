package main

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner/web"
)

// throughDaemon is an upgrade without Kubernetes, which a daemon carries out.
func (s upgradeSite) throughDaemon(args ...string) result {
	s.t.Helper()
	return s.command(slices.Concat(withoutKubernetes, []string{"--to", after}, args)...)
}

// A daemon takes the nodes up one by one, as the command alone does, and tells of it as it goes.
func TestAnUpgradeThroughTheDaemonIsLikeOneAlone(t *testing.T) {
	t.Parallel()
	s := newUpgradeSite(t, fleet.Config{Clusters: []fleet.Cluster{{Name: "prod", ControlPlanes: 3, Workers: 1}}})
	planned := s.throughDaemon("--dry-run")
	planned.says(t, exitDone, "4 to upgrade")
	d := startDaemon(t, s.Fleet)
	if got := s.throughDaemon("--dry-run"); got.status != exitDone || got.out != planned.out {
		t.Errorf("the daemon's plan differs (-alone +served):\n%s", cmp.Diff(planned.out, got.out))
	}
	r := s.throughDaemon("--yes", "-o", "json")
	events := eventsOf(t, r.out)
	r.says(t, exitDone)
	s.allRun(after)
	if diff := cmp.Diff(s.each(2), s.boots()); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
	if got := order(events, "Upgraded"); len(got) != 4 || got[0] != "node-04" {
		t.Errorf("order %v, want the worker node-04 first", got)
	}
	upgrades, err := d.Upgrades(t.Context())
	if err != nil || len(upgrades) != 1 {
		t.Fatalf("upgrades %+v, error %v", upgrades, err)
	}
	u := upgrades[0]
	if u.ID != events[0].Run || u.Active || u.Outcome != web.UpgradeDone || u.Finished.IsZero() || u.Target != after || len(u.Nodes) != 4 || u.By == "" {
		t.Errorf("afterwards the daemon says %+v", u)
	}
	for _, n := range u.Nodes {
		if n.State != "Upgraded" || n.From != before {
			t.Errorf("node %+v", n)
		}
	}
	untouched(t, s.Machines()...)
	noSessions(t, s.Fleet)
	s.throughDaemon("--yes").says(t, exitDone, "0 upgraded")
}

// Ctrl-C ends the watching; stop ends the upgrade where it can be carried on; a second one
// is refused meanwhile, and so is one that forgets that there is an unfinished one.
func TestAnUpgradeOutlivesWhoBeganItAndIsStoppedAndCarriedOn(t *testing.T) {
	t.Parallel()
	s := newUpgradeSite(t, fleet.Config{Clusters: []fleet.Cluster{{Name: "prod", ControlPlanes: 1, Workers: 2}}, InstallTime: 2 * time.Second})
	d := startDaemon(t, s.Fleet)
	args := slices.Concat([]string{"upgrade", "--config", s.ConfigFile(), "--cluster", "prod", "--to", after, "--yes", "-o", "json", "--single-node"}, withoutKubernetes)
	first, said := startTalking(t, args...)
	begun := first.await("the first install", reaches("Drained", ""))
	provision(t, args...).says(t, exitRefused, begun.Run)
	if err := first.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if status := first.end(); status != exitInterrupted || !strings.Contains(said.String(), begun.Run+" goes on") {
		t.Errorf("Ctrl-C ends the watching with status %d and says %q", status, said)
	}
	if u, err := d.Upgrades(t.Context()); err != nil || len(u) != 1 || !u[0].Active || u[0].ID != begun.Run {
		t.Fatalf("after Ctrl-C the upgrades are %+v, error %v", u, err)
	}
	provision(t, "stop", "--config", s.ConfigFile(), "--cluster", "prod").says(t, exitDone)
	if u, err := d.Upgrades(t.Context()); err != nil || len(u) != 1 || u[0].Active || u[0].Stopped == "" || !u[0].Finished.IsZero() {
		t.Fatalf("after stop the upgrades are %+v, error %v", u, err)
	}
	provision(t, args...).says(t, exitRefused, "--continue")
	provision(t, append(args, "--continue")...).says(t, exitDone)
	s.allRun(after)
	provision(t, "stop", "--config", s.ConfigFile(), "--cluster", "prod").says(t, exitUsage)
}

func TestAnUnfinishedUpgradeIsAbandonedThroughTheDaemon(t *testing.T) {
	t.Parallel()
	s := newUpgradeSite(t, fleet.Config{Clusters: []fleet.Cluster{{Name: "prod", ControlPlanes: 1, Workers: 1}}, InstallTime: 2 * time.Second})
	startDaemon(t, s.Fleet)
	args := slices.Concat([]string{"upgrade", "--config", s.ConfigFile(), "--cluster", "prod", "--to", after, "--yes", "-o", "json", "--single-node"}, withoutKubernetes)
	first, _ := startTalking(t, args...)
	first.await("the first install", reaches("Drained", ""))
	s.command("--abandon").says(t, exitRefused)
	provision(t, "stop", "--config", s.ConfigFile(), "--cluster", "prod").says(t, exitDone)
	if status := first.end(); status != exitInterrupted {
		t.Errorf("who watched an upgrade that was stopped ends with status %d", status)
	}
	s.command("--abandon").says(t, exitDone, "is ended")
	s.command("--abandon").says(t, exitUsage)
}

// What a person types reaches the daemon whole.
func TestTheFlagsOfAnUpgradeReachTheDaemon(t *testing.T) {
	t.Parallel()
	f := upgradeFlags{
		to: "v1.14.0", method: methodPXE, api: "legacy", maxUnavailable: "25%", canary: "node-04", order: "rack", kubernetesVersion: "v1.36.0",
		stops: true, noDrain: true, noHealth: true, singleNode: true, bmcRescue: true, powerCycle: true, evictBare: true, keepEmptyDir: true, resume: true,
		gate: time.Minute, pull: 2 * time.Minute, drain: 3 * time.Minute, install: 4 * time.Minute, reboot: 5 * time.Minute, verify: 90 * time.Second,
	}
	shared := flags{cluster: "prod", nodes: "node-[01-02]", selector: "role=worker", exclude: "node-09"}
	r, err := f.request(shared)
	if err != nil {
		t.Fatal(err)
	}
	v := reflect.ValueOf(r)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && name != "Digest" {
			t.Errorf("%s is lost on its way into the request", name)
		}
	}
	got, err := flagsOf(r)
	if err != nil || got != f {
		t.Errorf("error %v; the flags (-typed +arrived):\n%s", err, cmp.Diff(f, got, cmp.AllowUnexported(upgradeFlags{})))
	}
	for _, wrong := range []web.UpgradeRequest{{GateTimeout: "5"}, {PullTimeout: "-1m"}, {RebootTimeout: "soon"}} {
		if _, err := flagsOf(wrong); err == nil {
			t.Errorf("%+v is taken", wrong)
		}
	}
	f.kubeconfig = "/root/.kube/config"
	if _, err := f.request(shared); err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("a file of this host: error %v", err)
	}
}
