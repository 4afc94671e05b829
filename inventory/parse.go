package inventory

import (
	"bytes"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// leaf is one value of one file.
type leaf struct {
	path   string // dotted
	slot   int    // of its field
	value  value
	null   bool // unsets what a folder above gave
	origin Origin
}

// layer is what one file contributes.
type layer struct {
	leaves []leaf
	// damaged says that something was left out, so that what seems to be
	// missing may only be mistyped.
	damaged bool
}

// parser turns the text of one file into a layer and findings.
type parser struct {
	file     string
	layer    layer
	findings Findings
}

// parse reads one file. It keeps the text of scalars, so that "0123", "1e5" and
// "0x1F" stay what was written.
func parse(file string, content []byte) (layer, Findings) {
	p := &parser{file: file}
	if at := invalidUTF8(content); at >= 0 {
		line := 1 + bytes.Count(content[:at], []byte("\n"))
		p.drop(Finding{Rule: RuleNotUTF8, Line: line, Message: "the file is not UTF-8 text", Hint: "save it as UTF-8"})
		return p.layer, p.findings
	}
	root, err := document(content)
	if err != nil {
		p.drop(syntaxFinding(err))
		return p.layer, p.findings
	}
	switch {
	case root == nil || isNull(root):
		return p.layer, nil // an empty file contributes nothing
	case root.Kind != yaml.MappingNode:
		p.drop(at(root, RuleSyntax, "", "the file is not a mapping", "write lines like \"serial: ABC123\""))
	case bytes.IndexByte(content, '*') >= 0 && expandsTooFar(root): // an alias begins with *
		p.drop(at(root, RuleAliases, "", "the file's aliases repeat its values too often", "write the values out"))
	default:
		p.mapping(root, "")
	}
	return p.layer, p.findings
}

// mapping reads the file itself or a section of it.
func (p *parser) mapping(node *yaml.Node, parent string) {
	first := make(map[string]int, len(node.Content)/2)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, val := node.Content[i], resolve(node.Content[i+1])
		if key.Kind != yaml.ScalarNode {
			p.drop(at(key, RuleSyntax, parent, "a key is not a word", "write lines like \"serial: ABC123\""))
			continue
		}
		path := parent + key.Value
		if line, twice := first[key.Value]; twice {
			p.drop(at(key, RuleKeyTwice, path, fmt.Sprintf("%s is given twice", path), fmt.Sprintf("remove it here or in line %d", line)))
			continue
		}
		first[key.Value] = key.Line
		switch {
		case parent == labelsPath+"." && isPassword(key.Value):
			p.drop(clearPassword(key, path, path))
		case parent == labelsPath+".":
			p.label(path, val)
		default:
			p.entry(key, path, parent, val)
		}
	}
}

// entry reads one key that must be one of the fields.
func (p *parser) entry(key *yaml.Node, path, parent string, val *yaml.Node) {
	slot, known := slotOf[path]
	if !known || parent == "" && strings.Contains(key.Value, ".") {
		p.drop(unknownKey(key, path, parent))
		return
	}
	f := fields[slot]
	l := leaf{path: path, slot: slot, origin: Origin{File: p.file, Line: val.Line, Column: val.Column}}
	switch {
	case isNull(val):
		l.null = true
		p.layer.leaves = append(p.layer.leaves, l)
	case f.kind == section || f.kind == free:
		if val.Kind != yaml.MappingNode {
			p.drop(at(val, RuleWrongType, path, path+" must be a mapping", "write its keys below it, indented"))
			return
		}
		p.mapping(val, path+".")
	case p.read(f, val, &l):
		p.layer.leaves = append(p.layer.leaves, l)
	}
}

// read fills the leaf of a text, a flag or a list.
func (p *parser) read(f field, val *yaml.Node, l *leaf) bool {
	switch f.kind {
	case words:
		return p.readWords(f, val, l)
	case image:
		return p.readSchematic(val, l)
	case flag:
		isTrue := strings.EqualFold(val.Value, "true")
		if val.Kind != yaml.ScalarNode || val.ShortTag() != "!!bool" || !isTrue && !strings.EqualFold(val.Value, "false") {
			p.drop(at(val, RuleWrongType, f.path, fmt.Sprintf("%s must be true or false, not %s", f.path, describe(val)), "write true or false without quotes"))
			return false
		}
		l.value.flag = isTrue
	case list:
		if val.Kind != yaml.SequenceNode {
			p.drop(at(val, RuleWrongType, f.path, fmt.Sprintf("%s must be a list, not %s", f.path, describe(val)), "write \"- \" before each of its values, or [a, b]"))
			return false
		}
		for _, item := range val.Content {
			item = resolve(item)
			if !p.isText(f.path, item) {
				return false
			}
			if p.check(f, item) {
				l.value.list = append(l.value.list, item.Value)
			}
		}
	default:
		if !p.isText(f.path, val) {
			return false
		}
		l.value.text = val.Value
		return p.check(f, val)
	}
	return true
}

// readWords fills the leaf of a list that may be written as one text.
func (p *parser) readWords(f field, val *yaml.Node, l *leaf) bool {
	switch {
	case val.Kind == yaml.SequenceNode:
		f.kind = list
		if !p.read(f, val, l) {
			return false
		}
	case !p.isText(f.path, val):
		return false
	default:
		l.value.list = strings.Fields(val.Value)
	}
	return p.judge(f, val, f.whole(l.value.list))
}

func (p *parser) label(path string, val *yaml.Node) {
	l := leaf{path: path, slot: slotOf[labelsPath], origin: Origin{File: p.file, Line: val.Line, Column: val.Column}}
	switch {
	case isNull(val):
		l.null = true
	case !p.isText(path, val):
		return
	default:
		l.value.text = val.Value
	}
	p.layer.leaves = append(p.layer.leaves, l)
}

// isText accepts every scalar but one with a tag of its own, whose text would
// mean something else (!!binary, !vault).
func (p *parser) isText(path string, val *yaml.Node) bool {
	if val.Kind != yaml.ScalarNode {
		p.drop(at(val, RuleWrongType, path, fmt.Sprintf("%s must be one value, not %s", path, describe(val)), "write it on one line, without brackets"))
		return false
	}
	switch val.ShortTag() {
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp", "!!merge":
		return true
	case "!!null":
		p.drop(at(val, RuleWrongType, path, path+" has an empty item", "remove the item"))
	default:
		p.drop(at(val, RuleWrongType, path, fmt.Sprintf("%s has the tag %s", path, val.Tag), "tags are not read: write the plain value"))
	}
	return false
}

// check judges a scalar and tells whether to keep it. A wrong value is kept for
// the comparison with other nodes, unless it may be a secret.
func (p *parser) check(f field, val *yaml.Node) (keep bool) {
	if f.format.check == nil {
		return true
	}
	return p.judge(f, val, f.format.check(val.Value))
}

func (p *parser) judge(f field, val *yaml.Node, problem *problem) (keep bool) {
	if problem == nil {
		return true
	}
	finding := at(val, problem.rule, f.path, f.path+" "+problem.message, problem.hint)
	if problem.secret {
		p.drop(finding)
		return false
	}
	p.report(finding)
	return true
}

// drop reports something that is left out of the layer.
func (p *parser) drop(f Finding) {
	p.layer.damaged = true
	p.report(f)
}

func (p *parser) report(f Finding) {
	f.File, f.Severity = p.file, f.Rule.severity()
	p.findings = append(p.findings, f)
}
