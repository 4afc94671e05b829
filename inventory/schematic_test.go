package inventory_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory"
	image "github.com/talos-provision/provision/inventory/schematic"
)

const (
	noapic   = "schematic: {customization: {extraKernelArgs: [noapic, nolapic]}}\n"
	noapicID = "9cba8e32753f91a16c1837ab8abf356af021706ef284aef07380780177d9a06c" // as the Image Factory computes it
)

func TestASchematicGivesItsID(t *testing.T) {
	t.Parallel()
	loaded := clean(t, map[string]string{
		"_defaults.yaml":   "# for all\n" + noapic,
		"c/n1.yaml":        "",
		"c/n2.yaml":        "schematic: {}\n",
		"c/n3.yaml":        "schematicID: " + noapicID + "\n",
		"c/n4.yaml":        "schematic: null\nschematicID: " + schematic + "\n",
		"d/_defaults.yaml": "schematic:\n  customization:\n    meta:\n    - {key: 0x0a, value: foo}\n    extraKernelArgs: []\n",
		"d/n5.yaml":        "",
	})
	for name, want := range map[string]struct {
		id, schematic, origin string // where they come from
	}{
		"n1": {noapicID, "_defaults.yaml:2", "_defaults.yaml:2"},
		"n2": {schematic, "c/n2.yaml:1", "c/n2.yaml:1"},
		"n3": {noapicID, "_defaults.yaml:2", "c/n3.yaml:1"},
		"n4": {schematic, "default", "c/n4.yaml:2"},
		// One value: what the root gives is not merged into it.
		"n5": {"d308a2a5ee2277bed5fbaa104fcbc8d59122abfa737df987a95b4ca763459a7f", "d/_defaults.yaml:2", "d/_defaults.yaml:2"},
	} {
		n := node(t, loaded, name)
		if n.SchematicID != want.id || n.Origin("schematicID").String() != want.origin || n.Origin("schematic").String() != want.schematic {
			t.Errorf("%s: %s from %s, schematic from %s, want %+v", name, n.SchematicID, n.Origin("schematicID"), n.Origin("schematic"), want)
		}
		if origin, has := n.Origins()["schematicID"]; !has || origin.String() != want.origin {
			t.Errorf("%s: among all origins it is %s", name, origin)
		}
		if (n.Schematic == nil) != (want.schematic == "default") {
			t.Errorf("%s: schematic %+v", name, n.Schematic)
		}
	}
	text, err := json.Marshal(node(t, loaded, "n1"))
	if err != nil || !strings.Contains(string(text), `"schematicID":"`+noapicID+`"`) ||
		!strings.Contains(string(text), `"schematic":{"customization":{"extraKernelArgs":["noapic","nolapic"]}}`) {
		t.Errorf("as JSON: %s, %v", text, err)
	}
}

func TestSchematicsThatDisagreeAreNamed(t *testing.T) {
	t.Parallel()
	_, findings := load(t, tree(t, map[string]string{"_defaults.yaml": noapic, "c/n1.yaml": "serial: S1\nschematicID: " + schematic + "\n"}))
	want := "c/n1.yaml:2:14: error: n1 has schematicID " + schematic + ", but the id of its schematic (_defaults.yaml:1) is " + noapicID +
		"; remove one of them, or unset the one from above with \"schematicID: null\" or \"schematic: null\""
	if diff := cmp.Diff(want, findings.String()); diff != "" {
		t.Error(diff)
	}
}

// What would give the id of another image is told at its own place.
func TestMistakesInASchematicHaveTheirPlace(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		yaml string
		rule inventory.Rule
		want string
	}{
		"misspelt":            {"schematic:\n  customization:\n    extraKernelArg: [a]\n", inventory.RuleUnknownKey, "c/n1.yaml:3:5: error: unknown key schematic.customization.extraKernelArg; did you mean extraKernelArgs?"},
		"nothing like it":     {"schematic: {a: b}\n", inventory.RuleUnknownKey, "unknown key schematic.a; the keys here are customization, overlay, owner"},
		"a merge key":         {"labels: &a {}\nschematic: {<<: *a}\n", inventory.RuleUnknownKey, "unknown key schematic.<<"},
		"an id":               {"schematic: " + schematic + "\n", inventory.RuleWrongType, "schematic must be a mapping, not the text"},
		"text for a list":     {"schematic: {customization: {extraKernelArgs: quiet}}\n", inventory.RuleWrongType, "c/n1.yaml:1:46: error: schematic.customization.extraKernelArgs must be a list, not the text \"quiet\""},
		"a mapping in a list": {"schematic: {customization: {extraKernelArgs: [{a: b}]}}\n", inventory.RuleWrongType, "schematic.customization.extraKernelArgs[0] must be one value"},
		"text for a flag":     {"schematic: {customization: {secureboot: {includeWellKnownCertificates: 'yes'}}}\n", inventory.RuleWrongType, "must be true or false"},
		"text for a number":   {"schematic: {customization: {meta: [{key: a}]}}\n", inventory.RuleWrongType, "schematic.customization.meta[0].key must be a whole number"},
		"a key out of range":  {"serial: S1\nschematic: {customization: {meta: [{key: 300}]}}\n", inventory.RuleInvalid, "c/n1.yaml:2:12: error: schematic cannot be read: "},
		"a bootloader":        {"schematic: {customization: {bootloader: lilo}}\n", inventory.RuleInvalid, "customization.bootloader \"lilo\" is none of"},
		"a key twice":         {"schematic:\n  customization: {}\n  customization: {}\n", inventory.RuleKeyTwice, "c/n1.yaml:3:3: error: schematic.customization is given twice; remove it here or in line 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loaded, findings := load(t, tree(t, map[string]string{"c/n1.yaml": tc.yaml + "install: true\n"}))
			if len(findings) != 1 || findings[0].Rule != tc.rule || !strings.Contains(findings[0].String(), tc.want) {
				t.Errorf("found:\n%s\nwant %q", findings, tc.want)
			}
			if n := node(t, loaded, "n1"); n.SchematicID != "" || n.Schematic != nil {
				t.Errorf("it is used all the same: %+v", n.Schematic)
			}
		})
	}
}

// The schema's vocabulary is that of the type that is hashed.
func TestTheSchemaKnowsEveryKeyOfASchematic(t *testing.T) {
	t.Parallel()
	var keys func(t reflect.Type, path string) []string
	keys = func(t reflect.Type, path string) []string {
		if t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return nil
		}
		var found []string
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
			found = append(append(found, path+name), keys(t.Field(i).Type, path+name+".")...)
		}
		return found
	}
	text, err := inventory.Schema()
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	var properties func(s map[string]any, path string) []string
	properties = func(s map[string]any, path string) []string {
		if items, isList := s["items"].(map[string]any); isList {
			s = items
		}
		var found []string
		inner, _ := s["properties"].(map[string]any)
		for key, property := range inner {
			found = append(append(found, path+key), properties(property.(map[string]any), path+key+".")...)
		}
		return found
	}
	want := keys(reflect.TypeOf(image.Schematic{}), "")
	got := properties(root["properties"].(map[string]any)["schematic"].(map[string]any), "")
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys of the type (-) and of the schema (+):\n%s", diff)
	}
}
