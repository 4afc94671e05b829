package board

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Widths of the columns after the name, without the blank between them.
const (
	stateWidth = 11 // Maintenance
	spanWidth  = 6  // 59m59s
	tryWidth   = 3
	barWidth   = 12
	wideEnough = 60 // from this width on there is room for the less important
)

// view is the whole screen, exactly as high as it is.
func (m *model) view(now time.Time) string {
	m.refresh()
	m.scroll()
	var lines []string
	if m.pane == paneNone {
		lines = append(m.head(now), m.list(now)...)
	} else {
		lines = m.paneView(now)
	}
	foot := m.foot()
	room := max(m.height-len(foot), 0)
	for len(lines) < room {
		lines = append(lines, "")
	}
	lines = append(lines[:room], foot...)
	return strings.Join(lines[:min(len(lines), m.height)], "\n")
}

// headLines is how high the head is: what is known least is left out first.
func (m *model) headLines() int {
	switch {
	case m.height >= 7:
		return 3
	case m.height >= 5:
		return 2
	case m.height >= 3:
		return 1
	}
	return 0
}

func (m *model) head(now time.Time) []string {
	lines := []string{m.countLine(), m.titleLine(now), m.columns()}
	switch m.headLines() {
	case 3:
		return []string{lines[1], lines[0], lines[2]}
	case 2:
		return []string{lines[0], lines[2]}
	case 1:
		return lines[:1]
	}
	return nil
}

// titleLine says what is shown, and for how long it has been going on.
func (m *model) titleLine(now time.Time) string {
	elapsed := Span(now.Sub(m.began))
	if m.finishing {
		elapsed = "finishing, " + elapsed
	}
	room := m.width - len(elapsed) - 1
	if room < 4 {
		return cut(elapsed, m.width, "")
	}
	return m.look.paint(inkHead, fit(Clean(m.title), room, m.look.ellipsis)) + " " + elapsed
}

// countLine says how many nodes are in each state.
func (m *model) countLine() string {
	text := fmt.Sprintf("%d nodes: ", m.fleet.Len())
	if m.fleet.Len() == 1 {
		text = "1 node: "
	}
	if m.fleet.Len() == 0 {
		return cut("no node yet", m.width, m.look.ellipsis)
	}
	left := m.width - len(text)
	painted := cut(text, m.width, "")
	for i, c := range m.counts {
		word := fmt.Sprintf("%d %s", c.Nodes, Clean(c.State))
		if i > 0 {
			word = m.look.dot + word
		}
		if width(word) > left {
			painted += cut(m.look.ellipsis, left, "")
			break
		}
		left -= width(word)
		painted += m.look.paint(m.look.of(Node{State: c.State}), word)
	}
	return painted
}

// nameWidth is the width of the column of names.
func (m *model) nameWidth() int { return min(m.names, max(m.width/3, 8)) }

func (m *model) columns() string {
	text := "    " + fit("NODE", m.nameWidth(), "") + " " + fit("STATE", stateWidth, "") + " " + fmt.Sprintf("%*s", spanWidth, "FOR")
	if m.width >= wideEnough {
		text += " TRY"
	}
	return m.look.paint(inkFaint, cut(text+" MESSAGE", m.width, ""))
}

// list is the part of the list that is on the screen. Nothing else is formatted.
func (m *model) list(now time.Time) []string {
	if len(m.lines) == 0 && m.filter != "" {
		return []string{cut("  no node matches", m.width, m.look.ellipsis)}
	}
	end := min(m.top+m.page(), len(m.lines))
	lines := make([]string, 0, end-m.top)
	for i := m.top; i < end; i++ {
		l := m.lines[i]
		if l.row == nil {
			lines = append(lines, m.look.paint(inkHead, cut(Clean(l.head), m.width, m.look.ellipsis)))
			continue
		}
		lines = append(lines, m.node1(l.row, i == m.chosen, now))
	}
	return lines
}

// node1 is the line of one node.
func (m *model) node1(r *row, chosen bool, now time.Time) string {
	marker := "  "
	if chosen && m.keys {
		marker = "> "
	}
	name := fit(Clean(r.Name), m.nameWidth(), m.look.ellipsis)
	if chosen && m.keys {
		name = m.look.paint(inkChosen, name)
	}
	ink := m.look.of(r.Node)
	used := 2 + 2 + m.nameWidth() + 1 + stateWidth + 1 + spanWidth + 1
	text := marker + m.look.paint(ink, m.look.symbol(r.Node)) + " " + name + " " +
		m.look.paint(ink, fit(Clean(r.State), stateWidth, m.look.ellipsis)) + " " + fmt.Sprintf("%*s", spanWidth, r.span(now)) + " "
	if m.width >= wideEnough {
		try := ""
		if r.Attempts > 0 {
			try = strconv.Itoa(r.Attempts)
		}
		text += fmt.Sprintf("%*s ", tryWidth, try)
		used += tryWidth + 1
	}
	if used > m.width { // too narrow for columns: the name and the state
		return cut(marker+m.look.symbol(r.Node)+" "+fit(Clean(r.Name), m.nameWidth(), m.look.ellipsis)+" "+Clean(r.State), m.width, m.look.ellipsis)
	}
	return text + m.message(r, m.width-used)
}

// span is for how long the node has been in its state.
func (r *row) span(now time.Time) string {
	if r.Since.IsZero() {
		return ""
	}
	return Span(now.Sub(r.Since))
}

// message is the last thing that happened, with a bar while something is downloaded.
func (m *model) message(r *row, cells int) string {
	bar := ""
	if p := r.progress; p != nil && p.Total > 0 && cells >= 2*barWidth {
		bar = m.look.bar(p.Bytes, p.Total, barWidth) + " "
		cells -= barWidth + 1
	}
	text := r.Message
	if r.Error != "" {
		text += ": " + r.Error
	}
	return bar + cut(Clean(text), cells, m.look.ellipsis)
}

func (m *model) footLines() int {
	switch {
	case m.height < 2:
		return 0
	case m.logged > 0 && m.height >= 6:
		return 2
	}
	return 1
}

// foot are the newest line of the log and the keys.
func (m *model) foot() []string {
	lines := []string{m.keyLine()}
	if m.logged > 0 {
		prefix := "log: "
		if m.logged > 1 {
			prefix = fmt.Sprintf("log (%d): ", m.logged)
		}
		lines = []string{m.look.paint(inkWarn, cut(prefix+Clean(m.log[len(m.log)-1]), m.width, m.look.ellipsis)), lines[0]}
	}
	return lines[len(lines)-m.footLines():]
}

// keyLine is the last line: what is typed, an answer, or what can be pressed.
func (m *model) keyLine() string {
	switch {
	case m.typing:
		return cut("/"+m.filter, m.width-1, "")
	case m.notice != "":
		return m.look.paint(inkWarn, cut(m.notice, m.width, m.look.ellipsis))
	case !m.keys:
		return ""
	}
	text := "? help"
	for _, word := range m.keyWords() {
		if longer := text + "  " + word; width(longer) <= m.width {
			text = longer
		}
	}
	return m.look.paint(inkFaint, cut(text, m.width, ""))
}

func (m *model) keyWords() []string {
	if m.pane != paneNone {
		return []string{"Esc back", "up/down scroll"}
	}
	words := []string{"/ filter", "s sort: " + m.order.String(), "Enter details"}
	if filter := m.filter; filter != "" {
		words[0] = fmt.Sprintf("filter %q: %d of %d, Esc all", Clean(filter), m.shown, m.fleet.Len())
	}
	if m.owner {
		words = append(words, "^C interrupt", "q plain lines")
	} else {
		words = append(words, "q leave")
	}
	if m.logged > 0 {
		words = append(words, "l log")
	}
	return words
}
