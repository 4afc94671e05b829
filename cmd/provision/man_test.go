package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/talos-provision/provision/e2e/needs"
)

// environmentRead are the names PROVISION_… in the sources of the program.
func environmentRead(t *testing.T) []string {
	t.Helper()
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, source := range append(sources, "../../provisioner/store/location.go") {
		if strings.HasSuffix(source, "_test.go") || source == "manual.go" {
			continue
		}
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`"(PROVISION_[A-Z_]+)"`).FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// manual writes the manual into a folder.
func manual(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "man1")
	if r := provision(t, "man", dir); r.status != exitDone {
		t.Fatalf("status %d: %s", r.status, r.err)
	}
	return dir
}

func TestEveryCommandHasAManualPage(t *testing.T) {
	t.Parallel()
	dir := manual(t)
	for _, c := range documented(testRoot()) {
		text, err := os.ReadFile(filepath.Join(dir, fileName(c.CommandPath())+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, section := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "ENVIRONMENT", "FILES", "EXAMPLES"} {
			if !strings.Contains(string(text), `.SH "`+section+`"`) {
				t.Errorf("the page of %s has no section %s", c.CommandPath(), section)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "provision-man.1")); err == nil {
		t.Error("the hidden command has a page")
	}
}

// man(1) renders the pages without a warning, and what can be copied stays as it is.
func TestManRendersThePages(t *testing.T) {
	t.Parallel()
	needs.Program(t, "man")
	dir := manual(t)
	for page, want := range map[string][]string{
		"provision":                    {"EXIT STATUS", "130", "interrupted (run the same command again to go on)", "PROVISION_CONFIG", "/var/lib/provision/", "provision --cluster k8s-prod --node 'node-[01-03]' --until maintenance --yes", "provision-plan(1)"},
		"provision-inventory-validate": {"provision-inventory-validate - Check every file", "warnings with --strict", "--format", "provision inventory validate --strict -o github"},
		"provision-inventory-schema":   {"# yaml-language-server: $schema=PATH-OR-URL-OF-THE-SCHEMA"},
		"provision-bmc-power-off":      {"GLOBAL OPTIONS", "--graceful duration", "--password-command"},
		"provision-cluster-init":       {"/dev/disk/by-id/..."},
		"provision-completion-bash":    {"source <(provision completion bash)"},
	} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			var warnings strings.Builder
			cmd := exec.CommandContext(t.Context(), "man", "--warnings", "-E", "UTF-8", "-P", "cat", "-l", filepath.Join(dir, page+".1"))
			cmd.Env = append(os.Environ(), "MANWIDTH=160", "LC_ALL=C.UTF-8", "MANROFFOPT=", "GROFF_NO_SGR=1", "MAN_KEEP_FORMATTING=")
			cmd.Stderr = &warnings
			out, err := cmd.Output()
			if err != nil || warnings.Len() > 0 {
				t.Fatalf("man: %v\n%s", err, warnings.String())
			}
			text := regexp.MustCompile(".\b").ReplaceAllString(string(out), "")
			text = strings.Join(strings.Fields(text), " ")
			for _, w := range want {
				if !strings.Contains(text, w) {
					t.Errorf("the page lacks %q:\n%s", w, text)
				}
			}
		})
	}
}

// Every page is free of warnings; one process reads them all.
func TestNoManualPageHasAWarning(t *testing.T) {
	t.Parallel()
	needs.Program(t, "man")
	pages, err := filepath.Glob(filepath.Join(manual(t), "*.1"))
	if err != nil || len(pages) < 30 {
		t.Fatalf("%d pages, error %v", len(pages), err)
	}
	var warnings strings.Builder
	cmd := exec.CommandContext(t.Context(), "man", append([]string{"--warnings", "-E", "UTF-8", "-P", "cat", "-l"}, pages...)...)
	cmd.Env = append(os.Environ(), "MANWIDTH=80", "LC_ALL=C.UTF-8")
	cmd.Stderr = &warnings
	if err := cmd.Run(); err != nil || warnings.Len() > 0 {
		t.Errorf("man: %v\n%s", err, warnings.String())
	}
}
