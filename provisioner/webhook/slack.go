package webhook

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A message to a chat tells of at most maxLines changes, each of at most maxText
// characters: what is longer is cut by the chat, or refused.
const (
	maxLines = 20
	maxText  = 300
)

// slackEscapes are what a chat takes for more than text.
var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\n", " ", "\r", " ", "\t", " ")

// slackBody is one message of several items.
func slackBody(items []item) ([]byte, error) {
	lines := make([]string, 0, len(items))
	for _, i := range items {
		lines = append(lines, i.line())
	}
	raw, err := json.Marshal(map[string]string{"text": strings.Join(lines, "\n")})
	if err != nil {
		return nil, fmt.Errorf("write a message: %w", err)
	}
	return raw, nil
}

// line is the item for people.
func (i item) line() string {
	if i.finished != nil {
		return i.finished.lines()
	}
	e := i.event
	why := e.Message
	if e.Error != "" {
		why = e.Error
		if e.Hint != "" {
			why += ". What to do: " + e.Hint
		}
	}
	return plain(fmt.Sprintf("%s/%s is %s", e.Cluster, e.Node, e.State), why)
}

// lines are the summary of a run, and what became of the nodes that it gave up.
func (f *Finished) lines() string {
	counts := make([]string, 0, len(f.States))
	for _, state := range slices.Sorted(maps.Keys(f.States)) {
		counts = append(counts, fmt.Sprintf("%d %s", f.States[state], state))
	}
	took := f.Finished.Sub(f.Started).Round(time.Second)
	lines := []string{plain(fmt.Sprintf("The run of %s is over after %s", f.Cluster, took), strings.Join(counts, ", "))}
	for _, p := range f.Problems {
		lines = append(lines, "- "+plain(p.Node+" "+p.State, p.Error))
	}
	if more := f.States["Failed"] + f.States["Held"] - len(f.Problems); more > 0 {
		lines = append(lines, fmt.Sprintf("- and %d more: provision status --cluster %s", more, slackEscapes.Replace(f.Cluster)))
	}
	return strings.Join(lines, "\n")
}

// plain is one line of bounded length in which nothing is markup.
func plain(what, why string) string {
	if why != "" {
		what += ": " + why
	}
	if letters := []rune(what); len(letters) > maxText {
		what = string(letters[:maxText]) + "…"
	}
	return slackEscapes.Replace(what)
}
