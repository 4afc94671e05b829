package docs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/e2e/loopback"
)

// patience is how long a command may take.
const patience = 60 * time.Second

// world is what a page's commands are typed into: a folder with the files of the
// examples, and an emulated fleet whose inventory stands in for theirs.
type world struct {
	t       *testing.T
	dir     string
	fleet   *fleet.Fleet
	network netip.Prefix
	replace *strings.Replacer

	repository string // its absolute path
}

// newWorld starts the fleet of a page. Everything of it ends with the test.
func newWorld(t *testing.T, page string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), network: loopback.Reserve(t, 100, 249)}
	set := settingOf(page)
	config := set.fleet
	config.Dir, config.Network = w.dir, w.network
	var err error
	if w.fleet, err = fleet.Start(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.fleet.Close(); err != nil {
			t.Error(err)
		}
	})
	if config.Installed {
		if err := w.fleet.AwaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []string{"docs/examples", "deploy"} {
		if err := os.CopyFS(filepath.Join(w.dir, folder), os.DirFS(filepath.Join(root, folder))); err != nil {
			t.Fatal(err)
		}
	}
	// Emulated machines come up in seconds, so they are looked at more often than real ones.
	w.add("provision.yaml", "upgrade: {poll: 500ms, grace: 2s}\n")
	w.file("env", "export HOME="+w.dir+"\n", 0o600)
	w.placePrograms()
	pairs := make([]string, 0, 2*len(places)+8)
	for _, p := range places {
		pairs = append(pairs, p.documented, p.here)
	}
	base, second := w.network.Addr().As4(), loopback.Reserve(t, 100, 249)
	pairs = append(pairs, "{{dir}}", w.dir, "{{bmcs}}", netip.PrefixFrom(netip.AddrFrom4([4]byte{127, base[1], 128, 0}), 29).String(),
		"{{repository}}", w.repository, "{{second}}", second.String(), "{{secondprefix}}", fmt.Sprintf("127.%d.", second.Addr().As4()[1]))
	// What a place becomes has marks of its own, so at replaces twice.
	w.replace = strings.NewReplacer(pairs...)
	if set.before != "" {
		if got := w.shell(w.at(set.before)); got.status != 0 {
			t.Fatalf("prepare the world of %s: %s\nended with status %d:\n%s", page, set.before, got.status, got.out)
		}
	}
	return w
}

// at puts this world's places into a text.
func (w *world) at(text string) string { return w.replace.Replace(w.replace.Replace(text)) }

func (w *world) file(name, text string, mode os.FileMode) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, []byte(text), mode)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) add(name, text string) {
	w.t.Helper()
	before, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		w.t.Fatal(err)
	}
	w.file(name, string(before)+text, 0o600)
}

// placePrograms puts the real programs into bin, and the stand-ins before all others in the path.
func (w *world) placePrograms() {
	w.t.Helper()
	for _, name := range []string{"provision", "fleetsim"} {
		for _, dir := range []string{"bin", "path"} {
			link := filepath.Join(w.dir, dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o750), os.Symlink(filepath.Join(programsFolder(w.t), name), link)); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	var err error
	if w.repository, err = filepath.Abs(root); err != nil {
		w.t.Fatal(err)
	}
	w.file("path/sudo", "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nexec \"$@\"\n", 0o755)
	// make says what it would do, which proves that the target is there.
	w.file("path/make", "#!/bin/sh\necho \"make $*\" >>\"$STOOD_IN\"\nexec /usr/bin/make -C '"+w.repository+"' -n \"$@\" >/dev/null\n", 0o755)
	for name := range standIns {
		w.file("path/"+name, "#!/bin/sh\necho \""+name+" $*\" >>\"$STOOD_IN\"\n", 0o755)
	}
}

// result is what came of a command.
type result struct {
	status int
	out    string   // both streams
	stood  []string // command lines of stand-ins
}

// shell runs a line of shell as a person at a terminal would who answers "yes".
// Exported variables last from one line to the next.
func (w *world) shell(line string, extra ...string) result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	stood, out := filepath.Join(w.dir, "stood-in"), filepath.Join(w.dir, "output")
	_ = os.Remove(stood)
	script := ". " + w.dir + "/env\n" + line + "\nstatus=$?\nunset DOC_OUTPUT\nexport -p > " + w.dir + "/env\nexit $status\n"
	bash := exec.CommandContext(ctx, "bash", "-c", script)
	bash.Dir = w.dir
	bash.Env = append([]string{
		"PATH=" + filepath.Join(w.dir, "path") + ":/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "STOOD_IN=" + stood, "TERM=dumb",
	}, extra...)
	terminal, person := w.terminal()
	defer func() { _, _ = terminal.Close(), person.Close() }()
	// A file and no pipe: what is started in the background would keep a pipe open.
	output, err := os.Create(out)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = output.Close() }()
	bash.Stdin, bash.Stdout, bash.Stderr = terminal, output, output
	bash.WaitDelay = time.Second
	err = bash.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		w.t.Errorf("%s: %v", line, errors.Join(err, ctx.Err()))
	}
	text, _ := os.ReadFile(out)
	log, _ := os.ReadFile(stood)
	return result{status: bash.ProcessState.ExitCode(), out: string(text), stood: strings.Split(strings.TrimSpace(string(bytes.TrimSpace(log))), "\n")}
}

// terminal is a terminal at which "yes" was typed beforehand, and the person's end of it.
func (w *world) terminal() (terminal, person *os.File) {
	w.t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	if terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		w.t.Fatal(err)
	}
	if _, err := person.WriteString("yes\nyes\nyes\n"); err != nil {
		w.t.Fatal(err)
	}
	return terminal, person
}
