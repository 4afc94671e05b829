package discovery

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// edit is text to put in at an offset.
type edit struct {
	offset int
	text   string
}

// editor collects the edits of one file.
type editor struct {
	content   []byte
	lineBreak string
	indent    string
	root      *yaml.Node
	edits     []edit
}

func (e *editor) add(f Field) error {
	key, value := find(e.root, f.Name)
	switch {
	case key == nil && e.root != nil && e.root.Style&yaml.FlowStyle != 0:
		return e.insertFlow(e.root, f.Name+": "+flow(f))
	case key == nil:
		e.insert(e.anchor(), e.indent+f.Name+":"+block(f, e.indent, e.lineBreak)+e.lineBreak)
		return nil
	case isEmpty(value):
		return e.fill(key, flow(f))
	}
	return fmt.Errorf("it has a value for %s already", f.Name)
}

// isEmpty tells a key that has nothing behind its colon. "null" is something: it
// unsets what the defaults give.
func isEmpty(value *yaml.Node) bool {
	return value.Kind == yaml.ScalarNode && value.Tag == "!!null" && value.Value == ""
}

// addToBMC puts keys into the section bmc.
func (e *editor) addToBMC(fields []Field) error {
	key, section := find(e.root, "bmc")
	pairs := make([]string, len(fields))
	for i, f := range fields {
		name := strings.TrimPrefix(f.Name, sectionBMC)
		if known, _ := find(section, name); known != nil {
			return fmt.Errorf("it has a value for %s already", f.Name)
		}
		pairs[i] = name + ": " + flow(f)
	}
	lines := func(indent string) string {
		return indent + strings.Join(pairs, e.lineBreak+indent) + e.lineBreak
	}
	switch {
	case key == nil && e.root != nil && e.root.Style&yaml.FlowStyle != 0:
		return e.insertFlow(e.root, "bmc: {"+strings.Join(pairs, ", ")+"}")
	case key == nil:
		e.insert(e.end(), e.indent+"bmc:"+e.lineBreak+lines(e.indent+"  "))
		return nil
	case isEmpty(section):
		return e.fill(key, "{"+strings.Join(pairs, ", ")+"}")
	case section.Kind != yaml.MappingNode || len(section.Content) == 0:
		return errors.New("its section bmc is not a mapping with keys")
	case section.Style&yaml.FlowStyle != 0:
		return e.insertFlow(section, strings.Join(pairs, ", "))
	}
	first := section.Content[0]
	e.insert(e.line(first.Line), lines(strings.Repeat(" ", first.Column-1)))
	return nil
}

// find gives the key and the value of a mapping's entry.
func find(mapping *yaml.Node, name string) (key, value *yaml.Node) {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i], mapping.Content[i+1]
		}
	}
	return nil, nil
}

func (e *editor) insert(offset int, text string) {
	e.edits = append(e.edits, edit{offset, text})
}

// insertFlow puts a pair behind the brace that opens a mapping.
func (e *editor) insertFlow(mapping *yaml.Node, pair string) error {
	offset := e.line(mapping.Line) + mapping.Column - 1
	if offset >= len(e.content) || e.content[offset] != '{' {
		return errors.New("its braces cannot be told")
	}
	e.insert(offset+1, pair+", ")
	return nil
}

// fill gives a key that has none its value.
func (e *editor) fill(key *yaml.Node, value string) error {
	offset := e.line(key.Line) + key.Column - 1 + len(key.Value)
	if offset >= len(e.content) || e.content[offset] != ':' {
		return fmt.Errorf("its key %s is written in a way that cannot be filled", key.Value)
	}
	e.insert(offset+1, " "+value)
	return nil
}

// line is the offset of a line, counted from 1.
func (e *editor) line(number int) int {
	offset := 0
	for ; number > 1; number-- {
		next := bytes.IndexByte(e.content[offset:], '\n')
		if next < 0 {
			return len(e.content)
		}
		offset += next + 1
	}
	return offset
}

// anchor is where new keys go: behind the last key that identifies the machine,
// where the end of its value is plain to see, else at the end of the file.
func (e *editor) anchor() int {
	for _, name := range slices.Backward(anchors) {
		key, value := find(e.root, name)
		if key == nil {
			continue
		}
		next := e.line(lastLine(value) + 1)
		if value.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 && next > 0 && e.content[next-1] == '\n' && e.startsAnew(next) {
			return next
		}
		break
	}
	return e.end()
}

func lastLine(n *yaml.Node) int {
	last := n.Line
	for _, child := range n.Content {
		last = max(last, lastLine(child))
	}
	return last
}

// startsAnew tells whether the line at an offset is blank, a comment, a key of
// the root, or the file's end, and so no part of the value before it.
func (e *editor) startsAnew(offset int) bool {
	line, _, _ := bytes.Cut(e.content[offset:], []byte("\n"))
	text := strings.TrimSpace(string(line))
	if text == "" || text[0] == '#' {
		return true
	}
	for i := 0; i < len(e.root.Content); i += 2 {
		if e.line(e.root.Content[i].Line) == offset {
			return true
		}
	}
	return false
}

// end is behind the last line that is not blank.
func (e *editor) end() int {
	text := bytes.TrimRight(e.content, " \t\r\n")
	next := bytes.IndexByte(e.content[len(text):], '\n')
	if next < 0 {
		return len(e.content)
	}
	return len(text) + next + 1
}

// apply gives the text with the edits in it. Those at one place keep their order.
func (e *editor) apply() []byte {
	slices.SortStableFunc(e.edits, func(a, b edit) int { return a.offset - b.offset })
	var out bytes.Buffer
	from := 0
	for _, edit := range e.edits {
		out.Write(e.content[from:edit.offset])
		from = edit.offset
		if edit.offset == len(e.content) && out.Len() > 0 && out.Bytes()[out.Len()-1] != '\n' {
			out.WriteString(e.lineBreak)
		}
		out.WriteString(edit.text)
	}
	out.Write(e.content[from:])
	return out.Bytes()
}
