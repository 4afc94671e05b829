package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
)

func TestASiteHasOneLeaderAtATime(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		first := connect(t, location, store.Options{Controller: "one"})
		second := first
		if store.IsEtcd(location) {
			second = connect(t, location, store.Options{Controller: "two"})
		}
		if _, found, err := first.Leader(""); found || err != nil {
			t.Errorf("before anybody leads: found %v, error %v", found, err)
		}
		leads, err := first.Lead(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := second.Lead(t.Context(), "east"); err != nil {
			t.Fatalf("another site: %v", err)
		}
		if name, found, err := second.Leader(""); err != nil || !found || name != "one" {
			t.Errorf("leader %q, found %v, error %v; want one", name, found, err)
		}
		hasty, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := second.Lead(hasty, ""); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want the end of the wait", err)
		}
		next := make(chan *store.Leadership, 2)
		for _, s := range []*store.Store{first, second} { // the leader itself has to wait too
			go func() {
				l, err := s.Lead(t.Context(), "")
				if err == nil {
					next <- l
				}
			}()
		}
		select {
		case <-next:
			t.Fatal("two lead")
		case <-time.After(700 * time.Millisecond): // longer than a waiting controller waits before it looks again
		}
		for range 2 {
			if err := leads.Resign(t.Context()); err != nil {
				t.Fatal(err)
			}
			select {
			case leads = <-next:
			case <-time.After(10 * time.Second):
				t.Fatal("nobody follows a leader that resigned")
			}
		}
		select {
		case <-leads.Lost():
			t.Error("lost without a reason")
		default:
		}
	})
}

// Within ten seconds of the death of a leader another one leads.
func TestADeadLeaderIsReplaced(t *testing.T) {
	t.Parallel()
	for name, die := range map[string]func(t *testing.T, location string){
		"its session is ended by etcd": func(t *testing.T, location string) { revoke(t, location, "leaders") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			location := etcdLocation(t)
			first, second := connect(t, location, store.Options{Controller: "one"}), connect(t, location, store.Options{Controller: "two"})
			old, err := first.Lead(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			leads := make(chan error, 1)
			go func() { _, err := second.Lead(t.Context(), ""); leads <- err }()
			die(t, location)
			select {
			case err := <-leads:
				if name, _, errLeader := first.Leader(""); err != nil || errLeader != nil || name != "two" {
					t.Errorf("%q leads, errors %v, %v", name, err, errLeader)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("nobody leads")
			}
			closedWithin(t, 10*time.Second, "the old leader knows", old.Lost())
		})
	}
}

// What a controller has is free at once when it ends in peace, and within ten
// seconds when it is killed.
func TestAKilledControllersRightsAreFree(t *testing.T) {
	t.Parallel()
	location := etcdLocation(t)
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), asChild+"=leader", "STATE="+location)
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if lines := bufio.NewScanner(out); !lines.Scan() || lines.Text() != "leads" {
		t.Fatalf("the controller says %q", lines.Text())
	}
	other := connect(t, location, store.Options{Controller: "other"})
	if name, _, err := other.Leader("east"); err != nil || name != "killed" {
		t.Fatalf("%q leads, error %v", name, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	killed := time.Now()
	if _, err := other.Lead(t.Context(), "east"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(killed); took > 10*time.Second {
		t.Errorf("it took %v to replace the leader, want less than 10s", took)
	}
	if _, err := other.Claim(t.Context(), []string{"a/n1"}, "run r2"); err != nil {
		t.Error(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	third := connect(t, location, store.Options{})
	if _, err := third.Claim(t.Context(), []string{"a/n1"}, "run r3"); err != nil {
		t.Errorf("after a controller that ended in peace: %v", err)
	}
}

// leadUntilKilled is a controller with the default TTL.
func leadUntilKilled() {
	s, err := store.Connect(context.Background(), os.Getenv("STATE"), store.Options{Controller: "killed"})
	if err == nil {
		_, err = s.Claim(context.Background(), []string{"a/n1"}, "run r1")
	}
	if err == nil {
		_, err = s.Lead(context.Background(), "east")
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("leads")
	select {}
}
