package machineconfig

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"gopkg.in/yaml.v3"
)

// maxConfig bounds a file in bytes. Talos takes a gRPC message of 4 MiB.
const maxConfig = 4 << 20

// document is one YAML document of a config.
type document struct {
	kind    string // "v1alpha1" for the document without a kind
	content []byte // as written, without the marker
	root    *yaml.Node
}

// separator is the line between documents: it ends a document wherever it
// stands, even within a block of text (YAML 1.2, 9.1.2 c-forbidden).
var separator = regexp.MustCompile(`(?m)^---(?:[ \t].*)?\r?$\n?`)

// documentsOf splits a config into its documents. It fails on what is not YAML,
// and when there is no document.
func documentsOf(data []byte) ([]document, error) {
	if len(data) > maxConfig {
		return nil, fmt.Errorf("it has %d bytes, and Talos takes %d: this is no machine config", len(data), maxConfig)
	}
	var documents []document
	line := 0
	for _, part := range split(data) {
		root, err := parse(part)
		if err != nil {
			return nil, misreadYAML(err, line)
		}
		if root != nil {
			documents = append(documents, document{kind: kindOf(root), content: part, root: root})
		}
		line += bytes.Count(part, []byte("\n")) + 1
	}
	if len(documents) == 0 {
		return nil, errors.New("it is empty")
	}
	return documents, nil
}

// split cuts at the lines with "---".
func split(data []byte) [][]byte {
	var parts [][]byte
	begin := 0
	for _, cut := range separator.FindAllIndex(data, -1) {
		parts = append(parts, data[begin:cut[0]])
		begin = cut[1]
	}
	return append(parts, data[begin:])
}

// parse gives the mapping of one document, nil if it is empty.
func parse(part []byte) (root *yaml.Node, err error) {
	defer func() {
		// The YAML library has crashed on malformed input before
		// (go-yaml CVE-2022-28948); a file must not end the program.
		if r := recover(); r != nil {
			root, err = nil, errors.New("it cannot be read as YAML")
		}
	}()
	var node yaml.Node
	if err := yaml.Unmarshal(part, &node); err != nil {
		return nil, err
	}
	if len(node.Content) == 0 || node.Content[0].ShortTag() == "!!null" {
		return nil, nil
	}
	if node.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: it is not a mapping", node.Content[0].Line)
	}
	return node.Content[0], nil
}

var lineOfError = regexp.MustCompile(`line (\d+): `)

// misreadYAML says where a document is broken, counted from the begin of the file.
func misreadYAML(err error, before int) error {
	message := err.Error()
	if m := lineOfError.FindStringSubmatchIndex(message); m != nil {
		if line, convErr := strconv.Atoi(message[m[2]:m[3]]); convErr == nil {
			return atLine{line + before, "it is not YAML: " + withoutValues(message[m[1]:])}
		}
	}
	return errors.New("it is not YAML: " + withoutValues(message))
}

// atLine is what is wrong at a line of a file, which is named elsewhere.
type atLine struct {
	line    int
	message string
}

func (e atLine) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.message) }

// kindOf is the kind of a document; the old one without a kind is "v1alpha1".
func kindOf(root *yaml.Node) string {
	if kind := scalar(root, "kind"); kind != "" {
		return kind
	}
	return "v1alpha1"
}

// find walks down mappings; nil when there is no such value.
func find(node *yaml.Node, path ...string) *yaml.Node {
	for _, key := range path {
		if node == nil {
			return nil
		}
		if node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		if node == nil || node.Kind != yaml.MappingNode {
			return nil
		}
		var child *yaml.Node
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == key {
				child = node.Content[i+1]
			}
		}
		node = child
	}
	if node != nil && node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}

// scalar is the text of a value; "" when there is none.
func scalar(node *yaml.Node, path ...string) string {
	found := find(node, path...)
	if found == nil || found.Kind != yaml.ScalarNode || found.ShortTag() == "!!null" {
		return ""
	}
	return found.Value
}
