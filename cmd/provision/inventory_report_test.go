package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// -o takes the formats of reports, as --format does; findings are told by all of them.
func TestValidateWritesReportsForForges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "a/n1.yaml"), "serial: S1\nip: nonsense\n")
	for format, want := range map[string]string{
		"gitlab": `"severity": "blocker"`, "github": "::error file=", "sarif": `"level": "error"`, "json": `"severity": "error"`, "table": "errors: 2",
	} {
		for _, flag := range []string{"-o", "--format"} {
			if format == "table" && flag == "--format" {
				continue
			}
			r := provision(t, "inventory", "validate", "--inventory", dir, flag, format)
			if r.status != exitUsage || !strings.Contains(r.out, want) || !strings.Contains(r.out, "a/n1.yaml") || r.err != "" {
				t.Errorf("%s %s: status %d, %s%s", flag, format, r.status, r.out, r.err)
			}
			if asJSON := format != "github" && format != "table"; asJSON != json.Valid([]byte(r.out)) {
				t.Errorf("%s %s: JSON is %t", flag, format, !asJSON)
			}
		}
	}
	r := provision(t, "inventory", "validate", "--inventory", dir, "-o", "markdown")
	r.says(t, exitUsage, "-o markdown: it can be text, json, sarif, github or gitlab")
	provision(t, "status", "-o", "markdown").says(t, exitUsage, "it can be table or json")
}
