package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/e2e/needs"
	"github.com/talos-provision/provision/provisioner/store"
)

// window is a terminal with a shell in it, in which the real program is run.
type window struct {
	t      *testing.T
	dir    string
	before string // the settings of its terminal before anything was run
}

// openWindow opens a terminal of that type and size.
func openWindow(t *testing.T, term string, width, height int) *window {
	t.Helper()
	needs.Program(t, "tmux")
	dir, err := os.MkdirTemp("", "tmux") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	w := &window{t: t, dir: dir}
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := w.tmux("capture-pane", "-p")
			t.Logf("the screen at the end:\n%s", out)
		}
		w.killChildren() // a run outlives its terminal
		_, _ = w.tmux("kill-server")
		_ = os.RemoveAll(dir)
	})
	writeFile(t, filepath.Join(dir, "conf"), "set -g default-terminal "+term+"\nset -g status off\n")
	w.must("new-session", "-d", "-x", strconv.Itoa(width), "-y", strconv.Itoa(height), "env", "-u", "CI", "-u", "NO_COLOR", "LANG=C.UTF-8", "LC_ALL=", "PS1=$ ", asProvision+"=1", "sh")
	w.must("pipe-pane", "cat >"+w.raw())
	w.await("$") // until the shell is there, tmux still sets its terminal up
	w.before = w.settings()
	return w
}

func (w *window) raw() string { return filepath.Join(w.dir, "raw") }

// written is all that was written to the terminal so far.
func (w *window) written() string {
	w.t.Helper()
	text, err := os.ReadFile(w.raw())
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

func (w *window) tmux(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second) // also in the clean-up
	defer cancel()
	args = append([]string{"-u", "-S", filepath.Join(w.dir, "s"), "-f", filepath.Join(w.dir, "conf")}, args...)
	out, err := exec.CommandContext(ctx, "tmux", args...).CombinedOutput()
	return string(out), err
}

func (w *window) must(args ...string) string {
	w.t.Helper()
	out, err := w.tmux(args...)
	if err != nil {
		w.t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return out
}

// run types a command line; its exit status is told as "status=N".
func (w *window) run(before string, args ...string) {
	w.t.Helper()
	w.must("send-keys", "-l", before+os.Args[0]+" "+strings.Join(args, " ")+"; echo status=$?")
	w.press("Enter")
}

func (w *window) press(keys ...string) {
	w.t.Helper()
	w.must(append([]string{"send-keys"}, keys...)...)
}

func (w *window) screen() string { w.t.Helper(); return w.must("capture-pane", "-p") }

// await waits until the screen has all the texts.
func (w *window) await(texts ...string) string {
	w.t.Helper()
	return w.awaitThat("the screen shows "+strings.Join(texts, " and "), func(screen string) bool {
		screen += w.must("capture-pane", "-p", "-J") // once more, with lines that were too long in one
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	})
}

func (w *window) awaitThat(what string, is func(screen string) bool) string {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if screen := w.screen(); is(screen) {
			return screen
		}
	}
	w.t.Fatalf("not within a minute: %s; the screen:\n%s", what, w.screen())
	return ""
}

// settings are those of the terminal, as `stty` tells them, and its modes.
func (w *window) settings() string {
	w.t.Helper()
	tty := strings.TrimSpace(w.must("display-message", "-p", "#{pane_tty}"))
	out, err := exec.CommandContext(w.t.Context(), "stty", "-g", "-F", tty).CombinedOutput()
	if err != nil {
		w.t.Fatalf("stty: %v: %s", err, out)
	}
	return string(out) + w.must("display-message", "-p", "alternate=#{alternate_on} cursor=#{cursor_flag}")
}

// isSane fails the test when the terminal is not as it was before.
func (w *window) isSane() {
	w.t.Helper()
	if got := w.settings(); got != w.before {
		w.t.Errorf("the terminal is left as %q, and was %q", got, w.before)
	}
	w.must("send-keys", "-l", "echo typed-$((40+2))")
	w.await("echo typed-$((40+2))") // it echoes
	w.press("Enter")
	w.await("typed-42")
}

// process is the id of the program that runs in the window.
func (w *window) process() int {
	w.t.Helper()
	children := w.children()
	if len(children) == 0 {
		w.t.Fatal("the shell has no child")
	}
	return children[0]
}

// children are the programs that run in the window, none when it is gone.
func (w *window) children() (pids []int) {
	out, _ := w.tmux("display-message", "-p", "#{pane_pid}")
	shell := strings.TrimSpace(out)
	text, _ := os.ReadFile("/proc/" + shell + "/task/" + shell + "/children")
	for field := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (w *window) killChildren() {
	for _, pid := range w.children() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// slow is a fleet whose machines take their time, so that there is something to watch.
func slow(t *testing.T, nodes int) *fleet.Fleet {
	t.Helper()
	return startFleet(t, fleet.Config{Nodes: nodes, POST: 12 * time.Second})
}

// stuck is a fleet of three, the last of which never boots: a run on it goes on until it is ended.
func stuck(t *testing.T) *fleet.Fleet {
	t.Helper()
	return startFleet(t, fleet.Config{Nodes: 3, BootTimeout: 10 * time.Minute, Adjust: func(m *fleet.Machine) { m.Mute = m.Name == "node-03" }})
}

func TestTheBoardShowsARunAndAnswersKeys(t *testing.T) {
	t.Parallel()
	f := stuck(t)
	w := openWindow(t, "screen-256color", 100, 24)
	w.run("", "--config", f.ConfigFile(), "--cluster", "demo")
	w.await("Go on? Type yes:") // before the board
	w.press("yes", "Enter")
	w.await("of demo", "3 nodes:", "2 Maintenance", "> ", "node-01", "node-03", "PowerCycled", "? help")
	w.press("/", "o", "d", "e", "-", "0", "2", "Enter")
	w.awaitThat("only node-02 is shown", func(s string) bool {
		return strings.Contains(s, "node-02") && !strings.Contains(s, "node-01") && strings.Contains(s, "1 of 3")
	})
	w.press("Enter")
	w.await("node-02 of demo: Maintenance", "identified by", "Events, newest first")
	w.press("End") // how many events there are depends on how many stages of a boot are seen at once
	w.await("Armed")
	w.press("Escape")
	w.await("1 of 3")
	w.press("Escape")
	w.await("node-01", "node-03")
	w.must("resize-window", "-x", "40", "-y", "10")
	w.awaitThat("the board is as small as the terminal", func(s string) bool {
		lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
		return len(lines) == 10 && strings.HasPrefix(lines[9], "? help") && strings.Contains(s, "> ") && strings.Contains(s, "node-03")
	})
	w.must("resize-window", "-x", "100", "-y", "24")
	w.await("q plain lines", "node-03", "TRY")
	w.press("C-c")
	screen := w.await("status=130", "2 done, 0 failed, 0 held, 0 skipped, 1 not finished", "1 not finished, PowerCycled: node-03")
	if !strings.Contains(screen, "3 to install") {
		t.Errorf("the plan is not on the screen any more:\n%s", screen)
	}
	w.isSane()
}

func TestCtrlCOnTheBoardEndsTheRunAndLeavesASaneTerminal(t *testing.T) {
	t.Parallel()
	f := slow(t, 2)
	w := openWindow(t, "xterm", 80, 24)
	w.run("", "--config", f.ConfigFile(), "--cluster", "demo", "--yes")
	w.await("node-02", "? help", "PowerCycled")
	w.press("C-c")
	w.await("status=130", "interrupted: run the same command again", "2 not finished")
	if !strings.Contains(w.written(), "finishing") {
		t.Error("the board did not say that the run is finishing")
	}
	w.isSane()
	noSessions(t, f)
	// q leaves the board, and the run goes on in lines; Ctrl-C is then as without a board.
	w.run("clear; ", "--config", f.ConfigFile(), "--cluster", "demo", "--yes")
	w.await("node-02", "q plain lines")
	w.press("q")
	w.await("2 done, 0 failed", "status=0")
	w.isSane()
	for _, m := range f.Machines() {
		if n := m.BMC().PowerOns(); n != 1 {
			t.Errorf("%s was powered on %d times, want 1", m.Name, n)
		}
	}
}

// Whatever ends the program, its terminal is usable afterwards, and a crash can be read.
func TestAKilledBoardLeavesASaneTerminal(t *testing.T) {
	t.Parallel()
	f := slow(t, 1)
	w := openWindow(t, "screen-256color", 80, 24)
	statusFile := filepath.Join(w.dir, "status") // the shell may write while the board's screen is still up
	outcome := ""
	defer func() {
		if t.Failed() {
			t.Log(outcome)
		}
	}()
	for signal, status := range map[syscall.Signal]string{
		syscall.SIGKILL: "137",
		syscall.SIGABRT: "2", // the runtime crashes, as it does by a panic
	} {
		_ = os.Remove(statusFile)
		w.must("send-keys", "-l", "clear; "+os.Args[0]+" --config "+f.ConfigFile()+" --cluster demo --yes; echo $? >"+statusFile)
		w.press("Enter")
		w.await("node-01", "? help", "PowerCycled")
		if err := syscall.Kill(w.process(), signal); err != nil {
			t.Fatal(err)
		}
		w.awaitThat("the program has ended and the terminal is in order", func(string) bool {
			got, err := os.ReadFile(statusFile)
			outcome = fmt.Sprintf("%v: status %q, terminal %q, before %q", signal, got, w.settings(), w.before)
			return err == nil && strings.TrimSpace(string(got)) == status && w.settings() == w.before
		})
		w.isSane()
	}
	if history := w.must("capture-pane", "-p", "-S", "-"); !strings.Contains(history, "SIGABRT: abort") {
		t.Errorf("the crash cannot be read:\n%s", history)
	}
}

// A terminal that goes away takes nothing with it: the run goes on to its end.
func TestARunOutlivesItsTerminal(t *testing.T) {
	t.Parallel()
	f := slow(t, 2)
	w := openWindow(t, "screen-256color", 80, 24)
	w.run("", "--config", f.ConfigFile(), "--cluster", "demo", "--yes")
	w.await("node-02", "? help", "PowerCycled")
	pid := w.process()
	w.must("kill-server")
	gone := time.Now().Add(time.Minute)
	for syscall.Kill(pid, 0) == nil && time.Now().Before(gone) {
		time.Sleep(100 * time.Millisecond)
	}
	want := map[string]string{"node-01": "Maintenance", "node-02": "Maintenance"}
	if got := status(t, f); !maps.Equal(got, want) {
		t.Errorf("the run left %v, want %v", got, want)
	}
	noSessions(t, f)
}

// A board comes up where somebody can look at one, and nowhere else.
func TestWithoutAnAbleTerminalThereAreLines(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 1})
	if r, _ := install(t, f); r.status != exitDone {
		t.Fatalf("status %d: %s", r.status, r.err)
	}
	w := openWindow(t, "screen-256color", 100, 24)
	for i, tc := range []struct {
		name, before string
		args         []string
		after        string
		board        bool
	}{
		{name: "a terminal", board: true},
		{name: "NO_COLOR", before: "NO_COLOR=1 ", board: true},
		{name: "--no-tui", args: []string{"--no-tui"}},
		{name: "a dumb terminal", before: "TERM=dumb "},
		{name: "no TERM", before: "env -u TERM "},
		{name: "CI", before: "CI=true "},
		{name: "JSON", args: []string{"-o", "json"}},
		{name: "a pipe", after: " | cat"},
		{name: "in the background", before: "set -m; ", after: " & wait $!"},
	} {
		start := len(w.written())
		args := append([]string{"--config", f.ConfigFile(), "--cluster", "demo", "--yes"}, tc.args...)
		w.must("send-keys", "-l", tc.before+os.Args[0]+" "+strings.Join(args, " ")+tc.after+"; echo status=$? of-$(("+strconv.Itoa(i)+"+100))")
		w.press("Enter")
		mark := "of-" + strconv.Itoa(i+100)
		w.awaitThat("all is written", func(string) bool { return strings.Contains(w.written()[start:], mark) })
		told := w.written()[start:]
		if board := strings.Contains(told, "\x1b[?1049h"); board != tc.board {
			t.Errorf("%s: a board is %v, want %v: %q", tc.name, board, tc.board, told)
		}
		if lines := strings.Contains(told, "already in maintenance"); !lines || !strings.Contains(told, "status=0") {
			t.Errorf("%s: nothing is told of the node: %q", tc.name, told)
		}
	}
	w.isSane()
}

// Two look on while a third's run goes on; whoever leaves stops nothing.
func TestWatchShowsARunOfAnotherAndStopsNothing(t *testing.T) {
	t.Parallel()
	f := stuck(t)
	run := startProcess(t, f)
	run.await("the last power cycle", func(e store.Event) bool { return e.Node == "node-03" && e.State == "PowerCycled" })
	first, second := openWindow(t, "screen-256color", 90, 40), openWindow(t, "xterm", 90, 20)
	for _, w := range []*window{first, second} {
		w.run("", "watch", "--config", f.ConfigFile())
	}
	for _, w := range []*window{first, second} {
		w.await("a run of demo", "3 nodes:", "node-03", "PowerCycled", "2 Maintenance", "q leave")
	}
	first.press("Enter")
	first.await("node-01 of demo", "board serial", "Events, newest first")
	first.press("End")
	first.await("Armed")
	first.press("q", "q")
	first.await("status=0")
	first.isSane()
	if err := run.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if got := run.end(); got != exitInterrupted {
		t.Errorf("the run that was watched ended with status %d, want %d", got, exitInterrupted)
	}
	second.await("the run has ended", "status=0")
	second.isSane()
}

// The board of a run in the daemon is that of a run of one's own, but that Ctrl-C ends
// the watching only.
func TestTheBoardOfARunInTheDaemonOnlyLooks(t *testing.T) {
	t.Parallel()
	f := slow(t, 2)
	d := startDaemon(t, f)
	w := openWindow(t, "screen-256color", 100, 24)
	w.run("", "--config", f.ConfigFile(), "--cluster", "demo", "--yes")
	w.await("in the daemon", "2 nodes:", "node-02", "PowerCycled", "q leave")
	w.press("Enter")
	w.await("node-01 of demo", "kernel arguments", "schematic", "node-01.yaml") // of the plan, and of the daemon
	w.press("C-c")
	w.await("status=130", "no longer watched", "provision watch --cluster demo")
	w.isSane()
	w.run("clear; ", "watch", "--config", f.ConfigFile())
	w.await("of demo, watching", "2 nodes:", "node-02", "2 Maintenance")
	w.press("q")
	w.await("status=0")
	w.run("clear; ", "--config", f.ConfigFile(), "--cluster", "demo", "--yes")
	w.await("2 done, 0 failed, 0 held", "status=0")
	w.isSane()
	if status := d.stop(); status != exitDone {
		t.Errorf("the daemon ended with status %d", status)
	}
}

// An upgrade has the board of a run: Ctrl-C ends it where --continue goes on.
func TestTheBoardShowsAnUpgrade(t *testing.T) {
	t.Parallel()
	s := newUpgradeSite(t, fleet.Config{Clusters: []fleet.Cluster{{Name: "prod", ControlPlanes: 1, Workers: 1}}, InstallTime: 8 * time.Second})
	args := append([]string{"upgrade", "--config", s.ConfigFile(), "--cluster", "prod", "--single-node", "--yes"}, withoutKubernetes...)
	w := openWindow(t, "xterm", 100, 24)
	w.run("", append(args, "--to", after)...)
	w.await("node-02", "? help", "Drained", "from Talos "+before+" to "+after)
	w.press("C-c")
	w.await("status=130", "carry the upgrade on with --continue", "1 on their way")
	w.isSane()
	w.run("clear; ", append(args, "--continue")...)
	w.await("2 upgraded, 0 failed", "status=0")
	w.isSane()
	s.allRun(after)
}
