package inventory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// schemaID is where editors find the published schema.
const schemaID = "https://raw.githubusercontent.com/talos-provision/provision/main/docs/inventory.schema.json"

// schema is the part of JSON Schema (draft 2020-12) that the inventory needs.
// Its keywords mean the same in draft 7, which some editors still read.
type schema struct {
	Schema      string             `json:"$schema,omitempty"`
	ID          string             `json:"$id,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        any                `json:"type,omitempty"` // a name or a list of names
	Enum        []any              `json:"enum,omitempty"`
	Pattern     string             `json:"pattern,omitempty"`
	Minimum     int                `json:"minimum,omitempty"`
	Maximum     int                `json:"maximum,omitempty"`
	MinItems    int                `json:"minItems,omitempty"`
	AnyOf       []schema           `json:"anyOf,omitempty"`
	Not         *schema            `json:"not,omitempty"`
	Items       *schema            `json:"items,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	// AdditionalProperties is false or a schema.
	AdditionalProperties any     `json:"additionalProperties,omitempty"`
	PropertyNames        *schema `json:"propertyNames,omitempty"`
	Examples             []any   `json:"examples,omitempty"`
}

// Schema is the JSON Schema of an inventory file, a node's or a _defaults.yaml,
// made from the table of fields. Every field may be null, which unsets what a
// folder above gave. What takes several files to judge is not in it.
func Schema() ([]byte, error) {
	root := schema{
		Schema: "https://json-schema.org/draft/2020-12/schema", ID: schemaID,
		Title:       "provision inventory file",
		Description: "A node, or the _defaults.yaml of a folder. The node's hostname is the name of its file.",
		Type:        []string{"object", "null"}, Properties: map[string]*schema{}, AdditionalProperties: false,
	}
	for i := range fields {
		f := &fields[i]
		holder := &root
		key := f.path
		if parent, child, nested := strings.Cut(f.path, "."); nested {
			holder, key = root.Properties[parent], child
		}
		holder.Properties[key] = f.schema()
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false) // patterns hold <, > and &
	if err := encoder.Encode(root); err != nil {
		return nil, fmt.Errorf("write the schema of the inventory: %w", err)
	}
	return out.Bytes(), nil
}

// schema describes one field.
func (f field) schema() *schema {
	s := f.shape()
	s.Description = f.doc
	if f.kind == text {
		s.Examples = []any{f.example}
	}
	return &s
}

// shape is the form that the field's kind and format give its value, or null.
func (f field) shape() schema {
	scalar := f.format.schema
	if f.format.check == nil {
		scalar = schema{Type: anyScalar}
	}
	null := schema{Type: "null"}
	switch f.kind {
	case flag:
		return schema{Type: []string{"boolean", "null"}}
	case list:
		return schema{Type: []string{"array", "null"}, Items: &scalar}
	case words:
		return schema{AnyOf: []schema{{Type: "array", Items: &scalar, MinItems: 1}, pattern(`\S`), null}}
	case section:
		return schema{Type: []string{"object", "null"}, Properties: map[string]*schema{}, AdditionalProperties: false}
	case free:
		return schema{
			Type: []string{"object", "null"}, AdditionalProperties: schema{Type: append([]string{"null"}, anyScalar...)},
			PropertyNames: &schema{Not: matching(`[Pp][Aa][Ss][Ss]([Ww][Oo][Rr][Dd]|[Ww][Dd]|[Pp][Hh][Rr][Aa][Ss][Ee])`)},
		}
	case image:
		return schematicSchema()
	default:
		return schema{AnyOf: []schema{scalar, null}}
	}
}
