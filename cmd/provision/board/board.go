// Package board shows a run on a terminal while it lasts: a row a node, what is
// wrong in words, and the way to more. It displays what it is sent, and decides
// nothing about machines.
package board

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/talos-provision/provision/provisioner/store"
)

// Options say what is shown and where. Out and Now are required.
type Options struct {
	// Title says what is shown, such as the run and its cluster.
	Title string
	// Began is when what is shown began; zero takes the time of New.
	Began time.Time
	// Nodes are the rows to begin with; events add more.
	Nodes []Node
	// Events are those from before, which led to what Nodes are now.
	Events []store.Event
	// Out is the terminal. In is where keys come from; nil takes no keys.
	Out io.Writer
	In  io.Reader
	// Environ is the environment, as os.Environ gives it: TERM and what else tells of the terminal.
	Environ []string
	// Color says whether colours may be used, ASCII that nothing but ASCII may be.
	Color, ASCII bool
	// Interrupt is called at the first Ctrl-C, which then goes on to show the work that ends.
	// Without it Ctrl-C ends the display.
	Interrupt func()
	// Lookup finds more facts of a node that a person looks at; it may be nil.
	Lookup func(ctx context.Context, cluster, node string) ([]Fact, error)
	// Now is the time of day.
	Now func() time.Time
	// Width and Height are the size of an Out that is no terminal; a terminal has its own.
	Width, Height int
}

// End is why a display ended.
type End int

// The ends.
const (
	Closed      End = iota // Close was called, or the context ended
	Left                   // the person wants no display any more
	Interrupted            // Ctrl-C, where there is no Interrupt, or a second one
	Lost                   // the terminal is gone, or cannot do it; the error says more
)

// Board is a display. It is safe for concurrent use; Run is called once. Send and
// Log never wait for the terminal.
type Board struct {
	o       Options
	mu      sync.Mutex
	model   *model
	closing bool
	asked   bool // Ctrl-C was pressed
	end     End
	drawn   frame
}

// frame is what was drawn last, and what it shows.
type frame struct {
	content string
	key     frameKey
}

type frameKey struct {
	version, changes uint64
	second           int64
}

// fps is how often the screen is written to at most in a second: what happens in
// between is drawn together.
const fps = 10

// New makes a display. Nothing is shown before Run.
func New(o Options) *Board {
	return &Board{o: o, model: newModel(o)}
}

// Send shows an event.
func (b *Board) Send(e store.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.model.fleet.Apply(e)
}

// Log shows a line that is about no node.
func (b *Board) Log(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.model.tell(line)
}

// Finishing shows that the work is ending.
func (b *Board) Finishing() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.model.finishing = true
	b.drawn.content = ""
}

// Close has Run return, after what was sent last is drawn.
func (b *Board) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closing = true
}

// Sentence is the state of all nodes in one line.
func (b *Board) Sentence() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.model.fleet.Sentence(b.o.Now())
}

// Run shows the board until Close, until the person leaves, or until ctx ends. The
// terminal is as it was before when it returns.
func (b *Board) Run(ctx context.Context) (End, error) {
	options := []tea.ProgramOption{
		tea.WithContext(ctx), tea.WithOutput(b.o.Out), tea.WithInput(b.o.In), tea.WithEnvironment(b.o.Environ),
		tea.WithFPS(fps), tea.WithoutSignalHandler(),
	}
	if b.o.Width > 0 {
		options = append(options, tea.WithWindowSize(b.o.Width, b.o.Height))
	}
	_, err := tea.NewProgram(program{b}, options...).Run()
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return Closed, nil
	case err != nil && !errors.Is(err, tea.ErrInterrupted):
		return Lost, fmt.Errorf("show the board on the terminal: %w; --no-tui does without it", err)
	}
	return b.end, nil
}

// program is the board as the terminal library sees it.
type program struct{ b *Board }

type tick struct{}

func nextTick() tea.Cmd {
	return tea.Tick(time.Second/fps, func(time.Time) tea.Msg { return tick{} })
}

// Init implements tea.Model.
func (p program) Init() tea.Cmd { return nextTick() }

// Update implements tea.Model.
func (p program) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	b := p.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ticks := msg.(tick); ticks {
		if b.closing {
			return p, tea.Quit
		}
		return p, nextTick()
	}
	b.drawn.content = ""
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		b.model.resize(msg.Width, msg.Height)
	case tea.PasteMsg:
		if b.model.typing {
			b.model.typed(msg.Content)
		}
	case tea.KeyPressMsg:
		return p, b.grant(b.model.press(msg))
	case found:
		b.model.find(msg)
	}
	return p, nil
}

// grant does what a key asked for.
func (b *Board) grant(w wish) tea.Cmd {
	switch w {
	case wishLeave:
		b.end = Left
		return tea.Quit
	case wishInterrupt:
		if b.o.Interrupt == nil || b.asked {
			b.end = Interrupted
			return tea.Quit
		}
		b.asked = true
		b.model.finishing = true
		b.model.notice = "the run is being ended where it can be carried on; Ctrl-C once more ends it at once"
		b.o.Interrupt()
	case wishRedraw:
		return tea.ClearScreen
	case wishSuspend:
		if b.o.Interrupt == nil {
			return tea.Suspend
		}
		b.model.notice = "not stopped: machines that boot need this process. q leaves the board, and the run goes on"
	case wishLook:
		return b.lookup(b.model.node())
	case wishNothing:
	}
	return nil
}

// found are facts that were looked up.
type found struct {
	cluster, node string
	facts         []Fact
	err           error
}

// lookupTimeout bounds the search for facts of one node.
const lookupTimeout = 5 * time.Second

func (b *Board) lookup(r *row) tea.Cmd {
	if b.o.Lookup == nil || r == nil {
		return nil
	}
	f := found{cluster: r.Cluster, node: r.Name}
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
		defer cancel()
		f.facts, f.err = b.o.Lookup(ctx, f.cluster, f.node)
		return f
	}
}

// View implements tea.Model.
func (p program) View() tea.View {
	b := p.b
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.o.Now()
	key := frameKey{b.model.fleet.version, uint64(b.model.logged), now.Unix()}
	if b.drawn.content == "" || b.drawn.key != key {
		b.drawn = frame{b.model.view(now), key}
	}
	v := tea.NewView(b.drawn.content)
	v.AltScreen = true
	if m := b.model; m.typing {
		v.Cursor = tea.NewCursor(min(1+width(m.filter), m.width-1), m.height-1)
	}
	return v
}

// Lines are what was logged, the newest; what is older is counted.
func (b *Board) Lines() (lines []string, older int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.model.log), b.model.logged - len(b.model.log)
}
