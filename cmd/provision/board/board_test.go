package board

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
)

// recorder is a terminal that keeps what is written to it.
type recorder struct {
	mu     sync.Mutex
	text   bytes.Buffer
	frames int
	news   chan struct{}
}

func newRecorder() *recorder { return &recorder{news: make(chan struct{}, 1)} }

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frames++
	n, err := r.text.Write(p)
	select {
	case r.news <- struct{}{}:
	default:
	}
	return n, err
}

// since is what was written after so many bytes, and in how many writes in all.
func (r *recorder) since(n int) (string, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()[n:], r.frames
}

// await waits until a text was written after so many bytes, and returns all of what was.
func (r *recorder) await(t *testing.T, after int, text string) string {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		if got, _ := r.since(after); strings.Contains(got, text) {
			return got
		}
		select {
		case <-r.news:
		case <-timeout:
			got, _ := r.since(after)
			t.Fatalf("%q was not written within 20 s, but %q", text, got)
		}
	}
}

// shown is a board of so many nodes on a recorder of 120x50.
func shown(t *testing.T, nodes int, change func(*Options)) (*Board, *recorder, func() (End, error)) {
	t.Helper()
	r := newRecorder()
	o := Options{Title: "run of demo", Out: r, Environ: []string{"TERM=xterm-256color"}, Color: true, Now: func() time.Time { return noon }, Width: 120, Height: 50}
	for i := range nodes {
		o.Nodes = append(o.Nodes, Node{Cluster: "demo", Name: fmt.Sprintf("node-%05d", i+1), State: "Booting", Since: noon.Add(-time.Minute), Message: "powered on"})
	}
	if change != nil {
		change(&o)
	}
	b := New(o)
	type ended struct {
		end End
		err error
	}
	done := make(chan ended, 1)
	go func() {
		end, err := b.Run(context.WithoutCancel(t.Context()))
		done <- ended{end, err}
	}()
	return b, r, func() (End, error) {
		t.Helper()
		select {
		case e := <-done:
			return e.end, e.err
		case <-time.After(20 * time.Second):
			t.Fatal("the board does not end")
			return 0, nil
		}
	}
}

func event(node int, message string) store.Event {
	return store.Event{Time: noon.Add(-time.Minute), Run: "r", Cluster: "demo", Node: fmt.Sprintf("node-%05d", node), State: "Booting", Previous: "Booting", Message: message}
}

// A screen of 200 nodes is written once; then only what changes is.
func TestOnlyWhatChangesIsWritten(t *testing.T) {
	t.Parallel()
	b, r, end := shown(t, 200, nil)
	r.await(t, 0, "node-00046")
	b.Send(event(46, "settled"))
	whole := len(r.await(t, 0, "settled"))
	b.Send(event(7, "XYZZY"))
	changed := r.await(t, whole, "XYZZY")
	if len(changed) > 100 {
		t.Errorf("%d bytes are written when one node of 200 changes, want 100 at most: %q", len(changed), changed)
	}
	t.Logf("the whole screen: %d bytes; one node changes: %d bytes", whole, len(changed))
	before, frames := r.since(0)
	for i := range 10_000 {
		b.Send(event(1+i%200, fmt.Sprintf("step %d", i)))
	}
	b.Send(event(8, "PLUGH"))
	r.await(t, len(before), "PLUGH")
	if _, after := r.since(0); after-frames > 10 {
		t.Errorf("10,000 events at once are written in %d frames", after-frames)
	}
	b.Close()
	if got, err := end(); got != Closed || err != nil {
		t.Errorf("it ended by %v, %v; want it closed", got, err)
	}
	text, _ := r.since(0)
	if enter, leave := strings.Index(text, "\x1b[?1049h"), strings.LastIndex(text, "\x1b[?1049l"); enter < 0 || leave < enter || !strings.Contains(text[leave:], "\x1b[?25h") {
		t.Errorf("the screen is not left as it was: %q", text[max(len(text)-200, 0):])
	}
}

// Who has 10,000 nodes pays for those that are on the screen.
func TestOnlyWhatIsSeenIsFormatted(t *testing.T) { //nolint:paralleltest // it counts allocations
	few, all := many(100), many(10_000)
	cost := func(m *model) float64 { return testing.AllocsPerRun(20, func() { m.view(noon) }) }
	if a, b := cost(few), cost(all); b > a*1.1 || a < 20 {
		t.Errorf("a view of 10,000 nodes allocates %.0f times, one of 100 nodes %.0f times", b, a)
	}
}

func TestNoColorMeansNoColor(t *testing.T) {
	t.Parallel()
	b, r, end := shown(t, 3, func(o *Options) { o.Color = false })
	b.Send(store.Event{Cluster: "demo", Node: "node-00001", State: "Failed", Message: "no DHCP seen"})
	text := r.await(t, 0, "no DHCP seen")
	b.Close()
	if _, err := end(); err != nil {
		t.Error(err)
	}
	if strings.Contains(text, "\x1b[3") || !strings.Contains(text, "✗") {
		t.Errorf("without colours it is %q", text)
	}
}

// keyboard gives keys to a board, and then nothing.
func keyboard(t *testing.T) (io.Reader, func(string)) {
	t.Helper()
	in, keys := io.Pipe()
	t.Cleanup(func() { _ = keys.Close() })
	return in, func(text string) {
		if _, err := io.WriteString(keys, text); err != nil {
			t.Error(err)
		}
	}
}

// The first Ctrl-C asks the run to end and shows that it does; the second one ends the board.
func TestCtrlCInterruptsOnceThenEnds(t *testing.T) {
	t.Parallel()
	in, press := keyboard(t)
	asked := make(chan struct{}, 2)
	_, r, end := shown(t, 3, func(o *Options) { o.In, o.Interrupt = in, func() { asked <- struct{}{} } })
	r.await(t, 0, "node-00003")
	press("\x03")
	<-asked
	r.await(t, 0, "finishing")
	press("\x03")
	if got, err := end(); got != Interrupted || err != nil {
		t.Errorf("it ended by %v, %v; want it interrupted", got, err)
	}
	if len(asked) != 0 {
		t.Error("the run was asked to end twice")
	}
}

func TestWhoWatchesLeaves(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]End{"q": Left, "\x03": Interrupted} {
		t.Run(fmt.Sprintf("%q", key), func(t *testing.T) {
			t.Parallel()
			in, press := keyboard(t)
			_, r, end := shown(t, 3, func(o *Options) { o.In = in })
			r.await(t, 0, "q leave")
			press(key)
			if got, err := end(); got != want || err != nil {
				t.Errorf("it ended by %v, %v; want %v", got, err, want)
			}
		})
	}
}

// What is known of a node elsewhere is looked up when somebody looks at it.
func TestFactsAreLookedUpWhenANodeIsOpened(t *testing.T) {
	t.Parallel()
	in, press := keyboard(t)
	b, r, end := shown(t, 3, func(o *Options) {
		o.In = in
		o.Lookup = func(ctx context.Context, cluster, node string) ([]Fact, error) {
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("the search has no end")
			}
			if node == "node-00002" {
				return nil, errors.New("the daemon is away")
			}
			return []Fact{{"rack", "r7 for " + cluster + " " + node}}, nil
		}
	})
	r.await(t, 0, "node-00003")
	press("\r")
	r.await(t, 0, "r7 for demo node-00001")
	press("q")
	press("j")
	press("\r")
	r.await(t, 0, "the daemon is away")
	b.Close()
	if _, err := end(); err != nil {
		t.Error(err)
	}
}

// blocked is a terminal that takes nothing.
type blocked struct{ until chan struct{} }

func (b blocked) Write(p []byte) (int, error) {
	<-b.until
	return len(p), nil
}

// A terminal that hangs holds up nobody who has something to show.
func TestNobodyWaitsForTheTerminal(t *testing.T) {
	t.Parallel()
	out := blocked{make(chan struct{})}
	b, _, end := shown(t, 200, func(o *Options) { o.Out = out })
	for i := range 50_000 { // a test that waits here times out
		b.Send(event(1+i%200, "news"))
		b.Log("a line")
	}
	b.Finishing()
	b.Close()
	if lines, older := b.Lines(); len(lines) != keptLines || older != 50_000-keptLines {
		t.Errorf("%d lines are kept and %d are counted", len(lines), older)
	}
	close(out.until)
	if got, err := end(); got != Closed || err != nil {
		t.Errorf("it ended by %v, %v", got, err)
	}
}

// A mistake in the drawing costs the board and nothing else.
func TestAMistakeOfTheBoardIsAnErrorAndNotACrash(t *testing.T) {
	t.Parallel()
	calls := 0 // under the lock of the board
	_, _, end := shown(t, 3, func(o *Options) {
		o.Now = func() time.Time {
			if calls++; calls > 3 {
				panic("a mistake made on purpose")
			}
			return noon.Add(time.Duration(calls) * time.Second)
		}
	})
	if got, err := end(); got != Lost || err == nil {
		t.Errorf("it ended by %v, %v; want it lost, with an error", got, err)
	}
}

func BenchmarkAChangeAmong10000(b *testing.B) {
	m := many(10_000)
	for b.Loop() {
		m.fleet.Apply(event(5000, "news"))
		m.view(noon)
	}
}
