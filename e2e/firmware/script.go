package firmware

import (
	"errors"
	"strings"
)

// line is one line of a script: an optional label, and a command.
type line struct {
	label   string
	command string
}

// parseScript splits a script into lines, as iPXE's script.c does: it begins
// with "#!ipxe" and a space; a backslash at its end joins a line with the next
// one; a label stands before a command or alone.
func parseScript(text string) ([]line, error) {
	rest, ok := strings.CutPrefix(text, "#!ipxe")
	if !ok || rest == "" || !isSpace(rest[0]) {
		return nil, errors.New("exec format error: this is not a script, it does not begin with #!ipxe")
	}
	var lines []line
	var joined string
	for part := range strings.Lines(text) {
		part = strings.TrimSuffix(strings.TrimSuffix(part, "\n"), "\r")
		joined += strings.TrimSuffix(part, `\`)
		if strings.HasSuffix(part, `\`) {
			continue
		}
		lines = append(lines, parseLine(joined))
		joined = ""
	}
	if joined != "" {
		lines = append(lines, parseLine(joined))
	}
	return lines, nil
}

func parseLine(text string) line {
	text = strings.TrimLeftFunc(text, func(r rune) bool { return r < 0x80 && isSpace(byte(r)) })
	after, labelled := strings.CutPrefix(text, ":")
	if !labelled {
		return line{command: text}
	}
	end := strings.IndexFunc(after, func(r rune) bool { return r < 0x80 && isSpace(byte(r)) })
	if end < 0 {
		return line{label: after}
	}
	return line{label: after[:end], command: after[end+1:]}
}

func isSpace(c byte) bool {
	return c == ' ' || c >= '\t' && c <= '\r'
}

// statement is one command of a line and when the next one follows.
type statement struct {
	argv []string
	next operator
}

// operator stands between two commands of a line.
type operator int

const (
	last operator = iota
	onSuccess
	onFailure
	always
)

var operators = map[string]operator{"&&": onSuccess, "||": onFailure, ";": always}

// proceeds says whether the next command runs.
func (o operator) proceeds(err error) bool {
	switch o {
	case onSuccess:
		return err == nil
	case onFailure:
		return err != nil
	default:
		return o == always
	}
}

// parseCommand splits a line into statements, before settings are expanded: a
// value with a space in it stays one argument. There are no quotes. A token
// that begins with # starts a comment.
func parseCommand(text string) []statement {
	var all []statement
	var current statement
	for token := range strings.FieldsFuncSeq(text, func(r rune) bool { return r < 0x80 && isSpace(byte(r)) }) {
		if token[0] == '#' {
			break
		}
		if op, ok := operators[token]; ok {
			current.next = op
			all = append(all, current)
			current = statement{}
			continue
		}
		current.argv = append(current.argv, token)
	}
	return append(all, current)
}
