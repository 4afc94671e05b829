package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"sync"
	"time"

	"github.com/talos-provision/provision/cmd/provision/board"
	"github.com/talos-provision/provision/provisioner/store"
)

// screen is what shows the events of a run while it lasts: a board, or lines with
// a heartbeat between them. The zero screen shows nothing.
type screen struct {
	mu    sync.Mutex
	board *board.Board // while it is up
	pulse *pulse       // where there are lines
}

// shows takes an event. It says whether a board has it, so that no line is needed.
func (s *screen) shows(e store.Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.board != nil {
		s.board.Send(e)
		return true
	}
	if s.pulse != nil {
		s.pulse.note(e)
	}
	return false
}

func (s *screen) set(b *board.Board, p *pulse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.board, s.pulse = b, p
}

// logLines takes the lines of the log. While a board is up it shows them: written
// beside it, they would tear it.
type logLines struct{ *app }

// Write implements io.Writer.
func (l logLines) Write(text []byte) (int, error) {
	l.screen.mu.Lock()
	defer l.screen.mu.Unlock()
	if l.screen.board == nil {
		return l.errOut.Write(text)
	}
	for line := range bytes.Lines(text) {
		l.screen.board.Log(string(bytes.TrimRight(line, "\n")))
	}
	if terminalOf(l.errOut) == nil { // it goes somewhere else, and tears nothing
		return l.errOut.Write(text)
	}
	return len(text), nil
}

// view is what is to be seen of a run.
type view struct {
	title string
	began time.Time
	nodes []board.Node
	// events are those from before, which led to what nodes are now.
	events []store.Event
	// lookup finds more facts of a node; it may be nil.
	lookup func(ctx context.Context, cluster, node string) ([]board.Fact, error)
	// own says that the work is this process's: it goes on without a display, and
	// Ctrl-C ends it. Else the work is only looked at.
	own bool
}

// showing does work while its events are shown, on a board where there is a terminal
// for it. What the work comes to does not depend on the display.
func (s *session) showing(ctx context.Context, v view, work func(context.Context) error) error {
	if v.own {
		defer outliveTerminal()()
	}
	switch {
	case s.asJSON:
		return work(ctx)
	case s.boardable():
		return s.onBoard(ctx, v, work)
	}
	fleet := board.NewFleet(v.nodes)
	return s.inLines(ctx, newPulse(v.began, time.Now, fleet.Apply, func() string { return fleet.Sentence(time.Now()) }), work)
}

// inLines shows events as lines, and that work goes on when there are none.
func (s *session) inLines(ctx context.Context, p *pulse, work func(context.Context) error) error {
	s.screen.set(nil, p)
	defer s.screen.set(nil, nil)
	defer s.beating(ctx, p)()
	return work(ctx)
}

// beating has a pulse be told until stop is called.
func (s *session) beating(ctx context.Context, p *pulse) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		p.beat(ctx, ticker.C, s.line)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// line writes a line between those of events.
func (s *session) line(text string) {
	s.telling.Lock()
	defer s.telling.Unlock()
	say(s.out, "%s\n", text)
}

// display is a board on a terminal, with what ends it.
type display struct {
	*session
	view
	board *board.Board
	guard *guard
	ended chan struct{}
	lines func() // ends the lines that took the board's place; nil without
	stop  context.CancelFunc
}

// closeTimeout is how long a terminal may take to show the last of a board: one
// that takes nothing must not keep the process.
const closeTimeout = 5 * time.Second

func (s *session) onBoard(ctx context.Context, v view, work func(context.Context) error) error {
	working, stop := context.WithCancel(ctx)
	defer stop()
	d := &display{session: s, view: v, ended: make(chan struct{}), stop: stop}
	d.guard = startGuard(ctx, terminalOf(s.out), s.log)
	d.board = board.New(d.options())
	s.screen.set(d.board, nil)
	defer context.AfterFunc(ctx, d.board.Finishing)()
	go d.run(context.WithoutCancel(ctx))
	defer d.close() // also where work panics
	return work(working)
}

func (d *display) options() board.Options {
	o := board.Options{
		Title: d.title, Began: d.began, Nodes: d.nodes, Events: d.events, Lookup: d.lookup, Out: d.out, Environ: os.Environ(), Now: time.Now,
		Color: os.Getenv("NO_COLOR") == "", ASCII: !speaksUTF8(),
	}
	if in := terminalOf(d.in); in != nil {
		o.In = in
	}
	if d.own {
		o.Interrupt = d.stop
	}
	return o
}

// run shows the board until it ends, and goes on without it where it ends first.
func (d *display) run(ctx context.Context) {
	defer close(d.ended)
	end, err := d.board.Run(ctx)
	switch {
	case end == board.Closed:
		return
	case !d.own:
		d.lower(nil)
		d.stop() // nobody looks any more
	case end == board.Interrupted:
		d.guard.release()
		endAtOnce()
	default:
		d.guard.release()
		p := newPulse(d.began, time.Now, d.board.Send, d.board.Sentence)
		d.lower(p)
		d.lines = d.beating(ctx, p)
	}
	if err != nil {
		d.log.Warn("the board ended, and the work goes on", "error", err)
	}
}

// close ends the board and leaves the terminal as it was.
func (d *display) close() {
	d.board.Close()
	select {
	case <-d.ended:
		if d.lines != nil {
			d.lines()
		}
		d.guard.release()
	case <-time.After(closeTimeout):
		d.guard.restore()
	}
	d.lower(nil)
}

// lower takes the board off the screen and tells what was logged meanwhile.
func (d *display) lower(p *pulse) {
	d.screen.mu.Lock()
	defer d.screen.mu.Unlock()
	up := d.screen.board != nil
	d.screen.board, d.screen.pulse = nil, p
	if !up || terminalOf(d.errOut) == nil {
		return // it was written when it came
	}
	lines, older := d.board.Lines()
	if older > 0 {
		say(d.errOut, "(%d older lines of the log are left out: 2>FILE keeps all)\n", older)
	}
	for _, l := range lines {
		say(d.errOut, "%s\n", board.Clean(l))
	}
}

var _ io.Writer = logLines{}
