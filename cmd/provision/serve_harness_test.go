package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner/web"
)

// patience bounds every wait of these tests: one that needs it has failed.
const patience = time.Minute

// daemonProcess is `provision serve` in a process of its own.
type daemonProcess struct {
	*web.Client
	t     *testing.T
	cmd   *exec.Cmd
	log   *logBuffer
	ended chan struct{} // closed when the process has ended
}

// startDaemon starts the daemon of a fleet and waits until it leads.
func startDaemon(t *testing.T, f *fleet.Fleet) *daemonProcess {
	t.Helper()
	d := launchDaemon(t, f)
	d.until("the daemon to lead", func() bool {
		health, err := d.Ready(t.Context())
		return err == nil && health.OK
	})
	return d
}

// launchDaemon starts the daemon of a fleet, which ends with the test.
func launchDaemon(t *testing.T, f *fleet.Fleet, env ...string) *daemonProcess {
	t.Helper()
	client, err := web.NewClient(web.Endpoint{Socket: filepath.Join(folderOf(f), "state", "run.sock")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "serve", "--config", f.ConfigFile(), "--log-level", "debug")
	cmd.Env = slices.Concat(os.Environ(), env, []string{asProvision + "=1"})
	if text, err := os.ReadFile(f.ConfigFile()); err != nil {
		t.Fatal(err)
	} else if !strings.Contains(string(text), "\nadmin:") {
		cmd.Env = append(cmd.Env, "PROVISION_ADMIN_LISTEN=none") // the default port is one, and tests are many
	}
	d := &daemonProcess{Client: client, t: t, cmd: cmd, log: &logBuffer{}, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = d.log, d.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(d.ended)
		_ = cmd.Wait() // its status is in ProcessState
	}()
	t.Cleanup(func() {
		if status := d.stop(); status != exitDone && status != -1 {
			t.Errorf("the daemon ended with status %d", status)
		}
		if t.Failed() {
			t.Logf("the daemon's log:\n%s", d.log)
		}
	})
	return d
}

// stop ends the daemon as systemd does, and returns its exit status; -1 when it was killed.
func (d *daemonProcess) stop() int {
	d.t.Helper()
	d.signal(syscall.SIGTERM)
	return d.end()
}

// kill ends the daemon without a word.
func (d *daemonProcess) kill() {
	d.t.Helper()
	d.signal(syscall.SIGKILL)
	d.end()
}

func (d *daemonProcess) signal(s os.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		d.t.Errorf("signal the daemon: %v", err)
	}
}

func (d *daemonProcess) end() int {
	d.t.Helper()
	select {
	case <-d.ended:
	case <-time.After(patience):
		d.t.Error("the daemon does not end")
		_ = d.cmd.Process.Kill()
		<-d.ended
	}
	return d.cmd.ProcessState.ExitCode()
}

// until waits for what no event announces.
func (d *daemonProcess) until(what string, holds func() bool) {
	d.t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-d.ended:
			d.t.Fatalf("the daemon ended while a test waited for %s:\n%s", what, d.log)
		case <-deadline:
			d.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// stays checks that something holds for longer than the daemon takes to look for work.
func (d *daemonProcess) stays(what string, holds func() bool) {
	d.t.Helper()
	enough := time.After(2500 * time.Millisecond)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if !holds() {
			d.t.Errorf("it does not stay so: %s", what)
			return
		}
		select {
		case <-tick.C:
		case <-enough:
			return
		}
	}
}

// says waits for a text in the daemon's log, from a place on, and returns the place behind it.
func (d *daemonProcess) says(from int, text string) int {
	d.t.Helper()
	at := -1
	d.until("the log to say "+text, func() bool {
		at = strings.Index(d.log.String()[from:], text)
		return at >= 0
	})
	return from + at + len(text)
}

// reload sends SIGHUP and returns what the log says of it.
func (d *daemonProcess) reload() string {
	d.t.Helper()
	from := len(d.log.String())
	d.signal(syscall.SIGHUP)
	d.until("the reload", func() bool {
		return strings.Contains(d.log.String()[from:], "the configuration was reloaded") ||
			strings.Contains(d.log.String()[from:], "the configuration is not reloaded")
	})
	return d.log.String()[from:]
}

// inventory is the generation in use.
func (d *daemonProcess) inventory() web.InventoryInfo {
	d.t.Helper()
	info, err := d.Inventory(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	return info
}

// afterEdit changes files of the inventory, and waits until the daemon uses what came of it.
func (d *daemonProcess) afterEdit(change func()) {
	d.t.Helper()
	before := d.inventory().Generation
	change()
	d.until("a new generation of the inventory", func() bool { return d.inventory().Generation != before })
}

// runs are the runs that the daemon knows.
func (d *daemonProcess) runs() []web.RunInfo {
	d.t.Helper()
	runs, err := d.Runs(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	return runs
}

// finished waits for a run that is not one of these to end, and returns it.
func (d *daemonProcess) finished(known ...string) web.RunInfo {
	d.t.Helper()
	var run web.RunInfo
	d.until("a run to end", func() bool {
		for _, r := range d.runs() {
			if !r.Finished.IsZero() && !slices.Contains(known, r.ID) {
				run = r
				return true
			}
		}
		return false
	})
	return run
}

// node is the state of a node as the daemon has it; "" for none.
func (d *daemonProcess) node(name string) string {
	d.t.Helper()
	nodes, err := d.Nodes(d.t.Context(), "")
	if err != nil {
		d.t.Fatal(err)
	}
	for _, n := range nodes {
		if n.Name == name {
			return n.State
		}
	}
	return ""
}

// watch gives the daemon's events from now on, each as it comes.
func (d *daemonProcess) watch() <-chan web.Event {
	d.t.Helper()
	ctx, cancel := context.WithCancel(d.t.Context())
	events, done := make(chan web.Event, 10_000), make(chan struct{})
	go func() {
		defer close(done)
		_ = d.StreamEvents(ctx, web.StreamOptions{Follow: true}, func(e web.Event) error {
			events <- e
			return nil
		})
	}()
	d.t.Cleanup(func() {
		cancel()
		<-done
	})
	return events
}

// await takes events until one is as wanted.
func await(t *testing.T, events <-chan web.Event, what string, wanted func(web.Event) bool) web.Event {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case e := <-events:
			if wanted(e) {
				return e
			}
		case <-deadline:
			t.Fatalf("no event came: %s", what)
		}
	}
}

// in says that a node comes to a state, with a message if one is given.
func in(node, state, message string) func(web.Event) bool {
	return func(e web.Event) bool {
		return e.Node == node && e.State == state && (message == "" || e.Message == message)
	}
}

// begin has the daemon begin a run of the cluster demo, as the command line does.
func (d *daemonProcess) begin() web.RunInfo {
	d.t.Helper()
	r := web.RunRequest{Cluster: "demo"}
	answer, err := d.Plan(d.t.Context(), r)
	if err != nil {
		d.t.Fatal(err)
	}
	r.Digest = answer.Digest
	info, err := d.Start(d.t.Context(), r)
	if err != nil {
		d.t.Fatal(err)
	}
	return info
}

func folderOf(f *fleet.Fleet) string { return filepath.Dir(f.ConfigFile()) }
