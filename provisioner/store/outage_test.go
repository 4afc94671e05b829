package store_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
)

// relay passes connections on, and can lose what comes back on them.
type relay struct {
	target string
	mu     sync.Mutex
	open   map[net.Conn]bool
}

func startRelay(t *testing.T, target string) (*relay, string) {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{target: target, open: map[net.Conn]bool{}}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { r.pass(in) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		r.cut()
		running.Wait()
	})
	return r, listener.Addr().String()
}

func (r *relay) pass(in net.Conn) {
	defer func() { _ = in.Close() }()
	out, err := net.Dial("tcp", r.target) //nolint:noctx // loopback
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	r.mu.Lock()
	r.open[in] = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, in)
	}()
	go func() {
		_, _ = io.Copy(out, in) // what was sent arrives
		_ = out.Close()
	}()
	_, _ = io.Copy(in, out)
}

// cut ends every connection: answers on their way are lost, requests may have arrived.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.open {
		_ = c.Close()
	}
}

// A commit whose answer was lost is neither told as failed nor done twice.
func TestLostAnswersOfEtcdLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	location := etcdLocation(t)
	_, rest, _ := strings.Cut(location, "://")
	endpoint, prefix, _ := strings.Cut(rest, "/")
	r, through := startRelay(t, endpoint)
	s := connect(t, "etcd://"+through+"/"+prefix, store.Options{TTL: time.Minute, Timeout: 30 * time.Second})
	stop := make(chan struct{})
	var cutting sync.WaitGroup
	var cuts atomic.Int32
	cutting.Go(func() {
		tick := time.NewTicker(40 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.cut()
				cuts.Add(1)
			case <-stop:
				return
			}
		}
	})
	const most, enough = 60_000, 30
	var written sync.Map // by name
	together(t, most, 8, func(i int) error {
		if cuts.Load() >= enough {
			return nil
		}
		name := fmt.Sprint("n", i)
		written.Store(name, true)
		return s.Record(store.Node{Cluster: "a", Name: name}, store.Event{Node: name})
	})
	close(stop)
	cutting.Wait()
	times := map[string]int{}
	if err := s.Events(func(e store.Event) bool { times[e.Node]++; return true }); err != nil {
		t.Fatal(err)
	}
	written.Range(func(name, _ any) bool {
		if n := times[name.(string)]; n != 1 {
			t.Errorf("the event of %s is there %d times", name, n)
		}
		return true
	})
	if cuts.Load() < enough {
		t.Errorf("the connection was cut %d times only", cuts.Load())
	}
}

// Controllers that write at the same time all get on, and number their events together.
func TestTwoControllersWriteAtOnce(t *testing.T) {
	t.Parallel()
	location := etcdLocation(t)
	stores := []*store.Store{connect(t, location, store.Options{}), connect(t, location, store.Options{})}
	const count = 400
	together(t, count, 32, func(i int) error {
		name := fmt.Sprint("n", i)
		return stores[i%2].Record(store.Node{Cluster: "a", Name: name}, store.Event{Node: name})
	})
	seen := map[string]bool{}
	next := uint64(1)
	err := stores[0].EventsAfter(0, func(seq uint64, e store.Event) bool {
		if seq != next {
			t.Errorf("number %d, want %d", seq, next)
		}
		next++
		seen[e.Node] = true
		return true
	})
	if err != nil || len(seen) != count {
		t.Errorf("%d events, error %v; want %d", len(seen), err, count)
	}
	// A run is begun by one of them, and carried on by the other.
	var runs [2]store.Run
	var resumed [2]bool
	together(t, 2, 2, func(i int) (err error) {
		runs[i], resumed[i], err = stores[i].BeginRun(store.Run{ID: fmt.Sprint("r", i), Cluster: "a"})
		return err
	})
	if runs[0].ID != runs[1].ID || resumed[0] == resumed[1] {
		t.Errorf("runs %v, resumed %v; want one that both have", runs, resumed)
	}
}
