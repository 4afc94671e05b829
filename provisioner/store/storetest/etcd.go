// Package storetest runs what tests of a shared state need: a real etcd on
// loopback that can be stopped, paused and killed, and a look at all the bytes
// that a state consists of.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/talos-provision/provision/e2e/needs"
)

// Etcd is a running etcd of one member. It ends with the test, and with the process.
type Etcd struct {
	t       testing.TB // nil for a TestMain's
	program string
	dir     string
	// endpoint and peer are host:port.
	endpoint, peer string
	// Certificates is nil without TLS.
	Certificates *Certificates
	command      *exec.Cmd
	ended        chan struct{}
}

// Option changes how an etcd is started.
type Option func(*settings)

type settings struct {
	address string
	tls     bool
	dir     string
}

// Listen has etcd listen on an address of loopback, in place of 127.0.0.1.
func Listen(address string) Option { return func(s *settings) { s.address = address } }

// Dir has etcd keep its data in a folder, which then outlives the test.
func Dir(dir string) Option { return func(s *settings) { s.dir = dir } }

// TLS has etcd speak TLS, and want certificates of its clients: Etcd.Certificates.
func TLS() Option { return func(s *settings) { s.tls = true } }

// startTimeout is how long etcd may take to answer on a loaded machine.
const startTimeout = 30 * time.Second

// StartEtcd starts an etcd that does not wait for the disk, and returns its
// host:port: the state is etcd://host:port. Where there is no etcd the test is
// skipped, or fails under E2E=required.
func StartEtcd(t testing.TB, options ...Option) (endpoint string, etcd *Etcd) {
	t.Helper()
	s := settings{address: "127.0.0.1"}
	for _, o := range options {
		o(&s)
	}
	if s.dir == "" {
		s.dir = t.TempDir()
	}
	program, err := find()
	if err != nil {
		needs.Lacking(t, "%v", err)
	}
	e, err := launch(t.Context(), program, s)
	if err != nil {
		t.Fatal(err)
	}
	e.t = t
	t.Cleanup(e.Kill)
	return e.endpoint, e
}

// Launch is StartEtcd for a TestMain, which has no test to end with: the caller
// kills the etcd. ErrNoEtcd says that the host has none.
func Launch(ctx context.Context, dir string) (endpoint string, etcd *Etcd, err error) {
	program, err := find()
	if err != nil {
		return "", nil, err
	}
	e, err := launch(ctx, program, settings{address: "127.0.0.1", dir: dir})
	if err != nil {
		return "", nil, err
	}
	return e.endpoint, e, nil
}

func launch(ctx context.Context, program string, s settings) (*Etcd, error) {
	e := &Etcd{program: program, dir: s.dir}
	var err error
	if s.tls {
		if e.Certificates, err = makeCertificates(s.dir, s.address); err != nil {
			return nil, fmt.Errorf("make certificates for etcd: %w", err)
		}
	}
	const attempts = 3 // a free port may be taken before etcd has it
	for range attempts {
		if e.endpoint, e.peer, err = freePorts(ctx, s.address); err != nil {
			continue
		}
		if err = e.start(); err == nil {
			return e, nil
		}
		e.Kill()
	}
	return nil, fmt.Errorf("start etcd: %w", err)
}

// ErrNoEtcd is returned where the host has no etcd.
var ErrNoEtcd = errors.New("etcd is missing: run e2e/deps.sh")

// find looks where e2e/deps.sh puts etcd, and then in the path.
func find() (string, error) {
	if cache, err := os.UserCacheDir(); err == nil {
		program := filepath.Join(cache, "talos-provision", "etcd", "usr", "bin", "etcd")
		if _, err := os.Stat(program); err == nil {
			return program, nil
		}
	}
	program, err := exec.LookPath("etcd")
	if err != nil {
		return "", ErrNoEtcd
	}
	return program, nil
}

func freePorts(ctx context.Context, address string) (client, peer string, err error) {
	var hosts [2]string
	for i := range hosts {
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(address, "0"))
		if err != nil {
			return "", "", err
		}
		defer func() { _ = l.Close() }()
		hosts[i] = l.Addr().String()
	}
	return hosts[0], hosts[1], nil
}

// start runs the program and waits until it answers. The thread that starts a child
// is its parent in the eyes of Pdeathsig, so it is kept until the child ends.
func (e *Etcd) start() error {
	url, peer := "http://"+e.endpoint, "http://"+e.peer
	out, err := os.OpenFile(filepath.Join(e.dir, "etcd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	args := []string{"--data-dir", filepath.Join(e.dir, "data"), "--unsafe-no-fsync"}
	if c := e.Certificates; c != nil {
		url = "https://" + e.endpoint
		args = append(args, "--client-cert-auth", "--trusted-ca-file", c.CAFile, "--cert-file", c.CertFile, "--key-file", c.KeyFile)
	}
	args = append(args,
		"--listen-client-urls", url, "--advertise-client-urls", url,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	e.command = exec.Command(e.program, args...) //nolint:noctx // Kill ends it
	e.command.Stdout, e.command.Stderr = out, out
	e.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	e.ended = make(chan struct{})
	started := make(chan error, 1)
	go func(command *exec.Cmd, ended chan struct{}) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer func() { _ = out.Close() }()
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait() // how it ends is the test's business
		}
		close(ended)
	}(e.command, e.ended)
	if err := <-started; err != nil {
		return err
	}
	return e.awaitHealth(url)
}

func (e *Etcd) awaitHealth(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	if e.Certificates != nil {
		var err error
		if transport.TLSClientConfig, err = e.Certificates.config(); err != nil {
			return err
		}
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if healthy(ctx, &http.Client{Transport: transport}, url+"/health") {
			return nil
		}
		select {
		case <-tick.C:
		case <-e.ended:
			return fmt.Errorf("etcd has ended: look into %s", filepath.Join(e.dir, "etcd.log"))
		case <-ctx.Done():
			return fmt.Errorf("etcd is not healthy after %v", startTimeout)
		}
	}
}

func healthy(ctx context.Context, client *http.Client, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode == http.StatusOK
}

// Pause stops etcd in the middle of whatever it does (SIGSTOP): connections stay
// open and nobody answers.
func (e *Etcd) Pause() { e.signal(syscall.SIGSTOP) }

// Resume lets it go on.
func (e *Etcd) Resume() { e.signal(syscall.SIGCONT) }

// Kill ends it at once, also when it is paused; its data stay.
func (e *Etcd) Kill() { e.end(syscall.SIGKILL) }

// Stop ends it politely; its data stay.
func (e *Etcd) Stop() { e.end(syscall.SIGTERM) }

// Start starts it again, at the same address and with its data.
func (e *Etcd) Start() {
	if err := e.start(); err != nil && e.t != nil {
		e.t.Helper()
		e.t.Fatalf("start etcd again: %v", err)
	}
}

func (e *Etcd) signal(s syscall.Signal) {
	if e.command == nil || e.command.Process == nil {
		return
	}
	if err := e.command.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) && e.t != nil {
		e.t.Errorf("send %v to etcd, process %s: %v", s, strconv.Itoa(e.command.Process.Pid), err)
	}
}

func (e *Etcd) end(s syscall.Signal) {
	if e.command == nil || e.command.Process == nil {
		return
	}
	e.signal(s)
	<-e.ended
}
