package dhcp

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/ipv4"
)

func silentLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// I8: a restarted server knows every lease.
func TestLeasesSurviveARestart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state", "leases")
	keep := func(o *Options) { o.LeaseFile = file }
	r, _, stop := serveRelay(t, keep)
	leased := map[string]string{}
	for i := range byte(20) {
		mac := netMAC([]byte{2, 0, 0, 0, 0, 19 - i})
		leased[mac] = r.lease(mac)
	}
	stop()
	r, _, _ = serveRelay(t, keep)
	if got := r.lease("02:00:00:00:01:00"); leased["02:00:00:00:00:00"] == got {
		t.Fatalf("a new client got %s, which is leased", got)
	}
	for mac, ip := range leased {
		ack := r.ask(packet{mac: mac, options: with(request, plain(), address(50, ip))})
		if got := ack.YourIPAddr.String(); got != ip {
			t.Errorf("%s got %s after the restart, had %s", mac, got, ip)
		}
	}
}

// serverProcess is this test binary as a server in a process of its own.
type serverProcess struct {
	cmd  *exec.Cmd
	addr netip.AddrPort
}

const (
	envProcess = "DHCP_TEST_PROCESS"
	envRelay   = "DHCP_TEST_RELAY_PORT"
)

func startProcess(t *testing.T, file string, relayPort int) serverProcess {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServerProcess$")
	cmd.Env = append(os.Environ(), envProcess+"="+file, fmt.Sprintf("%s=%d", envRelay, relayPort))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server process said nothing: %v", err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return serverProcess{cmd, netip.MustParseAddrPort(strings.TrimSpace(line))}
}

// TestServerProcess is no test: it is the body of serverProcess.
func TestServerProcess(t *testing.T) {
	file := os.Getenv(envProcess)
	if file == "" {
		t.Skip("runs only as a helper process of other tests")
	}
	o := loopbackOptions()
	o.LeaseFile = file
	if _, err := fmt.Sscan(os.Getenv(envRelay), &o.RelayPort); err != nil {
		t.Fatal(err)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	fmt.Println(s.Addr())
	_ = s.Serve(t.Context())
}

func TestTornLastLineIsDropped(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "leases")
	whole := `{"mac":"52:54:00:12:34:56","ip":"10.0.0.100","until":1796040000}` + "\n"
	for _, torn := range []string{`{"mac":"52:54:00:12:34:57","ip":"10.0.0.101","until":17`, "{", "\x00\x00\x00"} {
		if err := os.WriteFile(path, []byte(whole+torn), 0o644); err != nil {
			t.Fatal(err)
		}
		j, got, err := openJournal(path, silentLog())
		if err != nil {
			t.Fatal(err)
		}
		mac := "\x52\x54\x00\x12\x34\x56"
		first := record{MAC: mac, IP: netip.MustParseAddr("10.0.0.100"), Until: 1796040000}
		second := record{MAC: mac, IP: netip.MustParseAddr("10.0.0.102"), Until: 1796040001}
		if diff := cmp.Diff([]record{first}, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("records (-want +got):\n%s", diff)
		}
		if err := j.append([]record{second}); err != nil {
			t.Fatal(err)
		}
		if err := j.close(); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil || string(content) != whole+string(encodeLines([]record{second})) {
			t.Errorf("the file is now %q (%v)", content, err)
		}
	}
}

func TestUnreadableLineIsLeftOut(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "leases")
	content := "garbage\n" + `{"mac":"52:54:00:12:34:56","ip":"10.0.0.100","until":5}` + "\n"
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	j, got, err := openJournal(path, silentLog())
	if err != nil || len(got) != 1 {
		t.Fatalf("%d records, error %v; want the one good line", len(got), err)
	}
	if err := j.close(); err != nil {
		t.Error(err)
	}
}

func TestSecondServerOnOneLeaseFileIsRefused(t *testing.T) {
	t.Parallel()
	o := loopbackOptions()
	o.LeaseFile = filepath.Join(t.TempDir(), "leases")
	_, stop := serve(t, o)
	second, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Listen(); err == nil || !strings.Contains(err.Error(), "another server uses it") {
		t.Errorf("error %v, want one that says so", err)
	}
	stop()
	if err := second.Listen(); err != nil {
		t.Errorf("after the first ended: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

func TestLeaseFileIsCompacted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "leases")
	o := testOptions()
	c := newClock()
	o.LeaseFile, o.Now = path, c.now
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s.journal, _, err = openJournal(path, silentLog())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, clock: c, engine: s.engine, link: Link{Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}}, destination: netip.MustParseAddr("10.0.0.1")}
	ip := r.lease(testMAC)
	for range 6000 {
		c.advance(time.Minute)
		r.reply(packet{ciaddr: ip.String(), options: with(request, plain())})
		if err := s.commit(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	j, records, err := openJournal(path, silentLog())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.close() }()
	last := records[len(records)-1]
	if j.lines > 5000 || last.IP != ip || last.Until <= c.now().Unix() {
		t.Errorf("%d lines, last %+v at %d", j.lines, last, c.now().Unix())
	}
	if left, _ := filepath.Glob(path + ".new-*"); len(left) != 0 {
		t.Errorf("files left over: %v", left)
	}
}

// A lease that cannot be written is not confirmed: the client would keep an
// address that a restarted server knows nothing of.
func TestNoConfirmationWithoutLeaseFile(t *testing.T) {
	t.Parallel()
	problems, leases := make(chan Problem, 1), make(chan Lease, 4)
	file := filepath.Join(t.TempDir(), "leases")
	o := testOptions()
	o.LeaseFile, o.OnProblem, o.OnLease = file, func(p Problem) { problems <- p }, func(l Lease) { leases <- l }
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s.journal, _, err = openJournal(file, silentLog())
	if err != nil {
		t.Fatal(err)
	}
	good := s.journal.file
	if s.journal.file, err = os.Open(file); err != nil { // read-only: writing fails
		t.Fatal(err)
	}
	offered := message(packet{options: with(discover, uefi())})
	chosen := message(packet{options: with(request, uefi(), address(54, "10.0.0.1"), address(50, "10.0.0.100"))})
	s.answer(&port{}, []ipv4.Message{offered, chosen})
	if l := <-leases; l.Type != TypeOffer || len(leases) != 0 {
		t.Errorf("leases begin with %+v and %d more, want the offer alone", l, len(leases))
	}
	if p := <-problems; p.Kind != LeaseFileFailed || !strings.Contains(p.Message, "make room on the disk") {
		t.Errorf("problem %+v", p)
	}
	s.journal.file = good
	s.answer(&port{}, []ipv4.Message{chosen})
	if l := <-leases; l.Type != TypeACK || s.journal.lines != 1 {
		t.Errorf("after the repair %+v and %d lines, want the lease confirmed and written", l, s.journal.lines)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func message(p packet) ipv4.Message {
	b := p.bytes()
	return ipv4.Message{Buffers: [][]byte{b}, N: len(b)}
}
