package main

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/store"
)

// oneWrongPassword is a fleet whose second BMC takes another password than the inventory's.
func oneWrongPassword(t *testing.T) *fleet.Fleet {
	t.Helper()
	return startFleet(t, fleet.Config{Nodes: 2, Adjust: func(m *fleet.Machine) {
		if m.Name == "node-02" {
			m.Password = "another-password"
		}
	}})
}

// volatile is what differs from one run to the next: the fleet's network, times and ids.
var volatile = regexp.MustCompile(`127\.\d+\.|\d\d:\d\d:\d\d|\d{8}T\d{6}Z-[0-9a-f]+`)

// milestones are what a run told of each node, without what depends on timing.
func milestones(t *testing.T, out string) map[string][]string {
	t.Helper()
	told := map[string][]string{}
	for _, e := range eventsOf(t, out) {
		what := e.State
		if e.State == "Armed" || e.State == "Failed" || e.State == "Maintenance" {
			what = volatile.ReplaceAllString(strings.Join([]string{e.State, e.Message, e.Error, e.Hint, e.Cause}, " | "), "#")
		}
		if list := told[e.Node]; len(list) == 0 || list[len(list)-1] != what {
			told[e.Node] = append(list, what)
		}
	}
	return told
}

// sortedLines are the lines of a table or an account, of nodes that are worked on at once.
func sortedLines(out string) []string {
	return slices.Sorted(strings.Lines(volatile.ReplaceAllString(out, "#")))
}

func TestARunThroughTheDaemonIsLikeARunAlone(t *testing.T) {
	t.Parallel()
	alone, served := oneWrongPassword(t), oneWrongPassword(t)
	d := startDaemon(t, served)
	var results [2]result
	for i, f := range []*fleet.Fleet{alone, served} {
		results[i], _ = install(t, f)
	}
	if results[0].status != exitFailed || results[1].status != exitFailed {
		t.Errorf("status %d alone, %d through the daemon; want %d", results[0].status, results[1].status, exitFailed)
	}
	want := milestones(t, results[0].out)
	if diff := cmp.Diff(want, milestones(t, results[1].out)); diff != "" || len(want["node-01"]) < 5 {
		t.Errorf("events (-alone +served):\n%s\nalone: %v", diff, want)
	}
	// Once more for people: one node is done already, the other fails again.
	for i, f := range []*fleet.Fleet{alone, served} {
		results[i] = provision(t, "--config", f.ConfigFile(), "--cluster", "demo", "--yes")
		results[i].says(t, exitFailed, "1 done, 1 failed, 0 held, 0 skipped", "node-02 failed")
	}
	if diff := cmp.Diff(sortedLines(results[0].out), sortedLines(results[1].out)); diff != "" {
		t.Errorf("output (-alone +served):\n%s", diff)
	}
	for i, f := range []*fleet.Fleet{alone, served} {
		results[i] = provision(t, "plan", "--config", f.ConfigFile(), "--cluster", "demo", "-o", "json")
		var plan provisioner.Plan
		if err := json.Unmarshal([]byte(results[i].out), &plan); err != nil || len(plan.Nodes) != 2 || plan.Nodes[0].Action != provisioner.ActionDone {
			t.Errorf("the plan is %+v, %v", plan, err)
		}
		if results[i].status != exitFailed {
			t.Errorf("plan ends with status %d, want %d", results[i].status, exitFailed)
		}
		if diff := cmp.Diff(map[string]string{"node-01": "Maintenance", "node-02": "Failed"}, status(t, f)); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
	}
	noSessions(t, served)
	if n := served.Machines()[0].BMC().PowerOns(); n != 1 {
		t.Errorf("powered on %d times, want 1", n)
	}
	if status := d.stop(); status != exitDone {
		t.Errorf("the daemon ended with status %d", status)
	}
	// What the daemon leaves is read without it.
	if got := status(t, served); got["node-01"] != "Maintenance" {
		t.Errorf("status without the daemon: %v", got)
	}
}

// Two people watch, a third tries to run the same cluster, and the one who began it
// goes home: the run goes on until somebody stops it, and then until somebody goes on.
func TestARunOutlivesWhoBeganItAndIsStoppedAndCarriedOn(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 1, POST: 4 * time.Second})
	m := f.Machines()[0]
	d := startDaemon(t, f)
	var watchers [2]*process
	for i := range watchers {
		watchers[i] = startCommand(t, "events", "--follow", "--config", f.ConfigFile(), "-o", "json")
	}
	first, said := startTalking(t, "--config", f.ConfigFile(), "--cluster", "demo", "--yes", "-o", "json")
	begun := first.await("the power cycle", reaches("PowerCycled", ""))

	second := provision(t, "--config", f.ConfigFile(), "--cluster", "demo", "--yes", "-o", "json")
	second.says(t, exitRefused, begun.Run, "provision events --follow --cluster demo")

	if err := first.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if status := first.end(); status != exitInterrupted {
		t.Errorf("Ctrl-C ends the watching with status %d, want %d", status, exitInterrupted)
	}
	for _, text := range []string{begun.Run + " goes on", "provision events --follow --cluster demo", "provision stop --cluster demo"} {
		if !strings.Contains(said.String(), text) {
			t.Errorf("Ctrl-C says %q, want %q", said, text)
		}
	}
	if runs := d.runs(); len(runs) != 1 || !runs[0].Finished.IsZero() || runs[0].ID != begun.Run {
		t.Errorf("after Ctrl-C the runs are %+v, want %s under way", runs, begun.Run)
	}

	provision(t, "stop", "--config", f.ConfigFile(), "--cluster", "demo").says(t, exitDone)
	noSessions(t, f)
	if !m.Powered() {
		t.Error("stop left the machine off")
	}
	d.stays("the run is stopped", func() bool {
		runs := d.runs()
		return len(runs) == 1 && runs[0].Stopped && !runs[0].Finished.IsZero()
	})
	provision(t, "stop", "--config", f.ConfigFile(), "--cluster", "demo").says(t, exitUsage, "no run of demo")

	r, last := install(t, f)
	if r.status != exitDone || last["node-01"].State != "Maintenance" || last["node-01"].Run != begun.Run {
		t.Errorf("carried on: status %d, %+v; want run %s done", r.status, last["node-01"], begun.Run)
	}
	if n := m.BMC().PowerOns(); n != 1 {
		t.Errorf("powered on %d times, want 1", n)
	}
	for _, w := range watchers {
		w.await("the end, for each watcher", reaches("Maintenance", ""))
		if err := w.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if status := w.end(); status != exitDone {
			t.Errorf("a watcher ended with status %d", status)
		}
	}
}

// startTalking is startCommand that keeps what the process says on standard error.
func startTalking(t *testing.T, args ...string) (*process, *logBuffer) {
	t.Helper()
	cmd, said := exec.CommandContext(t.Context(), os.Args[0], args...), &logBuffer{}
	cmd.Env = append(os.Environ(), asProvision+"=1")
	cmd.Stderr = said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: cmd, events: make(chan store.Event, 1000)}
	go func() {
		defer close(p.events)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var e store.Event
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				t.Errorf("output line %q: %v", lines.Text(), err)
				return
			}
			p.events <- e
		}
	}()
	return p, said
}

// A client that watches sees the run to its end through a restart of the daemon.
func TestAWatchedRunIsSeenToItsEndThroughARestart(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*daemonProcess){
		"killed": (*daemonProcess).kill, "stopped": func(d *daemonProcess) { d.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, m := slowFleet(t)
			first := startDaemon(t, f)
			client, said := startTalking(t, "--config", f.ConfigFile(), "--cluster", "demo", "--yes", "-o", "json")
			client.await("the power-on", reaches("PowerCycled", ""))
			end(first)
			startDaemon(t, f)
			client.await("the end", reaches("Maintenance", ""))
			if status := client.end(); status != exitDone {
				t.Errorf("the client ended with status %d: %s", status, said)
			}
			if n := m.BMC().PowerOns(); n != 1 {
				t.Errorf("powered on %d times, want 1", n)
			}
		})
	}
}

func TestHoldsAreKeptByTheDaemon(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 3})
	startDaemon(t, f)
	at := func(args ...string) result { return provision(t, append(args, "--config", f.ConfigFile())...) }
	at("hold", "node-[02-03]", "--cluster", "demo", "--reason", "a disk is changed").says(t, exitDone, "node-02 is held", "node-03 is held")
	at("hold", "node-09", "--cluster", "demo", "--reason", "none").says(t, exitUsage, "node-09")
	at("hold", "--cluster", "demo").says(t, exitDone, "node-02", "node-03", "a disk is changed")
	r, last := install(t, f)
	if diff := cmp.Diff(map[string]string{"node-01": "Maintenance", "node-02": "Held", "node-03": "Held"}, states(last)); diff != "" || r.status != exitRefused {
		t.Errorf("status %d, states (-want +got):\n%s", r.status, diff)
	}
	untouched(t, f.Machines()[1], f.Machines()[2])
	at("release", "node-02", "--cluster", "demo").says(t, exitDone, "node-02 is released")
	at("release", "node-02", "--cluster", "demo").says(t, exitUsage, "nobody holds demo/node-02")
	if _, last := install(t, f); last["node-02"].State != "Maintenance" || last["node-03"].State != "Held" {
		t.Errorf("after the release: %v", states(last))
	}
	var events []store.Event
	for line := range strings.Lines(at("events", "--cluster", "demo", "-o", "json").out) {
		events = append(events, eventsOf(t, line)...)
	}
	seen := map[string]bool{}
	for _, e := range events {
		seen[e.Node+" "+e.State] = true
	}
	for _, want := range []string{"node-01 Maintenance", "node-02 Held", "node-02 Maintenance", "node-03 Held"} {
		if !seen[want] {
			t.Errorf("no event of %s among %v", want, slices.Sorted(maps.Keys(seen)))
		}
	}
}
