package web_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/talos-provision/provision/provisioner/web"
)

// childSocket names the socket that this program serves when it is started as a daemon to be killed.
const childSocket = "WEB_TEST_SOCKET"

func TestMain(m *testing.M) {
	if path := os.Getenv(childSocket); path != "" {
		fmt.Println(beADaemon(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// beADaemon serves until the process is killed.
func beADaemon(path string) error {
	server, err := web.New(newFake(), web.Options{Socket: path})
	if err != nil {
		return err
	}
	if err := server.Listen(context.Background()); err != nil {
		return err
	}
	fmt.Println("listening")
	return server.Run(context.Background())
}

// startDaemon starts a process that serves, and returns when it does.
func startDaemon(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	daemon := exec.CommandContext(t.Context(), os.Args[0])
	daemon.Env = append(os.Environ(), childSocket+"="+path)
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "listening\n" {
		t.Fatalf("the daemon says %q, %v", line, err)
	}
	return daemon
}

func TestTheSocketOfAKilledDaemonIsTakenOver(t *testing.T) {
	t.Parallel()
	path := socket(t)
	daemon := startDaemon(t, path)
	server, err := web.New(newFake(), web.Options{Socket: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Listen(t.Context()); err == nil || !strings.Contains(err.Error(), "a daemon answers") {
		t.Fatalf("beside a living daemon: %v; want an error that says so", err)
	}
	c := client(t, web.Endpoint{Socket: path})
	if !c.Available(t.Context()) {
		t.Fatal("the living daemon lost its socket")
	}
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait() // it was killed
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("the killed daemon left no socket, so nothing is tested: %v", err)
	}
	if c.Available(t.Context()) {
		t.Fatal("a killed daemon is available")
	}
	serve(t, newFake(), web.Options{Socket: path})
	if !c.Available(t.Context()) {
		t.Error("the new daemon does not answer")
	}
}

func TestTheSocketIsItsOwnersAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(filepath.Dir(socket(t)), "a", "b", "s")
	r := serve(t, newFake(), web.Options{Socket: path})
	for _, f := range []struct {
		path string
		mode fs.FileMode
	}{{path, 0o600 | fs.ModeSocket}, {filepath.Dir(path), 0o700 | fs.ModeDir}, {filepath.Dir(filepath.Dir(path)), 0o700 | fs.ModeDir}} {
		info, err := os.Lstat(f.path)
		if err != nil || info.Mode() != f.mode {
			t.Errorf("%s: %v, %v; want %s", f.path, info.Mode(), err, f.mode)
		}
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket stays after the end: %v", err)
	}
}

func TestWhatIsInTheWayOfTheSocketIsNotRemoved(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		prepare func(path string) error
		says    string
	}{
		{"a file", func(path string) error { return os.WriteFile(path, []byte("precious"), 0o600) }, "is no socket"},
		{"a link", func(path string) error { return os.Symlink("/dev/null", path) }, "is no socket"},
		{"a folder that others can write", func(path string) error { return os.Chmod(filepath.Dir(path), 0o777) }, "chmod 700"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := socket(t)
			if err := test.prepare(path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.Lstat(path)
			server, err := web.New(newFake(), web.Options{Socket: path})
			if err != nil {
				t.Fatal(err)
			}
			if err := server.Listen(t.Context()); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("the error is %v; want one that says %q", err, test.says)
			}
			if after, _ := os.Lstat(path); before != nil && (after == nil || !os.SameFile(before, after)) {
				t.Error("what was in the way is gone")
			}
		})
	}
}

func TestOfManyDaemonsThatFindAStaleSocketOneGetsIt(t *testing.T) {
	t.Parallel()
	path := socket(t)
	for range 60 { // the moment between looking and listening is short
		leaveStale(t, path)
		var (
			group sync.WaitGroup
			mu    sync.Mutex
			got   []*web.Server
		)
		for range 6 {
			server, err := web.New(newFake(), web.Options{Socket: path})
			if err != nil {
				t.Fatal(err)
			}
			group.Go(func() {
				if err := server.Listen(t.Context()); err == nil {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, server)
				}
			})
		}
		group.Wait()
		for _, server := range got {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		}
		if len(got) != 1 {
			t.Fatalf("%d daemons listen on one socket", len(got))
		}
	}
}

// leaveStale leaves a socket on which nobody answers.
func leaveStale(t *testing.T, path string) {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAPathThatIsTooLongForASocketIsSaid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, test := range []struct {
		length int
		fits   bool
	}{{107, true}, {108, false}} {
		name := "/" + strings.Repeat("x", 200)
		path := (filepath.Join(os.TempDir(), filepath.Base(dir)) + name)[:test.length]
		t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(path)) })
		server, err := web.New(newFake(), web.Options{Socket: path})
		if err != nil {
			t.Fatal(err)
		}
		err = server.Listen(t.Context())
		switch {
		case test.fits && err != nil:
			t.Errorf("%d bytes: %v", test.length, err)
		case !test.fits && (err == nil || !strings.Contains(err.Error(), "shorter name")):
			t.Errorf("%d bytes: the error is %v; want one that says what to do", test.length, err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAnAddressInUseLeavesNoSocketBehind(t *testing.T) {
	t.Parallel()
	first := serve(t, newFake(), web.Options{Listen: "127.0.0.1:0"})
	path := socket(t)
	server, err := web.New(newFake(), web.Options{Socket: path, Listen: first.server.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Listen(t.Context()); err == nil || !strings.Contains(err.Error(), "give a free port") {
		t.Errorf("the error is %v; want one that says what to do", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket stays: %v", err)
	}
}
