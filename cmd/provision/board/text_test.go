package board

import (
	"strings"
	"testing"
	"time"
	"unicode"
)

func TestATimeIsToldInTheUnitsThatMatter(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 59*time.Second + 999*time.Millisecond: "59s", time.Minute: "1m00s", 151 * time.Second: "2m31s",
		time.Hour - time.Second: "59m59s", time.Hour + 2*time.Minute: "1h02m", 24 * time.Hour: "1d00h", 124 * time.Hour: "5d04h",
	} {
		if got := Span(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestTextOfMachinesCommandsNoTerminal(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain": "plain", " a\nb\tc ": "a b c", "\x1b[2Jgone": "[2Jgone", "a\u202eb\u200b": "ab", "\x9b31m": "?31m", "Gerät №5": "Gerät №5", "\u0085x": "x",
	} {
		if got := Clean(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

// Whatever a BMC says, a line is no wider than the screen, and nothing gets lost by wrapping.
func FuzzTextFitsTheScreen(f *testing.F) {
	f.Add("initramfs 46 % of 34 MB", 12, 4)
	f.Add("世界 is wide", 1, 0)
	f.Add("a\x1b]0;title\x07b e\u0301e\u0301", 3, 2)
	f.Add(strings.Repeat("x", 300), 40, 39)
	f.Fuzz(func(t *testing.T, text string, cells, indent int) {
		cells, indent = max(cells%200, -cells%200, 2), max(indent%50, -indent%50)
		text = Clean(text)
		for _, r := range text {
			if unicode.IsControl(r) {
				t.Fatalf("%q holds the control character %U", text, r)
			}
		}
		if got := fit(text, cells, "…"); width(got) != cells && !strings.ContainsFunc(text, func(r rune) bool { return width(string(r)) != 1 }) {
			t.Errorf("%q in %d cells is %q", text, cells, got)
		}
		if got := cut(text, cells, "…"); width(got) > cells {
			t.Errorf("%q cut to %d cells is %q", text, cells, got)
		}
		lines := wrap(text, cells, indent)
		for _, l := range lines {
			if width(l) > cells {
				t.Errorf("the line %q of %q is wider than %d", l, text, cells)
			}
		}
		bare := func(s string) string { return strings.ReplaceAll(s, " ", "") }
		if got := bare(strings.Join(lines, "")); got != bare(text) {
			t.Errorf("%q is wrapped into %q", text, lines)
		}
	})
}
