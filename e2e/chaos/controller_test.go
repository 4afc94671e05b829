package chaos_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/provisioner/web"
)

// endurance is how long the last controller may take to finish.
const endurance = 10 * time.Minute

// controller is a way to work on a fleet that can be killed.
type controller interface {
	// start starts a process, which goes on where the one before was killed.
	start()
	// ended says whether the work was finished within that time.
	ended(within time.Duration) bool
	kill()
	// finish waits until the work is finished, and ends the process.
	finish()
	output() string
}

// command is `provision --cluster demo`, which is given again after each kill.
type command struct {
	t       *testing.T
	program string
	args    []string
	cmd     *exec.Cmd
	log     *bytes.Buffer
	done    chan struct{} // closed when the process has ended
}

func newCommand(t *testing.T, program string, f *fleet.Fleet) controller {
	t.Helper()
	return &command{t: t, program: program, args: []string{"--config", f.ConfigFile(), "--cluster", "demo", "--yes"}}
}

func (c *command) start() {
	c.t.Helper()
	c.cmd = exec.CommandContext(c.t.Context(), c.program, c.args...)
	c.cmd.Env = append(os.Environ(), "PROVISION_ADMIN_LISTEN=none") // the default port may be anybody's
	c.log = &bytes.Buffer{}
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	cmd, done := c.cmd, make(chan struct{})
	c.done = done
	go func() {
		defer close(done)
		_ = cmd.Wait()
	}()
}

func (c *command) ended(within time.Duration) bool {
	select {
	case <-c.done:
		return true
	case <-time.After(within):
		return false
	}
}

func (c *command) kill() {
	_ = c.cmd.Process.Kill()
	<-c.done
}

// finish waits for the end. That nodes failed is what was asked for: exit status 1.
func (c *command) finish() {
	c.t.Helper()
	if !c.ended(endurance) {
		c.kill()
		c.t.Fatalf("the last run has not ended within %s:\n%s", endurance, c.output())
	}
	if status := c.cmd.ProcessState.ExitCode(); status != 1 {
		c.t.Errorf("the last run ended with status %d, want 1: some nodes of this fleet must fail", status)
	}
}

// output is the end of what the process said; it has ended.
func (c *command) output() string {
	const most = 6000
	text := c.log.String()
	return text[max(0, len(text)-most):]
}

// service is `provision serve`: the run is asked for once, and every further
// daemon goes on with it by itself.
type service struct {
	command
	client *web.Client
	asked  bool
}

func newDaemon(t *testing.T, program string, f *fleet.Fleet) controller {
	t.Helper()
	// Of the socket's path at most 107 bytes count: the fleet's folder may be long.
	client, err := web.NewClient(web.Endpoint{Socket: filepath.Join(filepath.Dir(f.ConfigFile()), "state", "run.sock")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &service{
		command: command{t: t, program: program, args: []string{"serve", "--config", f.ConfigFile()}},
		client:  client,
	}
}

func (s *service) start() {
	s.t.Helper()
	s.command.start()
	if s.asked {
		return
	}
	// Until a daemon lives long enough to have begun the run, it is asked for again.
	ctx, cancel := context.WithTimeout(s.t.Context(), endurance)
	defer cancel()
	for !s.command.ended(100 * time.Millisecond) {
		answer, err := s.client.Plan(ctx, web.RunRequest{Cluster: "demo"})
		if err != nil {
			continue // it does not lead yet
		}
		if _, err := s.client.Start(ctx, web.RunRequest{Cluster: "demo", Digest: answer.Digest}); err == nil {
			s.asked = true
			return
		}
	}
	s.t.Fatalf("the daemon ended by itself:\n%s", s.output())
}

// ended says whether the daemon has finished the run within that time.
func (s *service) ended(within time.Duration) bool {
	ctx, cancel := context.WithTimeout(s.t.Context(), within)
	defer cancel()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-s.done:
			return true // which finish reports
		case <-poll.C:
		}
		runs, err := s.client.Runs(ctx)
		if err == nil && len(runs) > 0 && !runs[0].Finished.IsZero() {
			return true
		}
	}
}

// finish waits for the end of the run, and ends the daemon.
func (s *service) finish() {
	s.t.Helper()
	if !s.ended(endurance) {
		s.kill()
		s.t.Fatalf("the run has not ended within %s:\n%s", endurance, s.output())
	}
	select {
	case <-s.done:
		s.t.Fatalf("the daemon ended by itself:\n%s", s.output())
	default:
		s.kill()
	}
}
