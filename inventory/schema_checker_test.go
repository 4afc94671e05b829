package inventory_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"sync"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/talos-provision/provision/inventory"
)

// schemaChecker holds values against the part of JSON Schema (draft 2020-12)
// that the inventory's schema uses. A keyword that it does not know fails the
// test, so that none is taken as fulfilled.
type schemaChecker struct {
	t        testing.TB
	root     map[string]any
	keywords map[string]keyword
	patterns *sync.Map // of *regexp.Regexp by their text
}

// keyword judges a value; the schema around the keyword is given too.
type keyword func(c schemaChecker, at string, schema map[string]any, want, value any) error

func newSchemaChecker(t testing.TB) schemaChecker {
	t.Helper()
	text, err := inventory.Schema()
	if err != nil {
		t.Fatal(err)
	}
	c := schemaChecker{t: t, keywords: keywords(), patterns: &sync.Map{}}
	if err := json.Unmarshal(text, &c.root); err != nil {
		t.Fatal(err)
	}
	return c
}

// file tells what is wrong with a YAML file, as an editor would read it.
func (c schemaChecker) file(content string) error {
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(content), &root); err != nil {
		return err
	}
	datesAreText(&root)
	var value any
	if err := root.Decode(&value); err != nil {
		return err
	}
	return c.check("", c.root, value)
}

// datesAreText as in YAML 1.2, which editors read.
func datesAreText(node *yaml.Node) {
	if node.ShortTag() == "!!timestamp" {
		node.Tag = "!!str"
	}
	for _, child := range node.Content {
		datesAreText(child)
	}
}

func keywords() map[string]keyword {
	return map[string]keyword{
		"type": func(_ schemaChecker, at string, _ map[string]any, want, value any) error {
			for _, name := range listOf(want) {
				if isOfType(value, name.(string)) {
					return nil
				}
			}
			return fmt.Errorf("%s: %v is not of type %v", at, value, want)
		},
		"enum": func(_ schemaChecker, at string, _ map[string]any, want, value any) error {
			if !slices.ContainsFunc(want.([]any), func(one any) bool { return reflect.DeepEqual(one, value) }) {
				return fmt.Errorf("%s: %v is not one of %v", at, value, want)
			}
			return nil
		},
		"pattern": func(c schemaChecker, at string, _ map[string]any, want, value any) error {
			text, is := value.(string)
			if is && !c.pattern(want.(string)).MatchString(text) {
				return fmt.Errorf("%s: %q does not match %s", at, text, want)
			}
			return nil
		},
		"minimum": func(_ schemaChecker, at string, _ map[string]any, want, value any) error {
			if n, is := value.(int); is && float64(n) < want.(float64) {
				return fmt.Errorf("%s: %d is less than %v", at, n, want)
			}
			return nil
		},
		"maximum": func(_ schemaChecker, at string, _ map[string]any, want, value any) error {
			if n, is := value.(int); is && float64(n) > want.(float64) {
				return fmt.Errorf("%s: %d is more than %v", at, n, want)
			}
			return nil
		},
		"minItems": func(_ schemaChecker, at string, _ map[string]any, want, value any) error {
			if items, is := value.([]any); is && float64(len(items)) < want.(float64) {
				return fmt.Errorf("%s: %d items are fewer than %v", at, len(items), want)
			}
			return nil
		},
		"anyOf": func(c schemaChecker, at string, _ map[string]any, want, value any) error {
			all := errors.New("no schema of anyOf")
			for _, one := range want.([]any) {
				err := c.check(at, one.(map[string]any), value)
				if err == nil {
					return nil
				}
				all = fmt.Errorf("%w; %w", err, all)
			}
			return all
		},
		"not": func(c schemaChecker, at string, _ map[string]any, want, value any) error {
			if c.check(at, want.(map[string]any), value) == nil {
				return fmt.Errorf("%s: %v is what it must not be: %v", at, value, want)
			}
			return nil
		},
		"items": func(c schemaChecker, at string, _ map[string]any, want, value any) error {
			items, _ := value.([]any)
			for i, item := range items {
				if err := c.check(fmt.Sprintf("%s[%d]", at, i), want.(map[string]any), item); err != nil {
					return err
				}
			}
			return nil
		},
		"properties": func(c schemaChecker, at string, _ map[string]any, want, value any) error {
			object, _ := value.(map[string]any)
			for key, inner := range object {
				if s, known := want.(map[string]any)[key]; known {
					if err := c.check(at+"."+key, s.(map[string]any), inner); err != nil {
						return err
					}
				}
			}
			return nil
		},
		"propertyNames": func(c schemaChecker, at string, _ map[string]any, want, value any) error {
			object, _ := value.(map[string]any)
			for key := range object {
				if err := c.check(at+"."+key, want.(map[string]any), key); err != nil {
					return err
				}
			}
			return nil
		},
		"additionalProperties": func(c schemaChecker, at string, schema map[string]any, want, value any) error {
			object, _ := value.(map[string]any)
			known, _ := schema["properties"].(map[string]any)
			for key, inner := range object {
				if _, is := known[key]; is {
					continue
				}
				if want == false {
					return fmt.Errorf("%s: %s is not known", at, key)
				}
				if err := c.check(at+"."+key, want.(map[string]any), inner); err != nil {
					return err
				}
			}
			return nil
		},
		"$schema": nil, "$id": nil, "title": nil, "description": nil, "examples": nil, // say nothing of the value
	}
}

func (c schemaChecker) check(at string, schema map[string]any, value any) error {
	if _, is := value.(map[any]any); is {
		return fmt.Errorf("%s: a key is not a string", at)
	}
	for keyword, want := range schema {
		judge, known := c.keywords[keyword]
		if !known {
			c.t.Fatalf("%s: the schema uses %s, which this test does not know", at, keyword)
		}
		if judge == nil {
			continue
		}
		if err := judge(c, at, schema, want, value); err != nil {
			return err
		}
	}
	return nil
}

func (c schemaChecker) pattern(text string) *regexp.Regexp {
	if known, is := c.patterns.Load(text); is {
		return known.(*regexp.Regexp)
	}
	compiled := regexp.MustCompile(text)
	c.patterns.Store(text, compiled)
	return compiled
}

func listOf(value any) []any {
	if list, is := value.([]any); is {
		return list
	}
	return []any{value}
}

func isOfType(value any, name string) bool {
	switch value.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case int, uint64:
		return name == "integer" || name == "number"
	case float64:
		return name == "number"
	case []any:
		return name == "array"
	case map[string]any:
		return name == "object"
	default:
		return false
	}
}
