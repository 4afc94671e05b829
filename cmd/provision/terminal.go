package main

import (
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminalOf is the terminal that a reader or writer is; nil when it is none.
func terminalOf(stream any) *os.File {
	if f, isFile := stream.(*os.File); isFile && isTerminal(f) {
		return f
	}
	return nil
}

// boardable says whether a person looks at a terminal that can show a board.
func (a *app) boardable() bool {
	out := terminalOf(a.out)
	return out != nil && !a.flags.noTUI && os.Getenv("CI") == "" && ableTerm(os.Getenv("TERM")) && inForeground(out)
}

func ableTerm(term string) bool { return term != "" && term != "dumb" }

// inForeground says whether the terminal is this process's at the moment. A job in
// the background that changed it would be stopped.
func inForeground(terminal *os.File) bool {
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// speaksUTF8 says whether the locale has more than ASCII.
func speaksUTF8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToLower(os.Getenv(name)); locale != "" {
			return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
		}
	}
	return false
}

// outliveTerminal has this process go on when its terminal goes away, or the program
// that reads its output: the machines that it works on need it.
func outliveTerminal() (end func()) {
	gone := make(chan os.Signal, 1) // nobody reads it: it is enough that the signals do nothing else
	signal.Notify(gone, syscall.SIGHUP, syscall.SIGPIPE)
	return func() { signal.Stop(gone) }
}

// endAtOnce is what a second Ctrl-C does without a board: it kills this process.
func endAtOnce() {
	signal.Reset(os.Interrupt)
	_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
}
