package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// guard is a small process that puts the terminal back in order when this one ends
// without doing so: by a panic anywhere in it, or by a signal that kills.
type guard struct {
	pipe *os.File // what the guard reads: how the terminal was, then a last word
	cmd  *exec.Cmd
	once sync.Once
}

const (
	guardCommandName = "guard-terminal"
	// guardDone is the last word of a process that leaves its terminal in order.
	guardDone = "\x00done"
	// guardTimeout is how long the guard may take to end.
	guardTimeout = 2 * time.Second
	// maxCrash bounds what the guard tells of a crash at once, in bytes.
	maxCrash = 64 << 10
)

// startGuard starts the guard of a terminal as it is now. A nil guard guards nothing:
// a board is no worse than without it.
func startGuard(ctx context.Context, terminal *os.File, log *slog.Logger) *guard {
	g, err := newGuard(ctx, terminal)
	if err != nil {
		log.Debug("the terminal is not guarded: type `reset` if it is not in order after a crash", "error", err)
		return nil
	}
	return g
}

func newGuard(ctx context.Context, terminal *os.File) (*guard, error) {
	state, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = read.Close() }()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, guardCommandName)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = read, terminal, os.Stderr
	err = cmd.Start()
	if err == nil {
		err = errors.Join(json.NewEncoder(write).Encode(state), debug.SetCrashOutput(write, debug.CrashOptions{}))
	}
	g := &guard{pipe: write, cmd: cmd}
	if err != nil {
		_ = write.Close()
		return nil, err
	}
	return g, nil
}

// release tells the guard that the terminal is in order.
func (g *guard) release() { g.end(guardDone) }

// restore has the guard put the terminal in order.
func (g *guard) restore() { g.end("") }

func (g *guard) end(word string) {
	if g == nil {
		return
	}
	g.once.Do(func() {
		_, _ = io.WriteString(g.pipe, word)
		_ = debug.SetCrashOutput(nil, debug.CrashOptions{})
		_ = g.pipe.Close()
		kill := time.AfterFunc(guardTimeout, func() { _ = g.cmd.Process.Kill() })
		defer kill.Stop()
		_ = g.cmd.Wait()
	})
}

func guardCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    guardCommandName,
		Short:  "Put the terminal in order when a run with a board is killed (used by the program itself)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			// Nothing that ends the guarded process ends the guard before it.
			signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGTTOU, syscall.SIGPIPE)
			return watchOver(a.in, terminalOf(a.out), a.errOut)
		},
	}
}

// asBefore has a terminal leave all that a board uses: synchronised and alternate screen, hidden
// cursor, marked pastes, reported keys, colours.
const asBefore = "\x1b[?2026l\x1b[<1u\x1b[>4m\x1b[?1049l\x1b[?2004l\x1b[?2027l\x1b[?25h\x1b[0m\r"

// watchOver waits for the end of the guarded process, which writes to in.
func watchOver(in io.Reader, terminal *os.File, errOut io.Writer) error {
	words := bufio.NewReader(in)
	first, err := words.ReadBytes('\n')
	if err != nil || terminal == nil {
		return nil //nolint:nilerr // it ended before it began
	}
	var state unix.Termios
	if err := json.Unmarshal(first, &state); err != nil {
		return err
	}
	last := readSome(words)
	if string(last) == guardDone {
		return nil
	}
	_, err = io.WriteString(terminal, asBefore)
	err = errors.Join(err, unix.IoctlSetTermios(int(terminal.Fd()), unix.TCSETSF, &state))
	if len(last) > 0 && terminalOf(errOut) != nil {
		// A crash began to be told on the board's screen, which is gone. What follows is told by the
		// crashing process itself, on the screen that is there now.
		_, _ = errOut.Write(append(last, readSome(words)...))
	}
	_, _ = io.Copy(io.Discard, words) // a crash is told to its end only while somebody reads
	return err
}

// readSome waits for something to read, or for the end, and returns what there is.
func readSome(words *bufio.Reader) []byte {
	text := make([]byte, maxCrash)
	n, _ := words.Read(text)
	return text[:n]
}
