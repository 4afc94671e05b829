package discovery

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// Field is one key of a node file and its value.
type Field struct {
	// Name is serial, boardSerial, uuid, macs, bmc.address, or another key of bmc.
	Name string `json:"name"`
	// Values is one value; a list has one for each item.
	Values []string `json:"values"`
}

// anchors are the keys beside which new ones are put, in the order of a file.
var anchors = []string{"serial", "boardSerial", "uuid", "mac", "macs"}

// sectionBMC begins the names of the fields that are in the section bmc.
const sectionBMC = "bmc."

// isList and isFlag tell what is not a text.
func (f Field) isList() bool { return f.Name == "macs" || f.Name == "bmc.passwordCommand" }
func (f Field) isFlag() bool { return f.Name == "bmc.insecure" }

// addFields writes fields that a file lacks into it. Every other byte stays as
// it is: the text is not written anew from what was read, because that would
// lose alignment, quotes and blank lines. The result is read again, and must say
// just what the file said with the fields added.
func addFields(content []byte, fields []Field) ([]byte, error) {
	root, err := readMapping(content)
	if err != nil {
		return nil, err
	}
	e := editor{content: content, lineBreak: "\n", root: root, indent: strings.Repeat(" ", max(0, indentOf(root)-1))}
	if bytes.Contains(content, []byte("\r\n")) {
		e.lineBreak = "\r\n"
	}
	var section []Field
	for _, f := range fields {
		if strings.HasPrefix(f.Name, sectionBMC) {
			section = append(section, f)
			continue
		}
		if err := e.add(f); err != nil {
			return nil, err
		}
	}
	if len(section) > 0 {
		if err := e.addToBMC(section); err != nil {
			return nil, err
		}
	}
	edited := e.apply()
	if err := verify(content, edited, fields); err != nil {
		return nil, err
	}
	return edited, nil
}

// readMapping reads the file's only document; nil means that it is empty.
func readMapping(content []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var document, second yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil //nolint:nilnil // an empty file has no mapping, and that is no error
	} else if err != nil {
		return nil, fmt.Errorf("the file is not YAML: %w", err)
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file has several documents")
	}
	switch root := document.Content[0]; {
	case root.Kind == yaml.MappingNode && len(root.Content) > 0:
		return root, nil
	case root.Kind == yaml.ScalarNode && root.Tag == "!!null" && root.Value == "":
		return nil, nil //nolint:nilnil // as above
	}
	return nil, errors.New("the file is not a mapping of keys to values")
}

// indentOf is the column of a mapping's keys, from 1.
func indentOf(mapping *yaml.Node) int {
	if mapping == nil || mapping.Style&yaml.FlowStyle != 0 {
		return 1
	}
	return mapping.Content[0].Column
}

// verify reads the edited file again.
func verify(before, after []byte, fields []Field) error {
	var want, got map[string]any
	if err := yaml.Unmarshal(before, &want); err != nil {
		return fmt.Errorf("the file is not YAML: %w", err)
	}
	if err := yaml.Unmarshal(after, &got); err != nil {
		return fmt.Errorf("the file is written in a way that cannot be added to: %w", err)
	}
	if want == nil {
		want = map[string]any{}
	}
	for _, f := range fields {
		name, inBMC := strings.CutPrefix(f.Name, sectionBMC)
		if !inBMC {
			want[name] = f.value()
			continue
		}
		section, ok := want["bmc"].(map[string]any)
		if !ok {
			section = map[string]any{}
			want["bmc"] = section
		}
		section[name] = f.value()
	}
	if !reflect.DeepEqual(want, got) {
		return errors.New("the file is written in a way that cannot be added to")
	}
	return nil
}

// value is what a YAML reader must find.
func (f Field) value() any {
	switch {
	case f.isFlag():
		return f.Values[0] == "true"
	case f.isList():
		list := make([]any, len(f.Values))
		for i, v := range f.Values {
			list[i] = v
		}
		return list
	}
	return f.Values[0]
}

// flow is a value on one line.
func flow(f Field) string {
	switch {
	case f.isFlag():
		return f.Values[0]
	case f.isList():
		items := make([]string, len(f.Values))
		for i, v := range f.Values {
			items[i] = scalar(v)
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return scalar(f.Values[0])
}

// block is a value behind its key's colon; the items of a list have a line each.
func block(f Field, indent, lineBreak string) string {
	if !f.isList() {
		return " " + flow(f)
	}
	var b strings.Builder
	for _, v := range f.Values {
		b.WriteString(lineBreak + indent + "- " + scalar(v))
	}
	return b.String()
}

// unquoted is what may stand without quotes in every place of a YAML file.
var unquoted = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/:-]*[A-Za-z0-9])?$`)

// scalar writes a text so that it is read as the same text.
func scalar(text string) string {
	if plain, err := yaml.Marshal(text); err == nil && unquoted.MatchString(text) && string(plain) == text+"\n" {
		return text
	}
	quoted, err := yaml.Marshal(&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Style: yaml.DoubleQuotedStyle})
	if err != nil {
		return `""` // not reached: every text can be quoted; verify would tell
	}
	return strings.TrimSuffix(string(quoted), "\n")
}
