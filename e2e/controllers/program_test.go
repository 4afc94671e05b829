// Package controllers proves that several controllers may share one state: real
// `provision serve` processes, one real etcd, and emulated machines that know by
// themselves what was done to them.
//
// PROVISION_CONTROLLERS=long stops, pauses and cuts off controllers at more points,
// and for longer.
package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// long says that the tests may take their time.
func long() bool { return os.Getenv("PROVISION_CONTROLLERS") == "long" }

// scratch holds what all tests share. The folders of tests are in it too: their
// paths are short enough for sockets.
var scratch string

func TestMain(m *testing.M) {
	status, err := inScratch(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

func inScratch(m *testing.M) (status int, err error) {
	if scratch, err = os.MkdirTemp("", "ha-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	return m.Run(), nil
}

// built names a program that is built already: to the tests that one of these starts
// again elsewhere, and for a change of the tests alone.
const built = "TEST_CONTROLLERS_PROGRAM"

// program builds the real program, once.
var program = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(built); path != "" {
		return path, nil
	}
	path := filepath.Join(scratch, "provision")
	build := exec.CommandContext(context.Background(), "go", "build", "-race", "-o", path, "../../cmd/provision")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return path, nil
})

// folder makes a folder that ends with the test.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
