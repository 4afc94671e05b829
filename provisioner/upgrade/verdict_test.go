package upgrade_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/talos-provision/provision/provisioner/upgrade"
)

// verdicts: one fault each, and what becomes of the node.
var verdictCases = []struct {
	name    string
	fault   fault
	version string // that runs; a version before 1.13 has the legacy API only
	rescue  bool
	verdict upgrade.Verdict
	says    string
	// carriesOn: after the fault is gone, --continue brings the run to its end.
	installs, orders int // in all, after --continue
}{
	{"rolled back (cozystack/talm#175)", rollsBack, "v1.13.4", false, upgrade.VerdictRolledBack, "runs v1.13.4 as before", 2, 2},
	{"rolled back, legacy (siderolabs/talos#10364)", rollsBack, "v1.12.9", false, upgrade.VerdictRolledBack, "runs v1.12.9 as before", 2, 2},
	{"never rebooted: resumed by rebooting only (home-operations/tuppr#575)", neverReboots, "v1.13.4", false, upgrade.VerdictNeverRebooted, "boot-0", 1, 2},
	{"never rebooted, legacy", neverReboots, "v1.12.9", false, upgrade.VerdictNeverRebooted, "boot-0", 2, 2},
	{"installer failed, with its words (home-operations/tuppr#460, siderolabs/talos#10986)", exitsWithCode, "v1.13.4", false, upgrade.VerdictInstaller, "exit code 1: installing factory.talos.dev/metal-installer/" + schematicA + ":v1.13.9 | failed to probe bootloader on upgrade", 2, 1},
	{"installer told no exit code", exitsSilently, "v1.13.4", false, upgrade.VerdictInstaller, "no exit code", 2, 1},
	{"maintenance again (siderolabs/talos#9206)", losesConfig, "v1.13.4", false, upgrade.VerdictMaintenance, "maintenance mode", 1, 1},
	{"gone, and no rescue allowed (siderolabs/talos#8751)", hangs, "v1.13.4", false, upgrade.VerdictGone, "its power is On", 1, 1},
	{"gone for good", diesForGood, "v1.13.4", true, upgrade.VerdictGone, "after a power cycle either", 1, 1},
	{"wrong version", bootsOther, "v1.13.4", false, upgrade.VerdictWrongVersion, "runs v1.10.1", 2, 2},
	{"wrong schematic (home-operations/tuppr#478)", otherSchematic, "v1.13.4", false, upgrade.VerdictWrongSchematic, schematicB, 2, 2},
	{"never ready", staysUnready, "v1.13.4", false, upgrade.VerdictNotReady, "ready: false", 1, 1},
	{"another machine at its address", swapped, "v1.13.4", false, upgrade.VerdictOtherMachine, "uuid-of-another", 1, 1},
	{"drain failed before the installation (siderolabs/talos#9882)", drainStuck, "v1.13.4", false, upgrade.VerdictDrain, "default/web-0", 1, 1},
	{"reboot refused", refusesReboot, "v1.13.4", false, upgrade.VerdictNeverRebooted, "locked", 1, 1},
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for _, c := range verdictCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 3, 2, c.version)
				b := w.boxes["w-1"]
				b.fault = c.fault
				o := w.options("v1.13.9")
				o.BMCRescue = c.rescue
				result, err := w.upgrade(o)
				if !errors.Is(err, upgrade.ErrFailed) {
					t.Fatal(err)
				}
				record := w.records["w-1"]
				if record.Verdict != c.verdict || !strings.Contains(record.Error, c.says) || record.Hint == "" || record.State != upgrade.Failed {
					t.Errorf("%+v", record)
				}
				if !b.k.Ours || !strings.Contains(b.why, string(c.verdict)) || !slices.Equal(result.Cordoned(), []string{"w-1"}) {
					t.Errorf("the failed node stays cordoned with the reason: %+v %q %v", b.k, b.why, result.Cordoned())
				}
				for name, other := range w.boxes {
					if name != "w-1" && (other.installs > 0 || other.k.Unschedulable) {
						t.Errorf("%s was touched after the failure", name)
					}
				}
				last := w.events[len(w.events)-1]
				if last.State != "Failed" || last.Message != string(c.verdict) || last.Hint == "" {
					t.Errorf("%+v", last)
				}
				w.repair(b)
				o.Continue, o.RunID = true, "run-2"
				if _, err := w.upgrade(o); err != nil {
					t.Fatal("continued:", err)
				}
				w.upgradedTo("v1.13.9")
				if b.installs != c.installs || b.orders != c.orders {
					t.Errorf("%d installations and %d reboots were ordered, want %d and %d", b.installs, b.orders, c.installs, c.orders)
				}
				w.sound()
			})
		})
	}
}

// repair is the operator.
func (w *world) repair(b *box) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b.version == "v1.10.1" {
		b.version = "v1.13.4"
	}
	b.fault, b.away, b.maintenance, b.unready, b.budgets = noFault, false, false, false, nil
	b.uuid, b.flips = "uuid-"+b.Name, nil
}

// siderolabs/talos#14146
func TestAPowerCycleRescuesOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 1, "v1.13.4")
		w.boxes["w-1"].fault = hangs
		o := w.options("v1.13.9")
		o.BMCRescue = true
		if _, err := w.upgrade(o); err != nil {
			t.Fatal(err)
		}
		w.upgradedTo("v1.13.9")
		if w.boxes["w-1"].cycles != 1 {
			t.Error(w.boxes["w-1"].cycles)
		}
	})
}

// The client's call fails and the node does what it was told: it is upgraded.
func TestReadBackDecidesNotTheCall(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1.12.9", "v1.13.4"} {
		t.Run("home-operations/tuppr#213 from "+version, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 3, 1, version)
				w.boxes["w-1"].fault = losesAnswers
				if _, err := w.upgrade(w.options("v1.13.9")); err != nil {
					t.Fatal(err)
				}
				w.upgradedTo("v1.13.9")
				if got := w.boxes["w-1"].orders; got != 1 {
					t.Error(got, "reboots")
				}
			})
		})
	}
}

func TestFallsBackOnTheLegacyAPI(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 1, "v1.13.4")
		w.boxes["w-1"].fault = refusesLifecycle
		if _, err := w.upgrade(w.options("v1.13.9")); err != nil {
			t.Fatal(err)
		}
		w.upgradedTo("v1.13.9")
		if got := w.records["w-1"].API; got != upgrade.Legacy {
			t.Error(got)
		}
	})
}

func TestWaitsForAnInstallationThatIsInProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 1, "v1.13.4")
		w.boxes["w-1"].fault = busy
		if _, err := w.upgrade(w.options("v1.13.9")); err != nil {
			t.Fatal(err)
		}
		w.upgradedTo("v1.13.9")
	})
}
