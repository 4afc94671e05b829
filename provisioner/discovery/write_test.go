package discovery

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory"
)

func TestNothingIsOverwritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, "prod/a.yaml", "ip: 10.0.0.1\n")
	put(t, dir, "prod/b.yaml", "ip: 10.0.0.2\n")
	if err := os.Symlink("a.yaml", filepath.Join(dir, "prod/link.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "prod/a.yaml"), 0o640); err != nil {
		t.Fatal(err)
	}
	written, err := Write(dir, []Change{
		{"prod/link.yaml", []byte("ip: 10.0.0.1\n"), []byte("ip: 10.0.0.1\nserial: S1\n")},
		{"new/c.yaml", nil, []byte("ip: 10.0.0.3\n")},
		{"prod/b.yaml", nil, []byte("serial: S2\n")},
		{"prod/never.yaml", nil, []byte("serial: S3\n")},
	})
	if err == nil || !strings.Contains(err.Error(), "prod/b.yaml") || !strings.Contains(err.Error(), "exists") {
		t.Errorf("error %v, want that b.yaml exists", err)
	}
	if diff := cmp.Diff([]string{"prod/link.yaml", "new/c.yaml"}, written); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]string{"prod/a.yaml": "ip: 10.0.0.1\nserial: S1\n", "prod/b.yaml": "ip: 10.0.0.2\n", "new/c.yaml": "ip: 10.0.0.3\n"} {
		if got := read(t, dir, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	info, err := os.Lstat(filepath.Join(dir, "prod/link.yaml"))
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Error("the link became a file", err)
	}
	if info, err = os.Stat(filepath.Join(dir, "prod/a.yaml")); err != nil || info.Mode().Perm() != 0o640 {
		t.Error("the file's mode was changed", info.Mode(), err)
	}
	_, err = Write(dir, []Change{{"prod/b.yaml", []byte("ip: 10.0.0.9\n"), []byte("x: y\n")}})
	if err == nil || !strings.Contains(err.Error(), "changed meanwhile") {
		t.Errorf("a file that changed: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*", ".discover-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v %v", left, err)
	}
}

func TestDefaultsOfANewNode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, "_defaults.yaml", "bmc: {username: jo, passwordEnv: A, insecure: true}\n")
	put(t, dir, "prod/_defaults.yml", "bmc: {passwordEnv: B}\n")
	put(t, dir, "prod/broken.yaml", "[")
	got, err := Defaults(dir, "prod")
	if diff := cmp.Diff(inventory.BMC{Username: "jo", PasswordEnv: "B", Insecure: true}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if got, err := Defaults(filepath.Join(dir, "nowhere"), "prod"); err != nil || got.Username != "" {
		t.Error(got, err)
	}
}

func TestTheGateOpensWithSuccess(t *testing.T) {
	t.Parallel()
	g := newGate()
	enter := func(n int) {
		for range n {
			if err := g.enter(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	enter(maxRefusals)
	g.leave(accepted)
	g.leave(accepted)
	g.leave(unknown)
	enter(5)
	for range 2 {
		if g.leave(refused) {
			t.Fatal("stops after fewer than 3 refusals")
		}
	}
	g.leave(accepted) // breaks the row
	for range 2 {
		if g.leave(refused) {
			t.Fatal("stops although a log-in between was right")
		}
	}
	enter(1)
	if !g.leave(refused) {
		t.Error("does not stop after 3 refusals")
	}
	if err := g.enter(t.Context()); !errors.Is(err, ErrStopped) {
		t.Errorf("lets one pass after the stop: %v", err)
	}
}
