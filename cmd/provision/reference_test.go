package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// referenceDir holds a page for each command: UPDATE=1 go test -run Reference ./cmd/provision
const referenceDir = "../../docs/reference/cli"

func testRoot() *cobra.Command {
	return rootCommand(&app{in: strings.NewReader(""), out: io.Discard, errOut: io.Discard})
}

func TestTheReferenceOfTheCommandLineIsThatOfTheProgram(t *testing.T) {
	t.Parallel()
	want := referencePages(testRoot())
	if os.Getenv("UPDATE") != "" {
		if err := os.RemoveAll(referenceDir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(referenceDir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range want {
			if err := os.WriteFile(filepath.Join(referenceDir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	there, err := os.ReadDir(referenceDir)
	if err != nil {
		t.Fatal(err)
	}
	const remedy = "run UPDATE=1 go test -run Reference ./cmd/provision"
	for _, entry := range there {
		if _, known := want[entry.Name()]; !known {
			t.Errorf("docs/reference/cli/%s is of no command: %s", entry.Name(), remedy)
		}
	}
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(referenceDir, name))
		if diff := cmp.Diff(text, string(got)); err != nil || diff != "" {
			t.Errorf("docs/reference/cli/%s is not that of the program (%v): %s", name, err, remedy)
		}
	}
}

// referencePages are the files of the reference by name.
func referencePages(root *cobra.Command) map[string]string {
	pages := map[string]string{}
	var index bytes.Buffer
	say(&index, "# Commands\n\nEach command tells the same by `--help`, and in its manual page.\n\n| command | what it does |\n| --- | --- |\n")
	for _, c := range documented(root) {
		p := pageOf(c)
		file := fileName(p.name) + ".md"
		var text bytes.Buffer
		writeReference(&text, p, root)
		pages[file] = text.String()
		say(&index, "| [`%s`](%s) | %s |\n", p.name, file, markdownCell(p.short))
	}
	say(&index, "\n## Global flags\n\nEvery command takes them. What a command has no use for it does not look at.\n\n")
	referenceFlags(&index, visible(root.PersistentFlags()))
	say(&index, "\n## Environment\n\nFlags win over the environment, which wins over [provision.yaml](../../configuration.md).\n\n| variable | what it is |\n| --- | --- |\n")
	for _, e := range environment {
		say(&index, "| `%s` | %s |\n", e.name, markdownCell(e.meaning))
	}
	say(&index, "\n## Files\n\n| file | what it is |\n| --- | --- |\n")
	for _, f := range files {
		say(&index, "| `%s` | %s |\n", f.name, markdownCell(f.meaning))
	}
	pages["index.md"] = index.String()
	return pages
}

func writeReference(w io.Writer, p page, root *cobra.Command) {
	say(w, "# %s\n\n%s.\n\n```text\n%s\n```\n", p.name, markdownText(p.short), p.synopsis)
	for _, b := range p.blocks {
		if b.verbatim {
			say(w, "\n```text\n%s\n```\n", b.text)
		} else {
			say(w, "\n%s\n", wrap(markdownText(b.text), 96))
		}
	}
	if len(p.examples) > 0 {
		say(w, "\n## Examples\n\n```sh\n%s\n```\n", strings.Join(p.examples, "\n"))
	}
	if len(p.commands) > 0 {
		say(w, "\n## Commands\n\n| command | what it does |\n| --- | --- |\n")
		for _, c := range p.commands {
			say(w, "| [`%s`](%s.md) | %s |\n", c.CommandPath(), fileName(c.CommandPath()), markdownCell(c.Short))
		}
	}
	global := root.PersistentFlags()
	own := slices.DeleteFunc(slices.Clone(p.flags), func(f *pflag.Flag) bool { return f.Name == "help" || global.Lookup(f.Name) == f })
	if len(own) > 0 {
		say(w, "\n## Flags\n\n")
		referenceFlags(w, own)
	}
	above := ""
	if slices.ContainsFunc(p.global, func(f *pflag.Flag) bool { return global.Lookup(f.Name) != f }) {
		for c := p.parent; c != root; c = c.Parent() {
			if c.PersistentFlags().HasFlags() {
				above = fmt.Sprintf("the [flags of `%s`](%s.md#flags) and ", c.CommandPath(), fileName(c.CommandPath()))
			}
		}
	}
	say(w, "\nIt takes %sthe [global flags](index.md#global-flags) too.\n", above)
	if len(p.exit) > 0 {
		say(w, "\n## Exit status\n\n| status | when |\n| --- | --- |\n")
		for _, e := range p.exit {
			say(w, "| %s | %s |\n", e.status, markdownCell(e.meaning))
		}
	}
}

func referenceFlags(w io.Writer, flags []*pflag.Flag) {
	say(w, "| flag | what it says | default |\n| --- | --- | --- |\n")
	for _, f := range flags {
		form, usage := flagForm(f)
		value := defaultOf(f)
		if value != "" {
			value = "`" + value + "`"
		}
		say(w, "| `%s` | %s | %s |\n", form, markdownCell(usage), value)
	}
}

// markdownText shows prose as it is; what stands in backquotes stays code.
func markdownText(s string) string {
	parts := strings.Split(s, "`")
	for i := range parts {
		if i%2 == 0 {
			parts[i] = strings.NewReplacer("*", `\*`, "<", "&lt;", "[", `\[`, "_", `\_`).Replace(parts[i])
		}
	}
	return strings.Join(parts, "`")
}

func markdownCell(s string) string { return strings.ReplaceAll(markdownText(s), "|", `\|`) }

// Every command can be learnt from its help alone.
func TestEveryCommandHasAnExampleAndItsExitStatuses(t *testing.T) {
	t.Parallel()
	root := testRoot()
	known := map[string]bool{}
	for _, c := range documented(root) {
		path := pathBelow(c)
		known[path] = true
		p := pageOf(c)
		if len(p.examples) == 0 {
			t.Errorf("provision %s has no example: give it one in help_texts.go", path)
		}
		if len(p.blocks) == 0 && len(c.Long) == 0 && len(c.Short) < 20 {
			t.Errorf("provision %s says nothing of itself", path)
		}
		if leaf := len(p.commands) == 0; leaf && len(p.exit) == 0 && !strings.HasPrefix(path, "completion") {
			t.Errorf("provision %s does not tell its exit statuses: give them in help_texts.go", path)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("provision %s --%s says nothing of itself", path, f.Name)
			}
		})
	}
	for path := range helps {
		if !known[path] {
			t.Errorf("help_texts.go has a text of %q, which is no command", path)
		}
	}
}

// An example is a command line that the program takes.
func TestTheExamplesOfTheHelpAreCommandLines(t *testing.T) {
	t.Parallel()
	for _, c := range documented(testRoot()) {
		for _, line := range pageOf(c).examples {
			words := shellWords(t, line)
			if words[0] != "provision" {
				t.Errorf("%s: %q is no command line of this program", c.CommandPath(), line)
				continue
			}
			root := testRoot()
			found, rest, err := root.Find(words[1:])
			if err != nil {
				t.Errorf("%q: %v", line, err)
				continue
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("%q: %v", line, err)
			}
			if err := found.ValidateArgs(found.Flags().Args()); err != nil {
				t.Errorf("%q: %v", line, err)
			}
			if found.CommandPath() != c.CommandPath() && len(c.Commands()) == 0 {
				t.Errorf("the example %q is one of %q, want %q", line, found.CommandPath(), c.CommandPath())
			}
		}
	}
}

// shellWords splits a line as a shell does, up to a redirection.
func shellWords(t *testing.T, line string) []string {
	t.Helper()
	var words []string
	var word strings.Builder
	quote, inWord := rune(0), false
	for _, r := range line + " " {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ':
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		default:
			inWord = true
			word.WriteRune(r)
		}
	}
	if quote != 0 {
		t.Errorf("%q has an open quote", line)
	}
	if at := slices.Index(words, ">"); at >= 0 {
		words = words[:at]
	}
	return words
}

// The manual names every variable that the program reads.
func TestTheManualNamesTheEnvironmentThatTheProgramReads(t *testing.T) {
	t.Parallel()
	read := environmentRead(t)
	for _, name := range read {
		if !slices.ContainsFunc(environment, func(e where) bool { return e.name == name }) {
			t.Errorf("the program reads %s, of which the manual does not tell", name)
		}
	}
	for _, e := range environment {
		if !slices.Contains(read, e.name) {
			t.Errorf("the manual tells of %s, which the program does not read", e.name)
		}
	}
}
