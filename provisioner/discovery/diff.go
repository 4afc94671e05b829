package discovery

import (
	"fmt"
	"strings"
)

// surroundings is how many unchanged lines a difference shows around a change.
const surroundings = 3

// Diff shows what a change does to a file, in the form of diff -u. An empty
// before is a new file.
func Diff(name string, before, after []byte) string {
	old, updated := splitLines(string(before)), splitLines(string(after))
	var b strings.Builder
	if len(old) == 0 {
		fmt.Fprintf(&b, "--- /dev/null\n+++ %s\n", name)
	} else {
		fmt.Fprintf(&b, "--- %s\n+++ %s\n", name, name)
	}
	for _, h := range hunks(script(old, updated)) {
		h.write(&b)
	}
	return b.String()
}

// splitLines keeps line ends, so that a missing one at the end is a change.
func splitLines(text string) []string {
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// step is one line of a difference: ' ', '-' or '+'.
type step struct {
	kind byte
	text string
}

// script is the way from one text to the other with the fewest changed lines.
func script(old, updated []string) []step {
	head := 0
	for head < len(old) && head < len(updated) && old[head] == updated[head] {
		head++
	}
	foot := 0
	for foot < len(old)-head && foot < len(updated)-head && old[len(old)-1-foot] == updated[len(updated)-1-foot] {
		foot++
	}
	steps := make([]step, 0, len(old)+len(updated))
	for _, line := range old[:head] {
		steps = append(steps, step{' ', line})
	}
	steps = append(steps, middle(old[head:len(old)-foot], updated[head:len(updated)-foot])...)
	for _, line := range old[len(old)-foot:] {
		steps = append(steps, step{' ', line})
	}
	return steps
}

// middle compares what lies between the first and the last change by the
// longest common subsequence. Node files are small, and so is this part.
func middle(old, updated []string) []step {
	common := make([][]int, len(old)+1)
	for i := range common {
		common[i] = make([]int, len(updated)+1)
	}
	for i := len(old) - 1; i >= 0; i-- {
		for j := len(updated) - 1; j >= 0; j-- {
			if old[i] == updated[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var steps []step
	i, j := 0, 0
	for i < len(old) || j < len(updated) {
		switch {
		case i < len(old) && j < len(updated) && old[i] == updated[j]:
			steps = append(steps, step{' ', old[i]})
			i, j = i+1, j+1
		case j == len(updated) || i < len(old) && common[i+1][j] >= common[i][j+1]:
			steps = append(steps, step{'-', old[i]})
			i++
		default:
			steps = append(steps, step{'+', updated[j]})
			j++
		}
	}
	return steps
}

// hunk is a group of changes with its surroundings.
type hunk struct {
	old, updated int // first line of each, from 1
	steps        []step
}

// hunks groups the changes; those whose surroundings touch are one.
func hunks(steps []step) []hunk {
	var found []hunk
	old, updated := 1, 1
	last := -1 // index of the last changed step
	for i, s := range steps {
		if s.kind != ' ' {
			if last < 0 || i-last > 2*surroundings {
				before := min(surroundings, i)
				if last >= 0 {
					found[len(found)-1].steps = append(found[len(found)-1].steps, steps[last+1:last+1+surroundings]...)
				}
				found = append(found, hunk{old - before, updated - before, append([]step(nil), steps[i-before:i]...)})
			} else {
				found[len(found)-1].steps = append(found[len(found)-1].steps, steps[last+1:i]...)
			}
			found[len(found)-1].steps = append(found[len(found)-1].steps, s)
			last = i
		}
		if s.kind != '+' {
			old++
		}
		if s.kind != '-' {
			updated++
		}
	}
	if last >= 0 {
		end := min(len(steps), last+1+surroundings)
		found[len(found)-1].steps = append(found[len(found)-1].steps, steps[last+1:end]...)
	}
	return found
}

func (h hunk) write(b *strings.Builder) {
	old, updated := 0, 0
	for _, s := range h.steps {
		if s.kind != '+' {
			old++
		}
		if s.kind != '-' {
			updated++
		}
	}
	first := h.old
	if old == 0 {
		first-- // diff counts the line before an empty range
	}
	fmt.Fprintf(b, "@@ -%d,%d +%d,%d @@\n", first, old, h.updated, updated)
	for _, s := range h.steps {
		b.WriteByte(s.kind)
		b.WriteString(s.text)
		if !strings.HasSuffix(s.text, "\n") {
			b.WriteString("\n\\ No newline at end of file\n")
		}
	}
}
