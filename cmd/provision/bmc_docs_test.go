package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/talos-provision/provision/bmc/redfishtest"
	"github.com/talos-provision/provision/e2e/fleet"
	"github.com/talos-provision/provision/inventory"
)

const bmcPage = "../../docs/bmc.md"

func readText(t *testing.T, paths ...string) string {
	t.Helper()
	var all strings.Builder
	for _, pattern := range paths {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(content)
		}
	}
	return all.String()
}

// blocks are the fenced blocks of a language.
func blocks(page, language string) []string {
	found := regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(page, -1)
	all := make([]string, 0, len(found))
	for _, m := range found {
		all = append(all, m[1])
	}
	return all
}

// Every test that the support matrix leans on is there, and so is every profile.
func TestTheSupportMatrixNamesWhatExists(t *testing.T) {
	t.Parallel()
	page := readText(t, bmcPage)
	sources := readText(t, "../../bmc/*_test.go", "../../bmc/redfishtest/*_test.go", "*_test.go")
	for _, m := range regexp.MustCompile("`((?:Test|Example)[A-Za-z0-9_]+)`").FindAllStringSubmatch(page, -1) {
		if !strings.Contains(sources, "func "+m[1]+"(") {
			t.Errorf("there is no %s", m[1])
		}
	}
	for _, p := range redfishtest.Profiles() {
		if !strings.Contains(page, "| `"+p.Name+"` |\n") {
			t.Errorf("the profile %s is not in the matrix", p.Name)
		}
	}
}

// The errors that the page explains are those that the program prints.
func TestTheBMCPageQuotesRealErrors(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(readText(t, bmcPage), "## Troubleshooting")
	section, _, _ = strings.Cut(section, "\n## ")
	sources := readText(t, "../../bmc/*.go", "bmc*.go")
	quoted := regexp.MustCompile("(?m)^\\| `([^`…]+)` \\|").FindAllStringSubmatch(section, -1)
	if len(quoted) < 10 {
		t.Errorf("only %d errors are explained", len(quoted))
	}
	for _, m := range quoted {
		if !strings.Contains(sources, m[1]) {
			t.Errorf("no error says %q", m[1])
		}
	}
}

func TestTheInventoryOfTheBMCPageIsSound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, text := range blocks(readText(t, bmcPage), "yaml") {
		name, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		writeFile(t, path, text)
	}
	tree, findings, err := inventory.Load(filepath.Join(dir, "nodes"))
	if err != nil || len(findings) > 0 || len(tree.Nodes) != 2 {
		t.Fatalf("%d nodes, error %v, findings:\n%v", len(tree.Nodes), err, findings)
	}
	if b := tree.Nodes[1].BMC; len(b.PasswordCommand) != 3 || b.PasswordFile != "" || !b.LegacyTLS || b.System != "System_0" {
		t.Errorf("the second node's BMC is %+v", b)
	}
}

// What the page tells people to type works, line by line.
func TestTheCommandsOfTheBMCPageRun(t *testing.T) {
	t.Parallel()
	f := startFleet(t, fleet.Config{Nodes: 4})
	edit(t, f, "nodes/demo/node-02.yaml", "install: true", "install: true\nlabels: {role: worker}")
	dir := filepath.Dir(f.ConfigFile())
	here := strings.NewReplacer(
		"https://127.90.128.0:8443", f.Machines()[0].BMC().URL(),
		"--password-env BMC_PASSWORD", "--password-file "+filepath.Join(dir, "bmc-password"),
		"trace.json", filepath.Join(dir, "trace.json"), "'", "",
	)
	commands := 0
	for _, block := range blocks(readText(t, bmcPage), "sh") {
		for line := range strings.Lines(block) {
			words := strings.Fields(here.Replace(line))
			if len(words) == 0 || words[0] != "provision" {
				continue
			}
			commands++
			r := provisionAt(t, strings.NewReader("yes\n"), true, append(words[1:], "--config", f.ConfigFile())...)
			if r.status != exitDone {
				t.Errorf("%sstatus %d\n%s%s", line, r.status, r.out, r.err)
			}
		}
	}
	if commands < 10 {
		t.Errorf("only %d commands are shown", commands)
	}
	noSessions(t, f)
}
