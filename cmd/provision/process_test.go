package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner/store"
)

// process is a run of the real program, in a process of its own.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	events chan store.Event // closed when the process closes its output
}

func startProcess(t *testing.T, f *fleet.Fleet) *process {
	t.Helper()
	return startProcessOn(t, f, "demo")
}

// startProcessOn is startProcess for a cluster of any name.
func startProcessOn(t *testing.T, f *fleet.Fleet, cluster string) *process {
	t.Helper()
	return startCommand(t, "--config", f.ConfigFile(), "--cluster", cluster, "--yes", "-o", "json")
}

// startCommand is any command line whose output are events.
func startCommand(t *testing.T, args ...string) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProvision+"=1")
	cmd.Stderr = os.Stderr
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
	return p
}

// await returns the first event that the predicate takes.
func (p *process) await(what string, take func(store.Event) bool) store.Event {
	p.t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case e, open := <-p.events:
			if !open {
				p.t.Fatalf("the process ended before %s", what)
			}
			if take(e) {
				return e
			}
		case <-deadline:
			p.t.Fatalf("no %s within a minute", what)
		}
	}
}

// end waits for the process and returns its exit status, -1 when a signal ended it.
func (p *process) end() int {
	p.t.Helper()
	for range p.events {
	}
	var exit *exec.ExitError
	if err := p.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

func reaches(state, message string) func(store.Event) bool {
	return func(e store.Event) bool { return e.State == state && (message == "" || e.Message == message) }
}

// I8: wherever the controller is killed, the run started again finishes it, and
// the machine was power cycled once.
func TestI8AKilledRunGoesOnWithoutAnotherPowerCycle(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(store.Event) bool{
		"while armed":         reaches("Armed", ""),
		"while powering off":  reaches("Armed", "powering off"),
		"while off":           reaches("Armed", "is off"),
		"while powering on":   reaches("Armed", "powering on"),
		"after power cycling": reaches("PowerCycled", ""),
		"while booting":       reaches("Booting", ""),
		"when up":             reaches("Maintenance", ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFleet(t, fleet.Config{Nodes: 1, PowerLag: 200 * time.Millisecond, POST: 500 * time.Millisecond, KernelTime: 500 * time.Millisecond})
			first := startProcess(t, f)
			first.await(name, at)
			if err := first.cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if status := first.end(); status != -1 {
				t.Fatalf("the killed process ended with status %d", status)
			}
			second := startProcess(t, f)
			second.await("Maintenance", reaches("Maintenance", ""))
			if status := second.end(); status != exitDone {
				t.Errorf("status %d after the restart, want %d", status, exitDone)
			}
			m := f.Machines()[0]
			if n := m.BMC().PowerOns(); n != 1 {
				t.Errorf("powered on %d times, want 1; resets %v", n, m.BMC().Resets())
			}
		})
	}
}

// Ctrl-C ends a run cleanly: no BMC session stays open, no machine stays off,
// and the run can be carried on.
func TestCtrlCLeavesNoSessionAndNoMachineOff(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(store.Event) bool{
		"while armed":        reaches("Armed", ""),
		"while powering off": reaches("Armed", "powering off"),
		"while booting":      reaches("PowerCycled", ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFleet(t, fleet.Config{Nodes: 1, PowerLag: 200 * time.Millisecond, POST: 6 * time.Second})
			m := f.Machines()[0]
			first := startProcess(t, f)
			first.await(name, at)
			if err := first.cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			if status := first.end(); status != exitInterrupted {
				t.Errorf("status %d, want %d", status, exitInterrupted)
			}
			noSessions(t, f)
			if resets := m.BMC().Resets(); len(resets) > 0 && !m.Powered() {
				t.Errorf("the machine was left off after %v", resets)
			}
			second := startProcess(t, f)
			second.await("Maintenance", reaches("Maintenance", ""))
			if status := second.end(); status != exitDone {
				t.Errorf("status %d after the restart, want %d", status, exitDone)
			}
			if n := m.BMC().PowerOns(); n != 1 {
				t.Errorf("powered on %d times, want 1", n)
			}
		})
	}
}

func TestStatusSeesARunWhileItLastsAndAfterIt(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 2, POST: 4 * time.Second})
	run := startProcess(t, f)
	run.await("the power cycle", reaches("PowerCycled", ""))
	during := status(t, f)
	if len(during) != 2 || during["node-01"] == "" || during["node-01"] == "Maintenance" {
		t.Errorf("during the run: %v, want both nodes on their way", during)
	}
	if got := run.end(); got != exitDone {
		t.Errorf("the run ended with status %d", got)
	}
	want := map[string]string{"node-01": "Maintenance", "node-02": "Maintenance"}
	if after := status(t, f); !maps.Equal(after, want) {
		t.Errorf("after the run: %v, want %v", after, want)
	}
}

// status is what `provision status -o json` shows: node to state.
func status(t *testing.T, f *fleet.Fleet, args ...string) map[string]string {
	t.Helper()
	r := provision(t, append([]string{"status", "--config", f.ConfigFile(), "--cluster", "demo", "-o", "json"}, args...)...)
	if r.status != exitDone {
		t.Fatalf("status ended with %d: %s", r.status, r.err)
	}
	var nodes []store.Node
	if err := json.Unmarshal([]byte(r.out), &nodes); err != nil {
		t.Fatal(err)
	}
	states := map[string]string{}
	for _, n := range nodes {
		states[n.Name] = n.State
	}
	return states
}
