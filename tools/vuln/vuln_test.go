package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The module under testdata calls one entry of the database beside it, and imports another.
func TestACalledVulnerabilityFails(t *testing.T) {
	t.Parallel()
	database, err := filepath.Abs("testdata/db")
	if err != nil {
		t.Fatal(err)
	}
	found, err := govulncheck(t.Context(), "testdata/module", "file://"+filepath.ToSlash(database), []string{"./..."})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		accepted string
		fails    string // part of the error; "" for none
	}{
		"nobody judged it":     {"", "take a version without it"},
		"another was accepted": {"GO-2026-90002 2026-06-01 not called", "take a version without it"},
		"accepted for now":     {"# a comment\n\nGO-2026-90001 2026-06-01 the path is a constant", ""},
		"accepted until lately": {
			"GO-2026-90001 2026-04-01 the path is a constant", "accepted until 2026-04-01 (the path is a constant)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list, err := parseAccepted(tt.accepted)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			err = report(&out, found, judgement{list, true, now})
			if tt.fails == "" && err != nil {
				t.Errorf("it fails: %v", err)
			}
			if tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails) || !strings.Contains(err.Error(), "path.Clean is reached from example.com/fixture.main")) {
				t.Errorf("the error is %v, want one with %q and the way there", err, tt.fails)
			}
			if !strings.Contains(out.String(), "2 known of what is required, 1 of them in code that is not called, 1 called") {
				t.Errorf("the summary is %q", out.String())
			}
		})
	}
}

func TestTheStandardLibraryIsToldOfAndFailsARelease(t *testing.T) {
	t.Parallel()
	of := func(module string) findings {
		return findings{called: map[string]finding{"GO-1": {id: "GO-1", module: module, summary: "a hole"}}}
	}
	for name, tt := range map[string]struct {
		module         string
		release, fails bool
	}{
		"the standard library, while working": {"stdlib@v1.26.8", false, false},
		"the standard library, for a release": {"stdlib@v1.26.8", true, true},
		"a module, while working":             {"example.com/m@v1.0.0", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := report(&out, of(tt.module), judgement{release: tt.release})
			if (err != nil) != tt.fails {
				t.Errorf("the error is %v", err)
			}
			if told := out.String() + errorText(err); !strings.Contains(told, "a hole") {
				t.Errorf("it is not told of: %q", told)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestAnAcceptanceHasADateAndAReason(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"GO-2026-1":                     "line 1",
		"\nGO-2026-1 2026-01-01":        "line 2",
		"GO-2026-1 soon it is harmless": "line 1",
	} {
		if _, err := parseAccepted(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want one that names %s", text, err, want)
		}
	}
}

func TestAHostThatDoesNotAnswerIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	began := time.Now()
	if reachable(t.Context(), "http://127.0.0.1:1/") {
		t.Error("nothing listens there, and yet it was reached")
	}
	if took := time.Since(began); took > 5*patience {
		t.Errorf("it took %s", took)
	}
}
