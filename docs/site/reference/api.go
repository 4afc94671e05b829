package reference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// openAPI is what the page needs of the document.
type openAPI struct {
	Paths      orderedPaths `json:"paths"`
	Components struct {
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
}

type orderedPaths []apiPath

type apiPath struct {
	path    string
	methods map[string]operation
}

// UnmarshalJSON keeps the order of the document, which is that of a reader's needs.
func (o *orderedPaths) UnmarshalJSON(raw []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if _, err := decoder.Token(); err != nil {
		return err
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return err
		}
		name, isText := key.(string)
		if !isText {
			return fmt.Errorf("a path is no text: %v", key)
		}
		p := apiPath{path: name}
		if err := decoder.Decode(&p.methods); err != nil {
			return fmt.Errorf("path %s: %w", name, err)
		}
		*o = append(*o, p)
	}
	return nil
}

type operation struct {
	Summary     string                `json:"summary"`
	Description string                `json:"description"`
	Parameters  []parameter           `json:"parameters"`
	RequestBody *body                 `json:"requestBody"`
	Responses   map[string]body       `json:"responses"`
	Security    []map[string][]string `json:"security"`
}

type parameter struct {
	Name        string `json:"name"`
	In          string `json:"in"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
}

type body struct {
	Description string `json:"description"`
	Content     map[string]struct {
		Schema schema `json:"schema"`
	} `json:"content"`
}

type schema struct {
	Ref                  string            `json:"$ref"`
	Type                 string            `json:"type"`
	Format               string            `json:"format"`
	Description          string            `json:"description"`
	Enum                 []string          `json:"enum"`
	Items                *schema           `json:"items"`
	Required             []string          `json:"required"`
	Properties           map[string]schema `json:"properties"`
	AllOf                []schema          `json:"allOf"`
	AdditionalProperties json.RawMessage   `json:"additionalProperties"`
}

const apiHead = `# The admin API

<!-- Made from provisioner/web/openapi.json: UPDATE=1 go test ./docs/site/reference -->

` + "`provision serve`" + ` answers at ` + "`/api/v1`" + `: at the socket ` + "`run.sock`" + ` in its state folder, where every
local user who may open it may do all, and at ` + "`admin.listen`" + ` ([provision.yaml](../configuration.md)) for those
who show a token or a client certificate. The commands and the dashboard use the same API. A token that may only
look may ask by ` + "`GET`" + ` only. The daemon gives the machine-readable document at ` + "`/api/v1/openapi.json`" + `.

An error is JSON with ` + "`error`, `hint` and `code`" + `, see [Error](#error).

`

// API is the page about the admin API, from the OpenAPI document below root.
func API(root string) ([]byte, error) {
	raw, err := os.ReadFile(filepath.Join(root, "provisioner/web/openapi.json"))
	if err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	var document openAPI
	if err := json.Unmarshal(raw, &document); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	var b strings.Builder
	b.WriteString(apiHead)
	for _, p := range document.Paths {
		for _, method := range slices.Sorted(maps.Keys(p.methods)) {
			writeOperation(&b, strings.ToUpper(method), p.path, p.methods[method])
		}
	}
	b.WriteString("## Types\n\nA key that is not marked as optional is always there.\n")
	for _, name := range slices.Sorted(maps.Keys(document.Components.Schemas)) {
		writeSchema(&b, name, document.Components.Schemas[name])
	}
	return []byte(b.String()), nil
}

func writeOperation(b *strings.Builder, method, path string, o operation) {
	fmt.Fprintf(b, "## %s %s\n\n%s\n", method, path, sentence(o.Summary))
	if o.Security != nil && len(o.Security) == 0 {
		b.WriteString("Nobody needs to show a token for it.\n")
	}
	if o.Description != "" {
		fmt.Fprintf(b, "\n%s\n", sentence(o.Description))
	}
	if len(o.Parameters) > 0 {
		b.WriteString("\n| parameter | in | meaning |\n| --- | --- | --- |\n")
		for _, p := range o.Parameters {
			fmt.Fprintf(b, "| `%s` | %s | %s |\n", p.Name, p.In, oneLine(p.Description))
		}
	}
	if o.RequestBody != nil {
		fmt.Fprintf(b, "\nBody: %s.\n", o.RequestBody.shape())
	}
	b.WriteString("\n| status | answer |\n| --- | --- |\n")
	for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
		r := o.Responses[status]
		if status == "default" {
			continue
		}
		text := oneLine(r.Description)
		if shape := r.shape(); shape != "" {
			text = strings.TrimSuffix(text, ".") + ": " + shape
		}
		fmt.Fprintf(b, "| %s | %s |\n", status, text)
	}
	b.WriteString("\n")
}

// shape says what a body holds, in its forms.
func (b body) shape() string {
	shapes := make([]string, 0, len(b.Content))
	for _, kind := range slices.Sorted(maps.Keys(b.Content)) {
		text := b.Content[kind].Schema.words()
		if kind != "application/json" {
			text += " (`" + kind + "`)"
		}
		shapes = append(shapes, text)
	}
	return strings.Join(shapes, ", or ")
}

// words says what a value is.
func (s schema) words() string {
	switch {
	case s.Ref != "":
		name := s.Ref[strings.LastIndex(s.Ref, "/")+1:]
		return "[" + name + "](#" + strings.ToLower(name) + ")"
	case s.Type == "array" && s.Items != nil:
		return "list of " + s.Items.words()
	case len(s.Enum) > 0:
		return "`" + strings.Join(s.Enum, "`, `") + "`"
	case s.Format == "date-time":
		return "time"
	case s.Type == "string":
		return "text"
	case s.Type == "boolean":
		return "true or false"
	case s.Type == "integer", s.Type == "number":
		return "number"
	case s.Type == "":
		return "any value"
	}
	return s.Type
}

func writeSchema(b *strings.Builder, name string, s schema) {
	fmt.Fprintf(b, "\n### %s\n", name)
	if s.Description != "" {
		fmt.Fprintf(b, "\n%s\n", sentence(s.Description))
	}
	for _, part := range s.AllOf {
		if part.Ref != "" {
			fmt.Fprintf(b, "\nAll that %s has, and:\n", part.words())
		}
	}
	if len(s.Properties) == 0 {
		if words := s.words(); words != "object" {
			fmt.Fprintf(b, "\nIt is %s.\n", words)
		}
		return
	}
	b.WriteString("\n| key | what it is | meaning |\n| --- | --- | --- |\n")
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[key]
		kind := property.words()
		if !slices.Contains(s.Required, key) {
			kind += ", optional"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", key, kind, oneLine(property.Description))
	}
}

// sentence ends a text with a full stop.
func sentence(text string) string {
	text = strings.TrimSpace(text)
	if text == "" || strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}
