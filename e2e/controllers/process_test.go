package controllers_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/talos-provision/provision/provisioner/web"
)

// patience is how long anything may take on a machine that is busy otherwise.
const patience = time.Minute

// controller is a `provision serve` on a host of its own, as far as loopback goes:
// it has its own addresses and its own local folder.
type controller struct {
	t      *testing.T
	name   string
	config string
	local  string
	admin  *web.Client
	// prefix goes before the command, such as what enters a namespace.
	prefix []string

	process *exec.Cmd
	ended   <-chan struct{} // closed when the process has ended
}

// start runs the process. One that is killed can be started again.
func (c *controller) start() {
	c.t.Helper()
	binary, err := program()
	if err != nil {
		c.t.Fatal(err)
	}
	log, err := os.OpenFile(c.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	line := append(append([]string{}, c.prefix...), binary, "serve", "--config", c.config, "--log-level", "debug")
	c.process = exec.Command(line[0], line[1:]...) //nolint:noctx // kill ends it, at the latest with the test
	c.process.Stdout, c.process.Stderr = log, log
	c.process.Env = append(os.Environ(), "PROVISION_ADMIN_LISTEN=none") // the default port is one, and controllers are several
	if c.ended, err = launch(c.process); err != nil {
		c.t.Fatal(err)
	}
	_ = log.Close() // the process has its own
	c.t.Logf("%s is process %d", c.name, c.process.Process.Pid)
}

// launch starts a process that dies with this one; what it returns is closed when it
// has ended.
func launch(command *exec.Cmd) (<-chan struct{}, error) {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Pdeathsig = syscall.SIGKILL
	ended := make(chan struct{})
	started := make(chan error, 1)
	go func() {
		defer close(ended)
		// The thread that starts a child is its parent in the eyes of Pdeathsig.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait() // how it ends is the test's business
		}
	}()
	return ended, <-started
}

func (c *controller) logFile() string { return filepath.Join(c.local, "log") }

// log is what the controller wrote so far.
func (c *controller) log() string {
	text, err := os.ReadFile(c.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// signal sends a signal to the process.
func (c *controller) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.process.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Errorf("send %v to %s: %v", s, c.name, err)
	}
}

// kill ends the process at once, also when it is stopped.
func (c *controller) kill() {
	c.t.Helper()
	if c.process != nil {
		c.signal(syscall.SIGKILL)
		<-c.ended
	}
}

// running says whether the process has not ended.
func (c *controller) running() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// standing is what /readyz says of the site.
func (c *controller) standing() (leads bool, what string) {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
	defer cancel()
	health, err := c.admin.Ready(ctx)
	if err != nil {
		return false, err.Error()
	}
	for _, check := range health.Checks {
		if check.Name == "site" {
			return check.OK && health.OK, check.What
		}
	}
	return false, "it says nothing of its site"
}

// awaitLead returns when the controller is ready, which is when it leads its site.
func (c *controller) awaitLead() {
	c.t.Helper()
	await(c.t, c.name+" leads", func() bool {
		leads, _ := c.standing()
		return leads || !c.running()
	})
	if !c.running() {
		c.t.Fatalf("%s has ended:\n%s", c.name, c.log())
	}
}

// awaitStandby returns when /readyz says that another controller leads.
func (c *controller) awaitStandby() {
	c.t.Helper()
	await(c.t, c.name+" stands by", func() bool {
		leads, what := c.standing()
		return !leads && strings.Contains(what, "waits to lead the site")
	})
}

// run plans a run of a cluster and starts it, and returns its name.
func (c *controller) run(request web.RunRequest) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	answer, err := c.admin.Plan(ctx, request)
	if err != nil {
		c.t.Fatalf("plan at %s: %v", c.name, err)
	}
	request.Digest = answer.Digest
	info, err := c.admin.Start(ctx, request)
	if err != nil {
		c.t.Fatalf("start the run at %s: %v", c.name, err)
	}
	return info.ID
}

// await returns when the condition holds, and ends the test when it does not in time.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	if !holdsWithin(t.Context(), patience, condition) {
		t.Fatalf("not within %v: %s", patience, what)
	}
}

// holdsWithin looks again and again whether a condition holds.
func holdsWithin(ctx context.Context, limit time.Duration, condition func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return condition()
		}
	}
	return true
}
