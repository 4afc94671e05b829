package inventory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// passwordTimeout bounds a password command: a secret store that does not
// answer must not hold up a fleet.
const passwordTimeout = 10 * time.Second

// maxPasswordOutput bounds what is kept of a command's output, in bytes.
const maxPasswordOutput = 64 << 10

// RunPasswordCommand runs a program without a shell, for at most 10 seconds,
// and gives what it printed to standard output. What it prints to standard error is
// thrown away and its arguments are not repeated in errors: both may hold
// secrets (I9).
func RunPasswordCommand(ctx context.Context, argv []string) ([]byte, error) {
	return runFor(ctx, passwordTimeout, argv)
}

func runFor(ctx context.Context, limit time.Duration, argv []string) ([]byte, error) {
	if len(argv) == 0 {
		return nil, errors.New("passwordCommand is empty: give the program and its arguments")
	}
	timed, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var output bounded
	command := exec.CommandContext(timed, argv[0], argv[1:]...)
	command.Stdout = &output
	// A group of its own, so that what the program started ends with it.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = time.Second
	err := command.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("passwordCommand %s: %w", argv[0], ctx.Err())
	case timed.Err() != nil:
		return nil, fmt.Errorf("passwordCommand %s gave no answer within %v: run it by hand to see why", argv[0], limit)
	case errors.As(err, &exit):
		return nil, fmt.Errorf("passwordCommand %s: it failed with status %d: run it by hand to see why", argv[0], exit.ExitCode())
	case err != nil:
		return nil, fmt.Errorf("passwordCommand: %w: give a program that is installed here", err)
	}
	return output.kept.Bytes(), nil
}

// bounded keeps the beginning of what is written to it.
type bounded struct{ kept bytes.Buffer }

// Write takes everything, so that the program is not stopped by it.
func (b *bounded) Write(p []byte) (int, error) {
	if room := maxPasswordOutput - b.kept.Len(); room > 0 {
		_, _ = b.kept.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
