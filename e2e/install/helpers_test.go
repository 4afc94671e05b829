// Package install_test checks what people install: the unit, the package, the
// image, and the files for compose and Kubernetes.
package install_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// patience bounds one program.
const patience = 5 * time.Minute

// repository is the folder of the repository.
func repository(t testing.TB) string {
	t.Helper()
	folder, err := filepath.Abs("../..")
	must(t, err)
	return folder
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path ...string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(path...))
	must(t, err)
	return string(raw)
}

func write(t testing.TB, file, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(t, os.WriteFile(file, []byte(content), 0o644))
}

// ran is how a program ended.
type ran struct {
	out, errOut string
	err         error
}

// try runs a program in a folder.
func try(t testing.TB, dir, name string, args ...string) ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, errOut bytes.Buffer
	command := exec.CommandContext(ctx, name, args...)
	command.Dir, command.Stdout, command.Stderr = dir, &out, &errOut
	command.WaitDelay = 10 * time.Second
	err := command.Run()
	return ran{out: out.String(), errOut: errOut.String(), err: err}
}

// tryAnyway is try for what comes after a test, whose context has ended then.
func tryAnyway(t testing.TB, name string, args ...string) ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	return ran{errOut: string(out), err: err}
}

// output is what a program prints; one that fails ends the test.
func output(t testing.TB, dir, name string, args ...string) string {
	t.Helper()
	r := try(t, dir, name, args...)
	if r.err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), r.err, r.out, r.errOut)
	}
	return r.out
}

// installs skips what takes a built release and minutes: `make release-check` runs it.
func installs(t testing.TB) {
	t.Helper()
	if os.Getenv("INSTALL") != "required" {
		t.Skip("it installs what `make release-check` builds, and is run by it")
	}
	if os.Geteuid() != 0 {
		t.Fatal("this needs root")
	}
}

// facts are lines of the form name=value that a script prints.
func facts(text string) map[string]string {
	found := map[string]string{}
	for line := range strings.SplitSeq(text, "\n") {
		if name, value, ok := strings.Cut(line, "="); ok {
			found[name] = strings.TrimSpace(value)
		}
	}
	return found
}

// compare tells of every fact that is not as wanted.
func compare(t testing.TB, found, wanted map[string]string) {
	t.Helper()
	for name, want := range wanted {
		if value, ok := found[name]; !ok || value != want {
			t.Errorf("%s is %q, want %q", name, value, want)
		}
	}
}
