package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/store/storetest"
)

// revoke ends the session that has a key in a bucket, as etcd does when it has not
// heard from a controller for the TTL.
func revoke(t *testing.T, location, bucket string) {
	t.Helper()
	_, rest, _ := strings.Cut(location, "://")
	endpoint, prefix, _ := strings.Cut(rest, "/")
	client := storetest.Client(t, endpoint)
	found, err := client.Get(t.Context(), prefix+"/"+bucket+"/", clientv3.WithPrefix(), clientv3.WithLimit(1))
	if err != nil || len(found.Kvs) == 0 {
		t.Fatalf("no key in %s: %v", bucket, err)
	}
	if _, err := client.Revoke(t.Context(), clientv3.LeaseID(found.Kvs[0].Lease)); err != nil {
		t.Fatal(err)
	}
}

func names(n int) []string {
	keys := make([]string, 0, n)
	for i := range n {
		keys = append(keys, fmt.Sprintf("a/n%05d", i))
	}
	return keys
}

func TestNodesAreClaimedAllOrNone(t *testing.T) {
	overBoth(t, func(t *testing.T, location string) {
		first := connect(t, location, store.Options{Controller: "host-1/7"})
		second := first // in a file all is in one process
		if store.IsEtcd(location) {
			second = connect(t, location, store.Options{Controller: "host-2/8"})
		}
		const many = 1205
		all := names(many)
		// The node is the last of them: what is claimed before it must be given back.
		one, err := first.Claim(t.Context(), []string{all[many-1]}, "run r1")
		if err != nil {
			t.Fatal(err)
		}
		_, err = second.Claim(t.Context(), all, "run r2")
		if !errors.Is(err, store.ErrClaimed) {
			t.Fatalf("error %v, want ErrClaimed", err)
		}
		for _, want := range []string{all[many-1], "run r1", "since " + time.Now().Format(time.DateOnly)} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("the error %q does not say %q", err, want)
			}
		}
		if holders, err := second.Holders(); err != nil || len(holders) != 1 || holders[0].Key != all[many-1] || holders[0].Controller != "host-1/7" || holders[0].What != "run r1" {
			t.Errorf("holders %v, error %v; want the first claim alone", holders, err)
		}
		if err := one.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		whole, err := second.Claim(t.Context(), append(slices.Clone(all), all[0]), "run r3")
		if err != nil {
			t.Fatal(err)
		}
		if holders, err := first.Holders(); err != nil || len(holders) != many || !slices.Equal(whole.Keys(), all) {
			t.Errorf("%d holders, error %v; want %d", len(holders), err, many)
		}
		if _, err := first.Claim(t.Context(), all[5:6], "run r4"); !errors.Is(err, store.ErrClaimed) {
			t.Errorf("error %v, want ErrClaimed", err)
		}
		for range 2 { // the second time it is gone already
			if err := whole.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if holders, err := first.Holders(); err != nil || len(holders) != 0 {
			t.Errorf("holders %v, error %v; want none", holders, err)
		}
		select {
		case <-whole.Lost():
			t.Error("a claim that was released is told as lost")
		default:
		}
	})
}

func TestANodeOfOthersIsNotWritten(t *testing.T) {
	t.Parallel()
	location := etcdLocation(t)
	ours, theirs := connect(t, location, store.Options{}), connect(t, location, store.Options{Controller: "host-2/8"})
	claim, err := theirs.Claim(t.Context(), []string{"a/n1"}, "run r1")
	if err != nil {
		t.Fatal(err)
	}
	event := store.Event{Cluster: "a"}
	writes := map[string]func(s *store.Store, node string) error{
		"record": func(s *store.Store, node string) error {
			return s.Record(store.Node{Cluster: "a", Name: node, State: "Armed"}, event)
		},
		"upgrade": func(s *store.Store, node string) error {
			return s.RecordUpgrade("a", node, upgradeRecord{Cluster: "a", Node: node}, event)
		},
	}
	for what, write := range writes {
		if err := write(ours, "n1"); !errors.Is(err, store.ErrFenced) || !strings.Contains(err.Error(), "host-2/8") {
			t.Errorf("%s of another's node: error %v, want ErrFenced by host-2/8", what, err)
		}
		for name, err := range map[string]error{"another's own node": write(theirs, "n1"), "a node that nobody claimed": write(ours, "n2")} {
			if err != nil {
				t.Errorf("%s of %s: %v", what, name, err)
			}
		}
	}
	// One that is fenced off takes nobody with it who writes at the same time.
	together(t, 60, 60, func(i int) error {
		if i == 30 {
			if err := writes["record"](ours, "n1"); !errors.Is(err, store.ErrFenced) {
				return fmt.Errorf("error %w, want ErrFenced", err)
			}
			return nil
		}
		return writes["record"](ours, fmt.Sprint("m", i))
	})
	if err := claim.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := writes["record"](ours, "n1"); err != nil {
		t.Errorf("after the release: %v", err)
	}
	count := 0
	if err := ours.Events(func(store.Event) bool { count++; return true }); err != nil || count != 4+59+1 {
		t.Errorf("%d events, error %v; want one for each write that was done, 64", count, err)
	}
}

func TestAControllerThatLostItsSessionIsFencedOff(t *testing.T) {
	t.Parallel()
	location := etcdLocation(t)
	s := connect(t, location, store.Options{TTL: 2 * time.Second})
	claim, err := s.Claim(t.Context(), []string{"a/n1"}, "run r1")
	if err != nil {
		t.Fatal(err)
	}
	record := func() error { return s.Record(store.Node{Cluster: "a", Name: "n1"}, store.Event{}) }
	if err := record(); err != nil {
		t.Fatal(err)
	}
	revoke(t, location, "claims")
	// Nobody else has the node, and this controller may not know of its loss yet.
	if err := record(); !errors.Is(err, store.ErrFenced) {
		t.Errorf("error %v, want ErrFenced", err)
	}
	closedWithin(t, 5*time.Second, "the claim is lost", claim.Lost())
	eventually(t, 5*time.Second, "a new session", func() bool { return s.Alive() == nil })
	if err := record(); !errors.Is(err, store.ErrFenced) {
		t.Errorf("with a new session: error %v, want ErrFenced for work under the old claim", err)
	}
	if _, err := s.Claim(t.Context(), []string{"a/n1"}, "run r2"); !errors.Is(err, store.ErrClaimed) {
		t.Errorf("error %v, want ErrClaimed until the lost claim is released", err)
	}
	if err := claim.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context(), []string{"a/n1"}, "run r2"); err != nil {
		t.Fatal(err)
	}
	if err := record(); err != nil {
		t.Errorf("under a new claim: %v", err)
	}
}

func TestAPausedEtcdMakesTheStateOutOfReachAndItsWritersWaitNotForever(t *testing.T) {
	t.Parallel()
	endpoint, etcd := storetest.StartEtcd(t)
	s := connect(t, "etcd://"+endpoint, store.Options{TTL: 2 * time.Second, Timeout: 3 * time.Second})
	if err := s.Alive(); err != nil {
		t.Fatal(err)
	}
	claim, err := s.Claim(t.Context(), []string{"a/n1"}, "run r1")
	if err != nil {
		t.Fatal(err)
	}
	etcd.Pause()
	paused := time.Now()
	eventually(t, 5*time.Second, "the state is out of reach", func() bool { return errors.Is(s.Alive(), store.ErrOutOfReach) })
	if after := time.Since(paused); after >= 2*time.Second {
		t.Errorf("out of reach %v after the pause, when others may have taken over already", after)
	}
	err = s.Record(store.Node{Cluster: "a", Name: "n1"}, store.Event{})
	if !errors.Is(err, store.ErrOutOfReach) || !strings.Contains(err.Error(), "etcdctl endpoint status") {
		t.Errorf("error %v, want ErrOutOfReach and what to look at", err)
	}
	if took := time.Since(paused); took > 10*time.Second {
		t.Errorf("the write took until %v after the pause", took)
	}
	closedWithin(t, 5*time.Second, "the claim is lost", claim.Lost())
	if _, err := s.Claim(t.Context(), []string{"a/n2"}, "run r2"); !errors.Is(err, store.ErrOutOfReach) {
		t.Errorf("claim: error %v, want ErrOutOfReach", err)
	}
	etcd.Resume()
	eventually(t, 20*time.Second, "a new session", func() bool { return s.Alive() == nil })
	if err := s.Record(store.Node{Cluster: "a", Name: "n1"}, store.Event{}); !errors.Is(err, store.ErrFenced) {
		t.Errorf("error %v, want ErrFenced", err)
	}
}

// A restart of etcd that is shorter than the TTL is nothing that anybody notices.
func TestAShortOutageOfEtcdIsWaitedFor(t *testing.T) {
	t.Parallel()
	endpoint, etcd := storetest.StartEtcd(t)
	s := connect(t, "etcd://"+endpoint, store.Options{TTL: 30 * time.Second, Timeout: 30 * time.Second})
	claim, err := s.Claim(t.Context(), []string{"a/n1"}, "run r1")
	if err != nil {
		t.Fatal(err)
	}
	etcd.Kill()
	written := make(chan error, 1)
	go func() { written <- s.Record(store.Node{Cluster: "a", Name: "n1", State: "Armed"}, store.Event{}) }()
	etcd.Start()
	if err := <-written; err != nil {
		t.Error(err)
	}
	count := 0
	if err := s.Events(func(store.Event) bool { count++; return true }); err != nil || count != 1 {
		t.Errorf("%d events, error %v; want the one of the write", count, err)
	}
	select {
	case <-claim.Lost():
		t.Error("the claim was lost")
	default:
	}
}

// recordWhenTold is a controller that claims a node and writes of it when told to.
func recordWhenTold() {
	s, err := store.Connect(context.Background(), os.Getenv("STATE"), store.Options{TTL: 2 * time.Second, Controller: "paused"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := s.Claim(context.Background(), []string{"a/n1"}, "run r1"); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("claimed")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		alive := s.Alive()
		err := s.Record(store.Node{Cluster: "a", Name: "n1", State: "PowerCycled"}, store.Event{})
		fmt.Println("alive:", alive == nil, "fenced:", errors.Is(err, store.ErrFenced), "written:", err == nil)
	}
}

func TestAControllerThatWasStoppedAndWokenIsFencedOff(t *testing.T) {
	t.Parallel()
	location := etcdLocation(t)
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), asChild+"=paused", "STATE="+location)
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	lines := bufio.NewScanner(out)
	say := func() {
		if _, err := io.WriteString(in, "write\n"); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("the controller says %q, want %q", lines.Text(), want)
		}
	}
	expect("claimed")
	say()
	expect("alive: true fenced: false written: true")

	if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	other := connect(t, location, store.Options{Controller: "other"})
	eventually(t, 10*time.Second, "the node of the stopped controller is free", func() bool {
		_, err := other.Claim(t.Context(), []string{"a/n1"}, "run r2")
		if err != nil && !errors.Is(err, store.ErrClaimed) {
			t.Fatal(err)
		}
		return err == nil
	})
	say() // it finds this first when it wakes
	if err := child.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	expect("alive: false fenced: true written: false")
}
