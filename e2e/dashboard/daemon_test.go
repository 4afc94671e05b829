package dashboard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/e2e/loopback"
	"github.com/talos-provision/provision/provisioner/web"
)

// The tokens of the daemons of these tests.
const (
	adminToken = "admin-token-of-the-tests"
	readToken  = "read-token-of-the-tests"
)

// program builds the real program, once.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "provision")
	build := exec.CommandContext(context.Background(), "go", "build", "-race", "-o", path, "../../cmd/provision")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return path, nil
})

// daemon is `provision serve` in a process of its own, for an emulated fleet.
type daemon struct {
	*web.Client
	t     *testing.T
	fleet *fleet.Fleet
	url   string // of its dashboard
	cmd   *exec.Cmd
	log   bytes.Buffer
	ended chan struct{}
}

// startDaemon starts a fleet and its daemon, and waits until it leads.
func startDaemon(t *testing.T, config fleet.Config) *daemon {
	t.Helper()
	config.Dir, config.Network = t.TempDir(), loopback.Reserve(t, 70, 79)
	f, err := fleet.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	host, _, err := net.SplitHostPort(f.Controller())
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, fleet: f, url: "http://" + net.JoinHostPort(host, "9090")}
	d.configure(host)
	if d.Client, err = web.NewClient(web.Endpoint{Socket: filepath.Join(config.Dir, "state", "run.sock")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	d.start()
	t.Cleanup(func() {
		d.stop()
		if t.Failed() {
			t.Logf("the daemon's log:\n%s", d.log.String())
		}
	})
	return d
}

// configure gives the daemon its dashboard and tokens.
func (d *daemon) configure(host string) {
	d.t.Helper()
	dir := filepath.Dir(d.fleet.ConfigFile())
	for name, token := range map[string]string{"admin-token": adminToken, "read-token": readToken} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(token+"\n"), 0o600); err != nil {
			d.t.Fatal(err)
		}
	}
	file, err := os.OpenFile(d.fleet.ConfigFile(), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		d.t.Fatal(err)
	}
	_, err = fmt.Fprintf(file, "admin:\n  listen: %s:9090\n  tokenFile: %s/admin-token\n  readTokenFile: %s/read-token\n", host, dir, dir)
	if err := errors.Join(err, file.Close()); err != nil {
		d.t.Fatal(err)
	}
}

// start starts the process, and waits until it leads.
func (d *daemon) start() {
	d.t.Helper()
	path, err := program()
	if err != nil {
		d.t.Fatal(err)
	}
	d.cmd = exec.CommandContext(context.WithoutCancel(d.t.Context()), path, "serve", "--config", d.fleet.ConfigFile(), "--log-level", "debug")
	d.log.Reset()
	d.cmd.Stdout, d.cmd.Stderr = &d.log, &d.log
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	cmd, ended := d.cmd, make(chan struct{})
	d.ended = ended
	go func() {
		defer close(ended)
		_ = cmd.Wait() // its status does not matter here
	}()
	deadline := time.After(patience)
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	for {
		if health, err := d.Ready(d.t.Context()); err == nil && health.OK {
			return
		}
		select {
		case <-tick.C:
		case <-ended:
			d.t.Fatalf("the daemon ended:\n%s", d.log.String())
		case <-deadline:
			d.t.Fatal("the daemon does not lead")
		}
	}
}

// stop ends the process as systemd does.
func (d *daemon) stop() {
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		d.t.Errorf("stop the daemon: %v", err)
	}
	select {
	case <-d.ended:
	case <-time.After(patience):
		d.t.Error("the daemon does not end")
		_ = d.cmd.Process.Kill()
		<-d.ended
	}
}

// begin has the daemon begin a run of the cluster demo.
func (d *daemon) begin() web.RunInfo {
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
