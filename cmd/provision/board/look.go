package board

import (
	"strings"

	"charm.land/lipgloss/v2"
)

// look is how things are drawn. Whatever a colour says, a word or a symbol says too.
type look struct {
	color                             bool
	ellipsis, full, empty, dot        string
	failed, held, done, work, pending string
}

func newLook(color, ascii bool) look {
	if ascii {
		return look{color: color, ellipsis: "~", full: "#", empty: "-", dot: ", ", failed: "x", held: "!", done: "+", work: "*", pending: "."}
	}
	return look{color: color, ellipsis: "…", full: "█", empty: "░", dot: " · ", failed: "✗", held: "!", done: "✓", work: "●", pending: "·"}
}

// symbol is the sign in front of a node.
func (l look) symbol(n Node) string {
	switch {
	case n.State == stateFailed:
		return l.failed
	case n.State == stateHeld:
		return l.held
	case n.done():
		return l.done
	case n.State == statePending || n.State == "":
		return l.pending
	}
	return l.work
}

// ink is a way of writing.
type ink int

const (
	inkPlain ink = iota
	inkBad
	inkWarn
	inkGood
	inkWork
	inkFaint
	inkHead
	inkChosen
)

// of is the ink of a node's state.
func (l look) of(n Node) ink {
	switch {
	case n.State == stateFailed:
		return inkBad
	case n.State == stateHeld:
		return inkWarn
	case n.done():
		return inkGood
	case n.State == statePending || n.State == "":
		return inkFaint
	}
	return inkWork
}

// paint writes text in an ink. The colours are the terminal's own sixteen, which its
// owner has chosen to be readable.
func (l look) paint(i ink, text string) string {
	if !l.color || text == "" {
		return text
	}
	style := lipgloss.NewStyle()
	switch i {
	case inkPlain:
		return text
	case inkBad:
		style = style.Foreground(lipgloss.Red).Bold(true)
	case inkWarn:
		style = style.Foreground(lipgloss.Yellow).Bold(true)
	case inkGood:
		style = style.Foreground(lipgloss.Green)
	case inkWork:
		style = style.Foreground(lipgloss.Cyan)
	case inkFaint:
		style = style.Faint(true)
	case inkHead:
		style = style.Bold(true)
	case inkChosen:
		style = style.Reverse(true)
	}
	return style.Render(text)
}

// bar shows a share of total in so many cells.
func (l look) bar(bytes, total int64, cells int) string {
	share := 0.0
	if total > 0 {
		share = min(max(float64(bytes)/float64(total), 0), 1)
	}
	filled := int(share * float64(cells))
	return strings.Repeat(l.full, filled) + strings.Repeat(l.empty, cells-filled)
}
