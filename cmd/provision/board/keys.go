package board

import (
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
)

// wish is what a key asks of the outside of the model.
type wish int

const (
	wishNothing   wish = iota
	wishLeave          // end the display
	wishInterrupt      // Ctrl-C
	wishRedraw         // the screen is torn
	wishSuspend        // Ctrl-Z
	wishLook           // a node is looked at
)

// press is a key.
func (m *model) press(k tea.KeyPressMsg) wish {
	m.notice = ""
	name := k.String()
	if w, global := map[string]wish{"ctrl+c": wishInterrupt, "ctrl+l": wishRedraw, "ctrl+z": wishSuspend}[name]; global {
		return w
	}
	if m.typing {
		m.edit(k)
		return wishNothing
	}
	if m.pane != paneNone {
		return m.pressPane(name)
	}
	return m.pressList(name)
}

func (m *model) pressList(name string) wish {
	switch name {
	case "q":
		return wishLeave
	case "/":
		m.typing = true
	case "esc":
		m.setFilter("")
	case "s":
		m.order = (m.order + 1) % orders
		m.stale = true
	case "enter":
		if m.node() != nil {
			m.open(paneNode)
			return wishLook
		}
	case "?", "h":
		m.open(paneHelp)
	case "l":
		m.open(paneLog)
	default:
		if by, moves := m.step(name); moves {
			m.refresh()
			m.choose(m.chosen + by)
			if r := m.node(); r != nil {
				m.id = r.ID()
			}
		}
	}
	return wishNothing
}

// step is how many lines a key moves.
func (m *model) step(name string) (by int, moves bool) {
	const far = 1 << 30
	by, moves = map[string]int{
		"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -m.page(), "pgdown": m.page(), "ctrl+b": -m.page(), "ctrl+f": m.page(),
		"home": -far, "g": -far, "end": far, "G": far,
	}[name]
	return by, moves
}

func (m *model) open(p pane) { m.pane, m.paneTop = p, 0 }

func (m *model) pressPane(name string) wish {
	switch name {
	case "esc", "enter", "q", "?", "backspace":
		m.pane = paneNone
	default:
		if by, moves := m.step(name); moves {
			m.paneTop = max(m.paneTop+by, 0) // its end is known when it is drawn
		}
	}
	return wishNothing
}

// maxFilter is how much can be typed, in bytes.
const maxFilter = 200

// edit is a key while the filter is typed.
func (m *model) edit(k tea.KeyPressMsg) {
	switch k.String() {
	case "enter":
		m.typing = false
	case "esc":
		m.typing = false
		m.setFilter("")
	case "backspace":
		_, last := utf8.DecodeLastRuneInString(m.filter)
		m.setFilter(m.filter[:len(m.filter)-last])
	case "ctrl+u":
		m.setFilter("")
	case "ctrl+w":
		kept := strings.TrimRight(m.filter, " ")
		m.setFilter(kept[:strings.LastIndexByte(kept, ' ')+1])
	default:
		m.typed(k.Text)
	}
}

// typed adds text to the filter, typed or pasted.
func (m *model) typed(text string) {
	if text = m.filter + printable(text); len(text) <= maxFilter {
		m.setFilter(text)
	}
}

func (m *model) setFilter(text string) {
	m.filter = text
	m.stale = true
}
