package inventory

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/talos-provision/provision/inventory/schematic"
)

// schematicSchema is the vocabulary of a schematic, for editors and for the place
// of a mistake. Package schematic has the last word on what it means.
func schematicSchema() schema {
	scalar := schema{Type: append([]string{"null"}, anyScalar...)}
	words := schema{Type: []string{"array", "null"}, Items: &schema{Type: anyScalar}}
	section := func(properties map[string]*schema) *schema {
		return &schema{Type: []string{"object", "null"}, Properties: properties, AdditionalProperties: false}
	}
	return *section(map[string]*schema{
		"owner": &scalar,
		"overlay": section(map[string]*schema{
			"image": &scalar, "name": &scalar, "options": {Type: []string{"object", "null"}},
		}),
		"customization": section(map[string]*schema{
			"embeddedMachineConfiguration": &scalar,
			"extraKernelArgs":              &words,
			"meta": {Type: []string{"array", "null"}, Items: section(map[string]*schema{
				"key": {Type: []string{"integer", "null"}, Maximum: 255}, "value": &scalar,
			})},
			"systemExtensions": section(map[string]*schema{"officialExtensions": &words}),
			"bootloader":       {Enum: []any{"dual-boot", "sd-boot", "grub", "none", nil}},
			"secureboot": section(map[string]*schema{
				"enrollKeys": &scalar, "includeWellKnownCertificates": {Type: []string{"boolean", "null"}},
			}),
			"diskImage": section(map[string]*schema{"sectorSize": {Type: []string{"integer", "null"}}}),
		}),
	})
}

// forms are what people call the types of the schema, with the kind and the tag
// that a YAML node of it has.
var forms = map[string]struct {
	name, hint string
	kind       yaml.Kind
	tag        string
}{
	"object":  {"a mapping", "write its keys below it, indented", yaml.MappingNode, ""},
	"array":   {"a list", "write \"- \" before each of its values, or [a, b]", yaml.SequenceNode, ""},
	"string":  {"one value", "write it on one line, without brackets", yaml.ScalarNode, ""},
	"boolean": {"true or false", "write true or false without quotes", yaml.ScalarNode, "!!bool"},
	"integer": {"a whole number", "write it without quotes", yaml.ScalarNode, "!!int"},
}

var lineInText = regexp.MustCompile(`line \d+: `)

// readSchematic fills the leaf with the schematic and its id.
func (p *parser) readSchematic(val *yaml.Node, l *leaf) bool {
	if !p.fits(val, schematicSchema(), schematicPath) {
		return false
	}
	read, err := schematic.From(val)
	var id string
	if err == nil {
		id, err = read.ID()
	}
	if err != nil {
		// Its lines are those of a text of its own.
		reason := lineInText.ReplaceAllString(strings.TrimPrefix(err.Error(), "read the schematic: "), "")
		p.drop(at(val, RuleInvalid, schematicPath, "schematic cannot be read: "+reason, "write it as the Image Factory shows it; a plain Talos is {customization: {}}"))
		return false
	}
	l.value.schematic, l.value.text = &read, id
	return true
}

// fits holds a YAML node against a schema, and reports everything that does not
// fit at its own place: a key that is passed over would give another image.
func (p *parser) fits(node *yaml.Node, s schema, path string) bool {
	node = resolve(node)
	if isNull(node) {
		return path != schematicPath
	}
	if names, typed := s.Type.([]string); typed {
		name := names[0]
		if name == "null" {
			name = names[1]
		}
		form := forms[name]
		if node.Kind != form.kind || form.tag != "" && node.ShortTag() != form.tag {
			p.drop(at(node, RuleWrongType, path, fmt.Sprintf("%s must be %s, not %s", path, form.name, describe(node)), form.hint))
			return false
		}
	}
	fits := true
	switch node.Kind {
	case yaml.SequenceNode:
		for i, item := range node.Content {
			fits = p.fits(item, *s.Items, fmt.Sprintf("%s[%d]", path, i)) && fits
		}
	case yaml.MappingNode:
		if s.AdditionalProperties == nil {
			return true // the overlay's own
		}
		fits = p.keysFit(node, s, path)
	case yaml.ScalarNode, yaml.DocumentNode, yaml.AliasNode:
	}
	return fits
}

func (p *parser) keysFit(node *yaml.Node, s schema, path string) bool {
	fits := true
	first := make(map[string]int, len(node.Content)/2)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, below := node.Content[i], path+"."+clip(node.Content[i].Value)
		property, known := s.Properties[key.Value]
		line, twice := first[key.Value]
		first[key.Value] = key.Line
		switch {
		case !known:
			hint := "the keys here are " + strings.Join(slices.Sorted(maps.Keys(s.Properties)), ", ")
			if near := Nearest(key.Value, slices.Sorted(maps.Keys(s.Properties))); near != "" {
				hint = "did you mean " + near + "?"
			}
			p.drop(at(key, RuleUnknownKey, below, "unknown key "+below, hint))
		case twice:
			p.drop(at(key, RuleKeyTwice, below, below+" is given twice", fmt.Sprintf("remove it here or in line %d", line)))
		case p.fits(node.Content[i+1], *property, below):
			continue
		}
		fits = false
	}
	return fits
}

// schematicOnce: an image is named by one of them. That both are given is right
// only if they say the same, such as the id that a person noted beside it.
func schematicOnce(n Node) Findings {
	given := n.values.leaf("schematicID")
	if n.Schematic == nil || given == nil {
		return nil
	}
	id := n.values.leaf(schematicPath).value.text
	if given.value.text == id {
		return nil
	}
	return n.report(RuleTwoSchematics, "schematicID", "remove one of them, or unset the one from above with \"schematicID: null\" or \"schematic: null\"",
		"%s has schematicID %s, but the id of its schematic (%s) is %s", n.Name, clip(given.value.text), n.Origin(schematicPath), id)
}
