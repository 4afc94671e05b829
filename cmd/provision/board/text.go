package board

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"charm.land/lipgloss/v2"
)

// Span is a time in the two units that matter, such as 45s, 2m31s, 1h02m and 5d04h.
func Span(d time.Duration) string {
	d = max(d, 0).Truncate(time.Second)
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
}

// Clean makes text of machines fit for a terminal: on one line, and without what a
// terminal would take for a command.
func Clean(text string) string { return strings.TrimSpace(printable(text)) }

// printable is Clean with the blanks at both ends.
func printable(text string) string {
	if plain(text) {
		return text
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

// plain says whether each byte of the text is one printable cell.
func plain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

func width(text string) int {
	if plain(text) {
		return len(text)
	}
	return lipgloss.Width(text)
}

// cut shortens clean text to so many cells, and shows that it did.
func cut(text string, cells int, ellipsis string) string {
	if width(text) <= cells {
		return text
	}
	room := cells - width(ellipsis)
	if room <= 0 {
		ellipsis, room = "", max(cells, 0)
	}
	for i, r := range text {
		if room -= width(string(r)); room < 0 {
			return text[:i] + ellipsis
		}
	}
	return text
}

// fit is cut, filled up with blanks.
func fit(text string, cells int, ellipsis string) string {
	text = cut(text, cells, ellipsis)
	return text + strings.Repeat(" ", max(cells-width(text), 0))
}

// wrap breaks clean text into lines of so many cells, at blanks where there are some;
// the lines after the first are indented.
func wrap(text string, cells, indent int) []string {
	cells = max(cells, 1)
	if indent >= cells {
		indent = 0
	}
	var lines []string
	for width(text) > cells {
		head := cut(text, cells, "")
		if head == "" { // a character wider than the screen
			break
		}
		if at := strings.LastIndexByte(head, ' '); at > indent && !strings.HasPrefix(text[len(head):], " ") {
			head = head[:at]
		}
		lines = append(lines, head)
		text = strings.Repeat(" ", indent) + strings.TrimLeft(text[len(head):], " ")
	}
	return append(lines, text)
}
