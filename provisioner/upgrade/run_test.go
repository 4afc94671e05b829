package upgrade_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/provisioner/talos"
	"github.com/talos-provision/provision/provisioner/upgrade"
)

// sound fails when anything happened that must never.
func (w *world) sound() {
	w.t.Helper()
	for _, what := range w.unsound {
		w.t.Error(what)
	}
}

// upgradedTo checks that every node runs a version and is not cordoned by us.
func (w *world) upgradedTo(version string) {
	w.t.Helper()
	for name, b := range w.boxes {
		if b.version != version || b.k.Ours {
			w.t.Errorf("%s runs %s and is cordoned by us: %t; want %s", name, b.version, b.k.Ours, version)
		}
	}
}

func TestUpgradesAClusterOneMinor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 3, "v1.13.4")
		o := w.options("v1.14.1")
		var lines []string
		o.Line = func(node, line string) { lines = append(lines, node+": "+line) }
		result, err := w.upgrade(o)
		if !slices.Contains(lines, "cp-2: installing factory.talos.dev/metal-installer/"+schematicA+":v1.14.1") {
			t.Error("the installer's lines are not told:", lines)
		}
		if err != nil || !result.Complete {
			t.Fatal(result, err)
		}
		w.upgradedTo("v1.14.1")
		w.sound()
		var order []string
		for _, e := range w.events {
			if e.State == string(upgrade.Upgraded) {
				order = append(order, e.Node)
			}
		}
		if diff := cmp.Diff([]string{"w-1", "w-2", "w-3", "cp-2", "cp-3", "cp-1"}, order); diff != "" {
			t.Error("the leader is last:", diff)
		}
		var states []string
		for _, e := range w.events {
			if e.Node == "w-1" && (len(states) == 0 || states[len(states)-1] != e.State) {
				states = append(states, e.State)
			}
		}
		want := []string{"Gated", "Cordoned", "Drained", "Upgrading", "Rebooting", "Verifying", "Uncordoned", "Upgraded"}
		if diff := cmp.Diff(want, states); diff != "" {
			t.Error(diff)
		}
		if w.run.Finished.IsZero() || w.locked != "" {
			t.Error("the run is not finished, or the cluster still locked")
		}
	})
}

func TestTakesTheStopsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 3, "v1.11.3")
		w.limit = 2
		o := w.options("v1.13.9")
		o.Stops, o.MaxUnavailable = true, upgrade.Share{Count: 2}
		pulled := 0
		w.onCall = func(name, _ string) {
			if name == "Cordon" && pulled == 0 {
				pulled = len(w.pulls)
			}
		}
		if _, err := w.upgrade(o); err != nil {
			t.Fatal(err)
		}
		w.upgradedTo("v1.13.9")
		w.sound()
		for name, b := range w.boxes {
			if b.installs != 2 || b.boot != 2 {
				t.Errorf("%s: %d installations and %d boots, want one for each stop", name, b.installs, b.boot)
			}
		}
		if pulled != 2*len(w.boxes) {
			t.Errorf("%d installers were pulled before the first cordon, want those of all stops: %v", pulled, w.pulls)
		}
	})
}

func TestCanariesGoFirstEachAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 4, "v1.13.4")
		w.limit = 4
		o := w.options("v1.13.9")
		o.Canary, o.MaxUnavailable = []string{"w-3"}, upgrade.Share{Percent: 100}
		w.boxes["w-3"].fault = rollsBack
		_, err := w.upgrade(o)
		if !errors.Is(err, upgrade.ErrFailed) {
			t.Fatal(err)
		}
		for name, b := range w.boxes {
			if name != "w-3" && b.installs > 0 {
				t.Errorf("%s was upgraded after the canary had failed", name)
			}
		}
	})
}

// home-operations/tuppr#248
func TestNodesThatComeDuringARunAreTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 2, "v1.13.4")
		w.boxes["w-2"].version = "v1.13.9" // at the target already
		added := false
		w.onCall = func(name, _ string) {
			if name == "Reboot" && !added {
				added = true
				w.add("w-9", "10.0.1.9", upgrade.Worker, "v1.13.4")
			}
		}
		if _, err := w.upgrade(w.options("v1.13.9")); err != nil {
			t.Fatal(err)
		}
		w.upgradedTo("v1.13.9")
		if w.boxes["w-2"].installs != 0 || w.boxes["w-9"].installs != 1 {
			t.Error("installations of w-2 and w-9:", w.boxes["w-2"].installs, w.boxes["w-9"].installs)
		}
	})
}

// rancher/system-upgrade-controller#341; that none of ours stays is in TestNeverLosesQuorum
// (rancher/system-upgrade-controller#71).
func TestLeavesTheCordonOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 2, "v1.13.4")
		w.boxes["w-1"].k.Unschedulable = true
		if _, err := w.upgrade(w.options("v1.13.9")); err != nil {
			t.Fatal(err)
		}
		if k := w.boxes["w-1"].k; !k.Unschedulable || k.Ours {
			t.Error(k)
		}
	})
}

func TestTheClusterMustBeFitAfterEachNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 2, "v1.13.4")
		w.onCall = func(name, _ string) {
			if name == "Uncordon" {
				w.alarms = []talos.Alarm{{MemberID: memberID("cp-2"), Type: "NOSPACE"}}
			}
		}
		if _, err := w.upgrade(w.options("v1.13.9")); !errors.Is(err, upgrade.ErrFailed) {
			t.Fatal(err)
		}
		r := w.records["w-1"]
		if r.Verdict != upgrade.VerdictUnfit || !strings.Contains(r.Error, "NOSPACE") || r.Cordoned {
			t.Errorf("%+v", r)
		}
		w.onCall, w.alarms = nil, nil
		o := w.options("v1.13.9")
		o.Continue = true
		if _, err := w.upgrade(o); err != nil {
			t.Fatal(err)
		}
		if w.boxes["w-1"].installs != 1 {
			t.Error("it was installed again")
		}
	})
}

func TestWaitsForBudgetsOfPodsThatHaveJustMoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 2, "v1.13.4")
		start := time.Now()
		w.onCall = func(string, string) {
			w.boxes["w-2"].budgets = nil
			if time.Since(start) < 18*time.Minute {
				w.boxes["w-2"].budgets = []string{"default/web"}
			}
		}
		if _, err := w.upgrade(w.options("v1.13.9")); err != nil {
			t.Fatal(err)
		}
		w.upgradedTo("v1.13.9")
	})
}

func TestHeldNodesAreReportedAndTheOthersGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 2, "v1.13.4")
		w.boxes["w-1"].secureBoot = true
		result, err := w.upgrade(w.options("v1.13.9"))
		if !errors.Is(err, upgrade.ErrHeld) || result.Complete {
			t.Fatal(err)
		}
		if w.boxes["w-1"].installs != 0 || w.boxes["w-2"].version != "v1.13.9" || w.records["w-1"].State != upgrade.Held {
			t.Errorf("%+v", w.records["w-1"])
		}
		if len(result.Findings) != 1 || result.Findings[0].Code != upgrade.CodeSecureBootSwitch {
			t.Error(result.Findings)
		}
	})
}

// home-operations/tuppr#12, home-operations/tuppr#65, home-operations/tuppr#310
func TestASingleNodeIsNotDrained(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 0, "v1.13.4")
		w.boxes["cp-1"].budgets, w.boxes["cp-1"].fault = []string{"default/web"}, drainStuck
		o := w.options("v1.13.9")
		if _, err := w.upgrade(o); !errors.Is(err, upgrade.ErrParked) || !strings.Contains(err.Error(), "only control plane") {
			t.Fatal(err)
		}
		o.SingleNode = true
		if _, err := w.upgrade(o); err != nil {
			t.Fatal(err)
		}
		w.upgradedTo("v1.13.9")
		w.sound()
	})
}

func TestGoesWithoutKubernetesOnlyWhenTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 1, "v1.13.4")
		for _, call := range []string{"Version", "Nodes", "Cordon", "Drain"} {
			w.broken[call] = errors.New("refused")
		}
		o := w.options("v1.13.9")
		if _, err := w.upgrade(o); !errors.Is(err, upgrade.ErrParked) {
			t.Fatal(err)
		}
		o.NoDrain, o.Kubernetes, o.KubernetesVersion = true, nil, "1.34.1"
		if _, err := w.upgrade(o); err != nil {
			t.Fatal(err)
		}
		w.upgradedTo("v1.13.9")
	})
}

// A node that boots the new version, seems well, and then goes back to the old one.
func TestOneGoodLookIsNotEnough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 1, "v1.13.4")
		b, good := w.boxes["w-1"], 0
		w.onCall = func(name, host string) {
			if name != "Inspect" || host != b.Host || b.version != "v1.13.9" || !b.up() {
				return
			}
			if good++; good == 3 {
				b.version, b.upAt = "v1.13.4", time.Now().Add(2*time.Minute)
				b.boot++
			}
		}
		if _, err := w.upgrade(w.options("v1.13.9")); !errors.Is(err, upgrade.ErrFailed) {
			t.Fatal(err)
		}
		if got := w.records["w-1"].Verdict; got != upgrade.VerdictRolledBack {
			t.Error(got)
		}
	})
}
