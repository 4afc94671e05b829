// Package needs says what a test does where the host lacks what it needs.
package needs

import (
	"os"
	"os/exec"
	"testing"
)

// Lacking skips the test because of what this host lacks. With E2E=required, as
// `make test` sets it, the test fails: a silent skip would look like a pass.
func Lacking(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("E2E") == "required" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// Program is Lacking for a program that is not in the path.
func Program(t testing.TB, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		Lacking(t, "%s is missing: run e2e/deps.sh", name)
	}
}
