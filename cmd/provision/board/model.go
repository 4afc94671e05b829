package board

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// model is all that is on the screen. Its methods are pure: they know no terminal.
type model struct {
	fleet *Fleet
	title string
	began time.Time
	look  look
	keys  bool // somebody can press keys
	owner bool // Ctrl-C interrupts the run, and does not only end the display

	width, height int

	typing bool
	filter string // what nodes must match to be shown
	order  order

	lines   []line // what the list shows, in its order
	counts  []Count
	shown   int    // nodes among the lines
	names   int    // width of the column of names
	version uint64 // of the fleet that lines shows
	stale   bool   // lines are to be made anew for another reason

	chosen int    // index into lines
	id     string // of the node chosen by the person; "" follows the top of the list
	top    int    // first line on the screen

	pane    pane
	paneTop int

	log       []string // the newest, at most keptLines
	logged    int      // how many there were
	notice    string   // answer to a key, until the next one
	finishing bool
}

// line of the list: a node, or the head of a cluster.
type line struct {
	row  *row
	head string
}

// order is what the list is sorted by, within each cluster.
type order int

const (
	byName order = iota
	byState
	byTime
	byFailure
	orders // how many there are
)

func (o order) String() string {
	return [...]string{"name", "state", "time in state", "failed first"}[o]
}

// pane is what lies over the list.
type pane int

const (
	paneNone pane = iota
	paneNode
	paneHelp
	paneLog
)

// keptLines is how many lines of the log can be looked at while the display is up.
const keptLines = 200

func newModel(o Options) *model {
	m := &model{
		fleet: NewFleet(o.Nodes), title: o.Title, began: o.Began, look: newLook(o.Color, o.ASCII),
		keys: o.In != nil, owner: o.Interrupt != nil, width: 80, height: 24, stale: true,
	}
	for _, e := range o.Events {
		if m.fleet.Knows(e.Cluster, e.Node) {
			m.fleet.Recall(e)
		}
	}
	if m.began.IsZero() {
		m.began = o.Now()
	}
	return m
}

func (m *model) resize(width, height int) {
	m.width, m.height = max(width, 1), max(height, 1)
}

// tell adds a line of the log.
func (m *model) tell(text string) {
	if len(m.log) == keptLines {
		m.log = slices.Delete(m.log, 0, 1)
	}
	m.log = append(m.log, text)
	m.logged++
}

// refresh makes the lines anew when something has changed.
func (m *model) refresh() {
	if m.version == m.fleet.version && !m.stale {
		return
	}
	m.version, m.stale = m.fleet.version, false
	rows := m.matching()
	slices.SortFunc(rows, m.order.compare)
	m.counts, m.shown = m.fleet.Counts(), len(rows)
	m.lines = m.lines[:0]
	several := m.clusters() > 1
	for i, r := range rows {
		if several && (i == 0 || rows[i-1].Cluster != r.Cluster) {
			m.lines = append(m.lines, line{head: r.Cluster})
		}
		m.lines = append(m.lines, line{row: r})
	}
	m.keepChoice()
}

// matching are the nodes that match every word of the filter, and the width of their names.
func (m *model) matching() []*row {
	words := strings.Fields(strings.ToLower(m.filter))
	rows := make([]*row, 0, len(m.fleet.rows))
	m.names = len("NODE")
	for _, r := range m.fleet.rows {
		m.names = max(m.names, len(r.Name)) // of all: a filter does not shift the columns
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(r.matches, w) }) {
			rows = append(rows, r)
		}
	}
	return rows
}

func (m *model) clusters() int {
	n := 0
	for i, r := range m.fleet.rows {
		if i == 0 || r.Cluster != m.fleet.rows[0].Cluster {
			if n++; n > 1 {
				break
			}
		}
	}
	return n
}

// compare orders two nodes: clusters stay together, and names decide last.
func (o order) compare(a, b *row) int {
	if c := cmp.Compare(a.Cluster, b.Cluster); c != 0 {
		return c
	}
	c := 0
	switch o {
	case byState:
		c = cmp.Compare(rank(a.State), rank(b.State))
	case byTime:
		c = a.Since.Compare(b.Since)
	case byFailure:
		c = cmp.Compare(a.urgency(), b.urgency())
	case byName, orders:
	}
	return cmp.Or(c, cmp.Compare(a.Name, b.Name))
}

// urgency orders what a person must look at before what goes well, and that before what is over.
func (r *row) urgency() int {
	switch {
	case r.State == stateFailed:
		return 0
	case r.State == stateHeld:
		return 1
	case r.done():
		return 3
	}
	return 2
}

// keepChoice has the chosen node stay chosen where it is now.
func (m *model) keepChoice() {
	if m.id != "" {
		if at := slices.IndexFunc(m.lines, func(l line) bool { return l.row != nil && l.row.ID() == m.id }); at >= 0 {
			m.chosen = at
			return
		}
	} else {
		m.chosen = 0
	}
	m.choose(m.chosen)
}

// choose moves the choice to a line, or to the nearest one with a node.
func (m *model) choose(at int) {
	at = min(max(at, 0), max(len(m.lines)-1, 0))
	if at < len(m.lines) && m.lines[at].row == nil {
		if at < m.chosen && at > 0 {
			at--
		} else {
			at++ // under the head of a cluster there is a node
		}
	}
	m.chosen = at
}

// node is the chosen node; nil when the list is empty.
func (m *model) node() *row {
	if m.chosen < len(m.lines) {
		return m.lines[m.chosen].row
	}
	return nil
}

// page is how many lines of the list are on the screen.
func (m *model) page() int {
	return max(m.height-m.headLines()-m.footLines(), 1)
}

// scroll moves the list so that the choice is on the screen.
func (m *model) scroll() {
	page := m.page()
	m.top = min(m.top, m.chosen, max(len(m.lines)-page, 0))
	m.top = max(m.top, m.chosen-page+1, 0)
	if m.chosen == 1 && m.lines[0].row == nil && page > 1 {
		m.top = 0 // the head of the first cluster
	}
}
