package board

import (
	"fmt"
	"slices"
	"time"
)

// paneView is what lies over the list, as far as it has been scrolled.
func (m *model) paneView(now time.Time) []string {
	var lines []string
	switch m.pane {
	case paneNode:
		if r := m.node(); r != nil {
			lines = m.detail(r, now)
		}
	case paneLog:
		lines = m.logPane()
	case paneHelp, paneNone:
		lines = m.helpPane()
	}
	m.paneTop = min(m.paneTop, max(len(lines)-max(m.height-m.footLines(), 1), 0))
	return lines[m.paneTop:]
}

// detail is all that is known of one node.
func (m *model) detail(r *row, now time.Time) []string {
	title := fmt.Sprintf("%s %s of %s: %s", m.look.symbol(r.Node), Clean(r.Name), Clean(r.Cluster), Clean(r.State))
	if span := r.span(now); span != "" {
		title += " for " + span
	}
	if r.Attempts > 0 {
		title += fmt.Sprintf(", power cycled %s in this run", times(r.Attempts))
	}
	var lines []string
	for _, l := range wrap(title, m.width, 2) {
		lines = append(lines, m.look.paint(m.look.of(r.Node), l))
	}
	if r.Message != "" {
		lines = append(lines, wrap("  "+m.message(r, 1<<20), m.width, 4)...)
	}
	if r.Cause != "" {
		lines = append(lines, wrap("  cause: "+Clean(r.Cause), m.width, 4)...)
	}
	if r.Hint != "" {
		lines = append(lines, wrap("  -> "+Clean(r.Hint), m.width, 5)...)
	}
	return append(append(lines, m.facts(r)...), m.events(r, now.Location())...)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// find takes note of what was looked up.
func (m *model) find(f found) {
	if f.err != nil {
		m.notice = cut(Clean("more is not known: "+f.err.Error()), m.width, m.look.ellipsis)
	}
	if r := m.fleet.byID[f.cluster+"/"+f.node]; r != nil && len(f.facts) > 0 {
		r.found = f.facts
	}
}

// facts are those that came with the node, and those that were looked up.
func (m *model) facts(r *row) []string {
	var facts []Fact
	for _, f := range slices.Concat(r.Facts, r.found) {
		if f.Value != "" && !slices.Contains(facts, f) {
			facts = append(facts, f)
		}
	}
	if len(facts) == 0 {
		return nil
	}
	labels := 0
	for _, f := range facts {
		labels = max(labels, width(f.Label))
	}
	lines := []string{""}
	for _, f := range facts {
		lines = append(lines, wrap("  "+fit(f.Label, labels, "")+"  "+Clean(f.Value), m.width, min(labels+4, m.width/2))...)
	}
	return lines
}

// events are what happened to the node, the newest first.
func (m *model) events(r *row, zone *time.Location) []string {
	lines := []string{"", m.look.paint(inkHead, "Events, newest first")}
	for _, e := range slices.Backward(r.events) {
		text := e.Message
		if e.Error != "" {
			text += ": " + e.Error
		}
		head := "  " + e.Time.In(zone).Format(time.TimeOnly) + "  " + fit(Clean(e.State), stateWidth, m.look.ellipsis) + " "
		lines = append(lines, wrap(head+Clean(text), m.width, min(len(head), m.width/3))...)
	}
	if len(r.events) == 0 {
		lines = append(lines, "  none yet")
	}
	return lines
}

func (m *model) logPane() []string {
	lines := []string{m.look.paint(inkHead, fmt.Sprintf("Log, newest first (%d lines)", m.logged))}
	for _, l := range slices.Backward(m.log) {
		lines = append(lines, wrap(Clean(l), m.width, 2)...)
	}
	return lines
}

func (m *model) helpPane() []string {
	leave, interrupt := "end the watching; the run goes on", "the same"
	if m.owner {
		leave, interrupt = "leave the board; the run goes on here in plain lines", "end the run where it can be carried on; twice: at once"
	}
	table := [][2]string{
		{"up down j k", "move"},
		{"PgUp PgDn", "a screen up or down"},
		{"Home End g G", "to the first or the last node"},
		{"/", "show only nodes that match: name, state, cause or any text"},
		{"Esc", "show all nodes again; close what is open"},
		{"s", "sort by name, state, time in state, failed first"},
		{"Enter", "what is known of the node, and its events"},
		{"l", "the log"},
		{"Ctrl-L", "draw the screen anew"},
		{"q", leave},
		{"Ctrl-C", interrupt},
	}
	lines := []string{m.look.paint(inkHead, "Keys")}
	for _, entry := range table {
		lines = append(lines, wrap("  "+fit(entry[0], 13, "")+entry[1], m.width, min(15, m.width/3))...)
	}
	lines = append(lines, "", m.look.paint(inkHead, "Signs"))
	signs := fmt.Sprintf("  %s failed  %s held  %s done  %s at work  %s pending", m.look.failed, m.look.held, m.look.done, m.look.work, m.look.pending)
	return append(lines, wrap(signs, m.width, 2)...)
}
