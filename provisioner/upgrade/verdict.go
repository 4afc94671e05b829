package upgrade

import (
	"fmt"
	"strings"

	"github.com/talos-provision/provision/provisioner/talos"
)

// Verdict is how the upgrade of a node ended: stable words for machines to read.
type Verdict string

// The verdicts.
const (
	VerdictUpgraded       Verdict = "upgraded"
	VerdictRolledBack     Verdict = "rolled back"
	VerdictNeverRebooted  Verdict = "never rebooted"
	VerdictInstaller      Verdict = "installer failed"
	VerdictUnanswered     Verdict = "installer unanswered"
	VerdictMaintenance    Verdict = "maintenance again"
	VerdictGone           Verdict = "gone"
	VerdictNotReady       Verdict = "not ready"
	VerdictWrongVersion   Verdict = "wrong version"
	VerdictWrongSchematic Verdict = "wrong schematic"
	VerdictWrongCluster   Verdict = "wrong cluster"
	VerdictOtherMachine   Verdict = "other machine"
	VerdictCordon         Verdict = "cordon failed"
	VerdictDrain          Verdict = "drain failed"
	VerdictUncordon       Verdict = "uncordon failed"
	VerdictNetBoot        Verdict = "network boot failed"
	VerdictUnfit          Verdict = "cluster unfit"
)

// ending is what a verdict stands for.
type ending struct {
	hint string
	// resume is where --continue goes on with the node; "" is where it failed.
	resume State
}

// endings of every verdict that is a failure.
var endings = map[Verdict]ending{
	VerdictRolledBack:     {"look at the machine's console during a boot of the new version: it failed, and Talos went back to the old one; --continue installs it again", Drained},
	VerdictNeverRebooted:  {"look at the machine's console: something holds up its shutdown; --continue goes on with the reboot, and installs nothing again", Upgrading},
	VerdictInstaller:      {"the installer's lines say why; --continue installs again", Drained},
	VerdictUnanswered:     {"look at `talosctl logs machined` of the node; --continue installs again", Drained},
	VerdictMaintenance:    {"its config or its disk is gone: look at the machine's console; install it by `provision --cluster NAME`, then --continue", Verifying},
	VerdictGone:           {"look at the machine's console: it may hang in its firmware, where a power cycle helps, see --bmc-rescue; --continue waits for it again", Rebooting},
	VerdictNotReady:       {"`talosctl get machinestatus` and `talosctl services` of the node tell more; --continue waits for it again", Verifying},
	VerdictWrongVersion:   {"somebody else installed it, or it booted from the network: look at its boot order; --continue installs again", Drained},
	VerdictWrongSchematic: {"the image was not the one that was asked for: look at the registry or its mirror; --continue installs again", Drained},
	VerdictWrongCluster:   {"another machine took its address, or it was installed anew with other secrets; --continue looks again", Verifying},
	VerdictOtherMachine:   {"another machine took its address: look at DHCP and the inventory; --continue looks again", Verifying},
	VerdictCordon:         {"look at the Kubernetes API; --continue tries again", ""},
	VerdictDrain:          {"the pods named are not evicted within the time: look at their PodDisruptionBudgets; --continue drains again", ""},
	VerdictUncordon:       {"it runs the new version and only its cordon is left; --continue takes it off", ""},
	VerdictNetBoot:        {"its disk is as before: look at the machine's console and at the log of the boot services; a power cycle boots what it ran before; --continue boots it from the network again", Drained},
	VerdictUnfit:          {"bring the cluster back to health first; --continue looks again", ""},
}

// failure is why the upgrade of a node ended before its time.
type failure struct {
	verdict Verdict
	err     error
}

func (f *failure) Error() string { return fmt.Sprintf("%s: %v", f.verdict, f.err) }
func (f *failure) Unwrap() error { return f.err }

func failed(verdict Verdict, format string, args ...any) *failure {
	return &failure{verdict: verdict, err: fmt.Errorf(format, args...)}
}

// judgement is one row of what a look at a node after its reboot means.
type judgement struct {
	verdict Verdict
	// conclusive: it stays so, once it was seen a few times in a row. The others may pass.
	conclusive bool
	holds      func(r Record, seen talos.Running) bool
}

// judgements are tried in their order. The client calls' own outcome is not
// among them: only what the node is counts (home-operations/tuppr#213).
var judgements = []judgement{
	{VerdictMaintenance, true, func(_ Record, s talos.Running) bool { return s.State == talos.Maintenance }},
	{VerdictWrongCluster, false, func(_ Record, s talos.Running) bool { return s.WrongPKI }},
	{VerdictGone, false, func(_ Record, s talos.Running) bool { return !s.Reached }},
	{VerdictOtherMachine, true, func(r Record, s talos.Running) bool {
		return r.UUID != "" && s.Facts.UUID != "" && !strings.EqualFold(r.UUID, s.Facts.UUID)
	}},
	{VerdictNeverRebooted, false, func(r Record, s talos.Running) bool { return s.BootID != "" && s.BootID == r.BootID }},
	{VerdictNotReady, false, func(_ Record, s talos.Running) bool {
		return s.Stage != stageRunning || !s.Ready || s.Version == "" || s.BootID == "" || s.Err != nil
	}},
	{VerdictRolledBack, true, func(r Record, s talos.Running) bool {
		return sameVersion(s.Version, r.From) && r.From != r.Target
	}},
	{VerdictWrongVersion, true, func(r Record, s talos.Running) bool { return !sameVersion(s.Version, r.Target) }},
	{VerdictWrongSchematic, true, func(r Record, s talos.Running) bool { return s.Schematic != r.Schematic }},
	{VerdictUpgraded, true, func(Record, talos.Running) bool { return true }},
}

// judge says what a look at a node means.
func judge(r Record, seen talos.Running) judgement {
	for _, j := range judgements {
		if j.holds(r, seen) {
			return j
		}
	}
	return judgement{verdict: VerdictNotReady}
}

func sameVersion(text string, v Version) bool {
	parsed, err := ParseVersion(text)
	return err == nil && parsed == v
}

// booted says whether a look shows the node, and another boot than before.
func booted(r Record, seen talos.Running) bool {
	return seen.Reached && seen.BootID != "" && seen.BootID != r.BootID
}
