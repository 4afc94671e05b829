package main

import (
	"encoding"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// docsRow is a key, its default and its meaning in a table of docs/configuration.md.
var docsRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (?:`([^`]*)`)? ?\\| (.+) \\|$")

// Every key of provision.yaml is documented with its default, and no other.
func TestEveryConfigurationKeyIsDocumentedWithItsDefault(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(text), "Flags win over")
	documented := map[string]string{}
	for _, row := range docsRow.FindAllStringSubmatch(table, -1) {
		documented[row[1]] = row[2]
	}
	known := map[string]string{}
	configKeys(known, "", reflect.ValueOf(defaultConfig()))
	if len(known) < 30 {
		t.Errorf("only %d keys were found in the struct", len(known))
	}
	// A subnet has its default elsewhere: the list is empty.
	known["dhcp.subnets[].lease"] = "1h"
	if diff := cmp.Diff(known, documented); diff != "" {
		t.Errorf("docs/configuration.md (-struct +docs):\n%s", diff)
	}
}

// configKeys collects keys with their values, as a person writes them.
func configKeys(keys map[string]string, prefix string, v reflect.Value) {
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		key := prefix + field.Tag.Get("yaml")
		switch kind := field.Type.Kind(); {
		case hasKeys(field.Type):
			configKeys(keys, key+".", value)
		case kind == reflect.Slice && hasKeys(field.Type.Elem()):
			configKeys(keys, key+"[].", reflect.Zero(field.Type.Elem()))
		case kind == reflect.Slice, kind == reflect.Map, kind == reflect.Struct:
			keys[key] = "" // an address or a list: none has a default
		default:
			keys[key] = written(value.Interface())
		}
	}
}

// hasKeys says whether a type is a mapping in YAML, and not one text.
func hasKeys(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func written(value any) string {
	duration, ok := value.(time.Duration)
	switch {
	case ok && duration == 0:
		return ""
	case ok && strings.HasSuffix(duration.String(), "m0s"):
		return strings.TrimSuffix(duration.String(), "0s")
	}
	return fmt.Sprint(value)
}

// A person looks up what stands on the server's screen.
func TestWhatTheScreenShowsIsExplained(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## What the server's screen shows")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, shown := range []string{"PXE-E16", "PXE-E18", "PXE-E21", "PXE-E51", "PXE-E53", "PXE-E55", "PXE-E99", "No more network devices", "UEFI shell"} {
		row := regexp.MustCompile(`(?m)^\|[^|\n]*` + shown + `[^|\n]*\|\s*([^|\n]+?)\s*\|\s*([^|\n]+?)\s*\|$`).FindStringSubmatch(section)
		if row == nil || len(row[1]) < 10 || len(row[2]) < 10 {
			t.Errorf("no row gives cause and cure of %s: %q", shown, row)
		}
	}
}
