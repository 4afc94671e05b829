package kubeapi

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// process is a program that ends with us.
type process struct {
	log     string
	command *exec.Cmd
	done    chan struct{}
	err     error // how it ended, once done is closed
}

// grace is how long a program may take to end.
const grace = 20 * time.Second

// start runs a program with its output in a file. The thread that starts a child
// is its parent in the eyes of Pdeathsig, so it is kept until the child ends.
func start(dir, program string, args ...string) (*process, error) {
	p := &process{log: filepath.Join(dir, filepath.Base(program)+".log"), done: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, fmt.Errorf("make a log: %w", err)
	}
	p.command = exec.Command(program, args...) //nolint:noctx // it is stopped by stop
	p.command.Dir, p.command.Stdout, p.command.Stderr = dir, out, out
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer func() { _ = out.Close() }()
		err := p.command.Start()
		started <- err
		if err == nil {
			p.err = p.command.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return p, nil
}

// stop ends it, at first politely. One that never began is no error.
func (p *process) stop() error {
	if p == nil {
		return nil
	}
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.command.Path, err)
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = p.command.Process.Kill()
		<-p.done
	}
	return nil
}
