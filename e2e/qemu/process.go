package qemu

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// Process is a child that somebody waits for.
type Process struct {
	process *os.Process
	done    chan struct{}
	err     error
}

// startProcess starts a command. The thread that starts a child is its parent
// in the eyes of the "parent died" signal, so it is kept until the child ends.
func startProcess(cmd *exec.Cmd) (*Process, error) {
	p := &Process{done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- fmt.Errorf("starting %s: %w", cmd, err)
			return
		}
		p.process = cmd.Process
		started <- nil
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// PID is the process id.
func (p *Process) PID() int { return p.process.Pid }

// Done is closed when the process has ended and was waited for.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end and returns how it ended, as exec.Cmd.Wait does.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Signal sends a signal to this process only. A process that has ended is no error.
func (p *Process) Signal(signal os.Signal) error {
	if err := p.process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signalling process %d: %w", p.process.Pid, err)
	}
	return nil
}

// Kill ends the process at once (SIGKILL) and waits until it is gone.
func (p *Process) Kill() error {
	if err := p.Signal(os.Kill); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Stop asks the process to end (SIGINT, as Ctrl-C does) and kills it after the
// grace time. It returns how the process ended.
func (p *Process) Stop(grace time.Duration) error {
	if err := p.Signal(os.Interrupt); err != nil {
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		if err := p.Kill(); err != nil {
			return err
		}
	}
	return p.Wait()
}
