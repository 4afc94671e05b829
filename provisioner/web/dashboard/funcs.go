package dashboard

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/talos-provision/provision/inventory"
)

// maxText is how many characters of a text that a machine or an address brings are shown
// where a line is meant.
const maxText = 300

// funcs are what templates may call.
func funcs(o Options, f *files) template.FuncMap {
	return template.FuncMap{
		"static":  f.url,
		"nodeURL": nodeURL,
		"runURL":  runURL,
		"cluster": clusterURL,
		"docs":    func(page string) string { return o.Docs + page },
		"group":   groupOf,
		"number":  number,
		"text":    func(s string) string { return clip(s, maxText) },
		"ago":     func(t time.Time) string { return ago(o.Now().Sub(t)) },
		"iso":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"utc":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" },
		"brief":   func(t time.Time) string { return brief(t, o.Now()) },
		"clock":   func(t time.Time) string { return t.UTC().Format("15:04:05") },
		"short":   func(s string) string { return firstOf(s, 12) },
		"split":   func(id string) []string { c, n, _ := strings.Cut(id, "/"); return []string{c, n} },
		"add":     func(a, b int) int { return a + b },
		"key":     elementID,
		"isError": func(f inventory.Finding) bool { return f.Severity == inventory.Error },
		"took":    func(from, to time.Time) string { return short(to.Sub(from)) },
	}
}

// nodeURL is the page of a node. Names come from files and may be anything.
func nodeURL(cluster, node string) string {
	return "/nodes/" + url.PathEscape(cluster) + "/" + url.PathEscape(node)
}

func clusterURL(cluster string) string { return "/clusters/" + url.PathEscape(cluster) }

func runURL(id string) string { return "/runs/" + url.PathEscape(id) }

// elementID names an element of something with any name.
func elementID(kind string, names ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(names, "/")))
	return kind + "-" + hex.EncodeToString(sum[:6])
}

// brief is a time in UTC where there is little room: of today the hour, else the day.
func brief(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	if t.Year() == now.Year() && t.YearDay() == now.YearDay() {
		return t.Format("15:04:05")
	}
	return t.Format(time.DateOnly)
}

// number groups the digits of a count.
func number(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// ago is a time that has passed, for a person.
func ago(d time.Duration) string {
	if d < 0 {
		return "just now"
	}
	return short(d) + " ago"
}

// short is a duration in its two greatest units.
func short(d time.Duration) string {
	s := int(d / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", max(s, 0))
	case s < 3600:
		return fmt.Sprintf("%d min", s/60)
	case s < 86400:
		return fmt.Sprintf("%d h %d min", s/3600, s/60%60)
	}
	return fmt.Sprintf("%d d %d h", s/86400, s/3600%24)
}

// firstOf is the beginning of a text, in whole characters.
func firstOf(s string, most int) string {
	n := 0
	for at := range s {
		if n == most {
			return s[:at]
		}
		n++
	}
	return s
}

// clip makes a text that a machine sent fit for a line: not longer than most
// characters, and without those that turn the writing of what follows around or
// cannot be seen.
func clip(s string, most int) string {
	short := firstOf(s, most)
	cleaned := strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) || unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '\uFFFD'
		}
		return r
	}, short)
	if len(short) < len(s) {
		cleaned += "…"
	}
	return cleaned
}
