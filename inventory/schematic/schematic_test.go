package schematic

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

const plain = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"

// vectors are ids that the Image Factory gives (image-factory
// pkg/schematic/schematic_test.go and its documentation).
var vectors = []struct{ name, text, id string }{
	{"empty mapping", `{}`, plain},
	{"empty customization", `customization: {}`, plain},
	{"empty list", `customization: {"extraKernelArgs": []}`, plain},
	{"bootloader none", `customization: {bootloader: none}`, plain},
	{"kernel arguments", "customization:\n  extraKernelArgs: [noapic, nolapic]\n", "9cba8e32753f91a16c1837ab8abf356af021706ef284aef07380780177d9a06c"},
	{"kernel arguments as JSON", `{"customization": {"extraKernelArgs": ["noapic", "nolapic"], "systemExtensions": {}}}`, "9cba8e32753f91a16c1837ab8abf356af021706ef284aef07380780177d9a06c"},
	{"meta", `{"customization": {"meta": [{"key": 10, "value": "foo"}], "extraKernelArgs": []}}`, "d308a2a5ee2277bed5fbaa104fcbc8d59122abfa737df987a95b4ca763459a7f"},
	{"meta, key in hex", "customization:\n  meta:\n  - {value: foo, key: 0x0a}\n", "d308a2a5ee2277bed5fbaa104fcbc8d59122abfa737df987a95b4ca763459a7f"},
	{"well-known certificates", `customization: {secureboot: {includeWellKnownCertificates: true}}`, "fa8e05f142a851d3ee568eb0a8e5841eaf6b0ebc8df9a63df16ac5ed2c04f3e6"},
	{"sector size", `customization: {diskImage: {sectorSize: 4096}}`, "92833e9ddd9bb9e11b2464fa5525429f01866306d52ebd882ee08d7918f6d1ea"},
	{"arguments and extensions", "customization:\n    systemExtensions:\n        officialExtensions:\n            - siderolabs/gvisor\n            - siderolabs/intel-ucode\n    extraKernelArgs:\n        - net.ifnames=0\n", "b8e8fbbe1b520989e6c52c8dc8303070cb42095997e76e812fa8892393e1d176"},
	{"overlay", `{"overlay": {"name": "rpi_generic", "image": "siderolabs/sbc-raspberrypi"}}`, "ee21ef4a5ef808a9b7484cc0dda0f25075021691c8c09a276591eedb638ea1f9"},
}

func TestTheIDIsTheFactorysOwn(t *testing.T) {
	t.Parallel()
	for _, v := range vectors {
		s, err := Parse([]byte(v.text))
		if err != nil {
			t.Errorf("%s: %v", v.name, err)
			continue
		}
		if id, err := s.ID(); err != nil || id != v.id {
			t.Errorf("%s: id %s, error %v, want %s", v.name, id, err, v.id)
		}
		// As a map inside another document, where keys come in any order.
		if s, err = From(inside(t, v.text)); err != nil {
			t.Errorf("%s as a map: %v", v.name, err)
		}
		if id, err := s.Check(v.id); err != nil || id != v.id {
			t.Errorf("%s as a map: id %s, error %v", v.name, id, err)
		}
	}
}

// inside is the text as the value of a key in another document.
func inside(t *testing.T, text string) *yaml.Node {
	t.Helper()
	var document yaml.Node
	if err := yaml.Unmarshal([]byte("schematic:\n    "+strings.ReplaceAll(text, "\n", "\n    ")), &document); err != nil {
		t.Fatal(err)
	}
	return document.Content[0].Content[1]
}

// What a factory reads as text stays as it was written.
func TestASchematicInsideADocumentKeepsItsText(t *testing.T) {
	t.Parallel()
	text := "customization:\n  extraKernelArgs: [1e3, 2026-01-01, 0x10, 'yes', true]\n  meta:\n  - {key: 0x0a, value: 007}\n"
	want, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte("args: &a [1e3, 2026-01-01, 0x10, 'yes', true] # said once\nschematic: {customization: {extraKernelArgs: *a, meta: [{value: 007, key: 0x0a}]}}\n"), &document); err != nil {
		t.Fatal(err)
	}
	got, err := From(document.Content[0].Content[3])
	if err != nil || !reflect.DeepEqual(want, got) {
		t.Errorf("got %+v, error %v, want %+v", got, err, want)
	}
}

// The JSON form has the names of the YAML form.
func TestTheJSONFormIsASchematicToo(t *testing.T) {
	t.Parallel()
	for _, v := range vectors {
		s, err := Parse([]byte(v.text))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v in %s", v.name, err, text)
		}
		if id, err := again.ID(); id != v.id || err != nil {
			t.Errorf("%s: id %s, error %v, JSON %s", v.name, id, err, text)
		}
	}
	s := Schematic{Customization: Customization{EmbeddedMachineConfiguration: "token: abc"}}
	if text, err := json.Marshal(s); err != nil || strings.Contains(string(text), "abc") || !strings.Contains(string(text), hidden) {
		t.Errorf("a machine config in it: %s, %v", text, err)
	}
	s = Schematic{Overlay: Overlay{Name: "n", Image: "i", Options: map[string]any{"a": map[any]any{1: []any{map[any]any{true: 1}}}}}}
	if text, err := json.Marshal(s); err != nil || !strings.Contains(string(text), `"options":{"a":{"1":[{"true":1}]}}`) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestTheOrderOfListsCounts(t *testing.T) {
	t.Parallel()
	a, b := Schematic{}, Schematic{}
	a.Customization.ExtraKernelArgs = []string{"a", "b"}
	b.Customization.ExtraKernelArgs = []string{"b", "a"}
	idA, errA := a.ID()
	idB, errB := b.ID()
	if errA != nil || errB != nil || idA == idB {
		t.Errorf("ids %s and %s, errors %v, %v", idA, idB, errA, errB)
	}
}

func TestWhatWouldGiveTheIDOfAnotherImageIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"misspelt key":     {"customization: {extraKernelArg: [a]}", "extraKernelArg"},
		"nothing":          {"", "customization: {}"},
		"a list":           {"[]", "cannot unmarshal"},
		"two documents":    {"customization: {}\n---\ncustomization: {}\n", "more than one document"},
		"bootloader":       {"customization: {bootloader: lilo}", "lilo"},
		"key out of range": {"customization: {meta: [{key: 300, value: x}]}", "300"},
		"too large":        {strings.Repeat("#", maxText+1), "bytes"},
	} {
		if _, err := Parse([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error is %v, want one with %q", name, err, tc.want)
		}
	}
	if _, err := From(inside(t, "{customization: {meta: []}, a: b}")); err == nil || !strings.Contains(err.Error(), "field a not found") {
		t.Errorf("an unknown key: %v", err)
	}
	if _, err := From(inside(t, "&a {customization: *a}")); err == nil || !strings.Contains(err.Error(), "aliases") {
		t.Errorf("an alias to itself: %v", err)
	}
	if _, err := (Schematic{}).Check(strings.Repeat("0", 64)); err == nil || !strings.Contains(err.Error(), plain) {
		t.Errorf("a wrong id: %v", err)
	}
}

// FuzzParse: whatever is accepted has a canonical form that means the same.
func FuzzParse(f *testing.F) {
	for _, v := range vectors {
		f.Add([]byte(v.text))
	}
	f.Add([]byte("overlay: {options: {a: {b: [1, 0x2, ~]}}}"))
	f.Add([]byte("customization: {meta: [{key: 1, value: \"a\\nb: |\\n c\"}], extraKernelArgs: ['x: y', '#', 'null', '1e3']}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		first, err := s.Text()
		if err != nil {
			return
		}
		again, err := Parse(first)
		if err != nil {
			t.Fatalf("the canonical form is not read: %v\n%s", err, first)
		}
		second, err := again.Text()
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("error %v, canonical form changes from\n%s\nto\n%s", err, first, second)
		}
	})
}
