package inventory

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// document gives the root of the file's only YAML document, nil if it is empty.
func document(content []byte) (root *yaml.Node, err error) {
	defer func() {
		// The YAML library has crashed on malformed input before
		// (go-yaml CVE-2022-28948); a file must not end the program.
		if r := recover(); r != nil {
			root, err = nil, fmt.Errorf("cannot be read as YAML: %v", r)
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var first, second yaml.Node
	if err := decoder.Decode(&first); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	root = content0(&first)
	if err := decoder.Decode(&second); err == nil && content0(&second) != nil && !isNull(content0(&second)) {
		return nil, fmt.Errorf("yaml: line %d: a second document begins", content0(&second).Line)
	} else if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return root, nil
}

func content0(document *yaml.Node) *yaml.Node {
	if document.Kind != yaml.DocumentNode || len(document.Content) == 0 {
		return nil
	}
	return document.Content[0]
}

// at makes a finding at a YAML node.
func at(node *yaml.Node, rule Rule, field, message, hint string) Finding {
	return Finding{Rule: rule, Line: node.Line, Column: node.Column, Field: field, Message: message, Hint: hint}
}

// resolve follows an alias. One level is enough: an alias cannot name an alias.
func resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode && node.Alias != nil {
		return node.Alias
	}
	return node
}

func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

// describe says what is there instead of what was expected.
func describe(node *yaml.Node) string {
	switch node.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "a mapping"
	default:
		return fmt.Sprintf("the text %q", clip(node.Value))
	}
}

// clip shortens a value that a message repeats.
func clip(s string) string {
	const longest = 80
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}

func invalidUTF8(content []byte) int {
	for i := 0; i < len(content); {
		r, size := utf8.DecodeRune(content[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

var linePattern = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?`)

// countedFromZero are the messages for which yaml.v3 gives the line before:
// those of its parser, while its scanner counts from one.
var countedFromZero = []string{
	"did not find expected ',' or", "did not find expected '-' indicator", "did not find expected <document start>",
	"did not find expected <stream-start>", "did not find expected key", "did not find expected node content",
	"found undefined tag handle", "found incompatible YAML document", "found duplicate %",
}

// syntaxFinding takes the line out of the YAML library's message.
func syntaxFinding(err error) Finding {
	message := err.Error()
	m := linePattern.FindStringSubmatch(message)
	line, _ := strconv.Atoi(m[1])
	message = strings.TrimPrefix(message, m[0])
	if line > 0 && slices.ContainsFunc(countedFromZero, func(prefix string) bool { return strings.HasPrefix(message, prefix) }) {
		line++
	}
	return Finding{
		Rule:    RuleSyntax,
		Line:    max(line, 1),
		Message: "the file is not valid YAML: " + message,
		Hint:    "correct this line or the one above it; indent with spaces, not tabs",
	}
}
