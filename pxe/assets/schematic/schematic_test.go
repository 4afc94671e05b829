package schematic

import (
	"bytes"
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
		var value map[string]any
		if err := yaml.Unmarshal([]byte(v.text), &value); err != nil {
			t.Fatal(err)
		}
		if s, err = From(value); err != nil {
			t.Errorf("%s as a map: %v", v.name, err)
		}
		if id, err := s.Check(v.id); err != nil || id != v.id {
			t.Errorf("%s as a map: id %s, error %v", v.name, id, err)
		}
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
	if _, err := From(map[string]any{"customization": func() {}}); err == nil {
		t.Error("a function is a schematic")
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
