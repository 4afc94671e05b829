package dhcp

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/ipv4"
)

var sameAddr = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

// mirror is what another controller knows from OnCommit.
type mirror struct {
	mu    sync.Mutex
	known map[netip.Addr]LeaseRecord
}

func (m *mirror) observe(batch []LeaseRecord) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = map[netip.Addr]LeaseRecord{}
	}
	for _, l := range batch {
		m.known[l.IP] = l
	}
}

func (m *mirror) live(now time.Time) map[netip.Addr]LeaseRecord {
	m.mu.Lock()
	defer m.mu.Unlock()
	live := map[netip.Addr]LeaseRecord{}
	for ip, l := range m.known {
		if l.Expires.After(now) {
			live[ip] = l
		}
	}
	return live
}

func TestLeasesAreTheConfirmedOnesThatLast(t *testing.T) {
	t.Parallel()
	var c wallClock
	r, s, _ := serveRelay(t, func(o *Options) { o.Now = c.now })
	if got := s.Leases(); len(got) != 0 {
		t.Fatalf("at first %v", got)
	}
	const early, released, offered = "52:54:00:00:00:01", "52:54:00:00:00:02", "52:54:00:00:00:03"
	r.lease(early)
	c.advance(30 * time.Minute)
	gone := r.lease(released)
	kept := r.lease(testMAC)
	r.ask(packet{mac: offered, options: with(discover, uefi())})
	if got := s.Leases(); len(got) != 3 {
		t.Errorf("%v, want three leases and no offer", got)
	}
	r.send(packet{mac: released, giaddr: relayAddress, ciaddr: gone, options: with(release, nil, address(54, serverAddress))}.bytes())
	r.ask(packet{mac: offered, options: with(discover, uefi())}) // its answer shows that the release was read
	c.advance(30 * time.Minute)                                  // the end of the early one
	want := []LeaseRecord{{MAC: testMAC, IP: netip.MustParseAddr(kept), Expires: c.now().Add(30 * time.Minute)}}
	if diff := cmp.Diff(want, s.Leases(), sameAddr); diff != "" {
		t.Errorf("leases (-want +got):\n%s", diff)
	}
}

func TestLeasesOfTheFileAreTold(t *testing.T) {
	t.Parallel()
	var c wallClock
	file := filepath.Join(t.TempDir(), "leases")
	keep := func(o *Options) { o.Now, o.LeaseFile = c.now, file }
	r, s, stop := serveRelay(t, keep)
	for i := range 5 {
		r.lease(benchMAC(i))
	}
	want := s.Leases()
	stop()
	_, s, _ = serveRelay(t, keep)
	if diff := cmp.Diff(want, s.Leases(), sameAddr); diff != "" || len(want) != 5 {
		t.Errorf("%d leases; after the restart (-want +got):\n%s", len(want), diff)
	}
}

// What OnCommit tells is in the lease file by then.
func TestOnCommitTellsOfDurableLeases(t *testing.T) {
	t.Parallel()
	var c wallClock
	var m mirror
	file := filepath.Join(t.TempDir(), "leases")
	r, s, stop := serveRelay(t, func(o *Options) {
		o.Now, o.LeaseFile = c.now, file
		o.OnCommit = func(batch []LeaseRecord) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Error(err)
			}
			for _, l := range batch {
				line := fmt.Sprintf(`{"mac":%q,"ip":%q,"until":%d}`+"\n", l.MAC, l.IP, max(l.Expires.Unix(), 0))
				if !bytes.Contains(content, []byte(line)) {
					t.Errorf("told of %+v, which is not in the file", l)
				}
			}
			m.observe(batch)
		}
	})
	const moved = "52:54:00:00:00:02"
	for i := range 100 {
		r.lease(benchMAC(i))
	}
	old := r.lease(moved)
	c.advance(time.Minute)
	r.lease(benchMAC(0)) // for longer
	setReservations(t, s, moved, "127.10.0.50")
	r.lease(moved)
	gone := r.lease(testMAC)
	r.send(packet{giaddr: relayAddress, ciaddr: gone, options: with(release, nil, address(54, serverAddress))}.bytes())
	r.ask(packet{mac: otherMAC, options: with(discover, uefi())}) // its answer shows that the release was read
	want := map[netip.Addr]LeaseRecord{}
	for _, l := range s.Leases() {
		want[l.IP] = l
	}
	stop() // the last batch is told before Serve returns
	if diff := cmp.Diff(want, m.live(c.now()), sameAddr); diff != "" || len(want) != 101 {
		t.Errorf("%d leases; the mirror knows (-want +got):\n%s", len(want), diff)
	}
	for _, ip := range []string{old, gone} {
		if l, known := m.known[netip.MustParseAddr(ip)]; !known || l.Expires.After(c.now()) {
			t.Errorf("of %s, which was given up, it knows %+v", ip, l)
		}
	}
}

// An observer that does not return delays no client, and then gets everything at
// once: one record an address, the last one.
func TestSlowOnCommitDelaysNobody(t *testing.T) {
	t.Parallel()
	var c wallClock
	entered, resume := make(chan struct{}), make(chan struct{})
	batches := make(chan []LeaseRecord, 100)
	var once sync.Once
	r, s, stop := serveRelay(t, func(o *Options) {
		o.Now = c.now
		o.OnCommit = func(batch []LeaseRecord) {
			once.Do(func() { close(entered) })
			<-resume
			batches <- batch
		}
	})
	r.lease(testMAC)
	<-entered
	for range 3 {
		c.advance(time.Minute)
		for i := range 50 {
			r.lease(benchMAC(i))
		}
	}
	want := s.Leases()
	close(resume)
	first, second := <-batches, <-batches
	if len(first) != 1 || first[0].MAC != testMAC {
		t.Errorf("first %+v", first)
	}
	if diff := cmp.Diff(want, append(first, second...), sameAddr); diff != "" || len(second) != 50 {
		t.Errorf("%d records in the second batch; together (-want +got):\n%s", len(second), diff)
	}
	stop()
	if len(batches) != 0 {
		t.Errorf("then came %+v", <-batches)
	}
}

// A lease that could not be written is not told to anybody.
func TestOnCommitTellsNothingOfLeasesThatAreNotDurable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "leases")
	o := testOptions()
	var m mirror
	o.LeaseFile, o.OnCommit = file, m.observe
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if s.journal, _, err = openJournal(file, silentLog()); err != nil {
		t.Fatal(err)
	}
	good := s.journal.file
	if s.journal.file, err = os.Open(file); err != nil { // read-only: writing fails
		t.Fatal(err)
	}
	done := make(chan struct{})
	close(done)
	chosen := []ipv4.Message{message(packet{options: with(request, uefi(), address(54, "10.0.0.1"), address(50, "10.0.0.100"))})}
	s.answer(&port{}, chosen)
	s.commits.run(done)
	if len(m.known) != 0 {
		t.Errorf("told of %v", m.known)
	}
	s.journal.file = good
	s.answer(&port{}, chosen)
	s.commits.run(done)
	if l := m.known[netip.MustParseAddr("10.0.0.100")]; l.MAC != testMAC {
		t.Errorf("after the repair told of %v", m.known)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
