package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// Each program under testdata links one module of its own kind.
func TestOnlyModulesWithAnAllowedLicencePass(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ fails, note string }{
		"free":     {"", "licences: 2 modules are linked: "},
		"copyleft": {"example.com/copyleft v1.0.0: COPYING is GPL-3.0", ""},
		"own":      {"example.com/own v1.0.0: LICENSE is no licence that is known", ""},
		"silent":   {"example.com/silent v1.0.0 has no licence", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, note bytes.Buffer
			err := run(t.Context(), []string{"-dir", "testdata/program", "./cmd/" + name}, &out, &note)
			if tt.fails == "" && err != nil {
				t.Errorf("it fails: %v", err)
			}
			if tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)) {
				t.Errorf("the error is %v, want one with %q", err, tt.fails)
			}
			if !strings.Contains(note.String(), tt.note) || out.Len() > 0 {
				t.Errorf("it says %q, and writes %q", note.String(), out.String())
			}
		})
	}
}

func TestEveryTextIsHandedOn(t *testing.T) {
	t.Parallel()
	var out, note bytes.Buffer
	if err := run(t.Context(), []string{"-dir", "testdata/program", "-text", "./cmd/free"}, &out, &note); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"example.com/free v1.0.0: LICENSE\n", "Permission is hereby granted", "example.com/free v1.0.0: NOTICE\n", "A notice of the fixture."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the texts lack %q", want)
		}
	}
}

func TestFilesAreToldByTheirNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{
		"LICENSE": licence, "LICENCE.md": licence, "license.txt": licence, "COPYING": licence, "LICENSE.libyaml": licence,
		"NOTICE": notice, "PATENTS": notice, "license.go": other, "licenses.json": other, "README.md": other,
	} {
		if got := kindOf(name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
}

func TestNoLicenceThatBindsTheProgramIsAllowed(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"GPL-2.0", "GPL-3.0", "AGPL-3.0", "LGPL-3.0", "CommonsClause"} {
		if slices.Contains(allowed, id) {
			t.Errorf("%s is allowed", id)
		}
	}
}
