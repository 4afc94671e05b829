// Package docs proves that what the documentation tells people to type works: every
// command line is understood by the program, and every command of a block is executed
// in a world made for its page, or proven as a table of rules says. Snippets of
// configuration and inventory are loaded by the program.
package docs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/talos-provision/provision/e2e/needs"
)

// refusals are what the program says of a command line that it does not understand.
var refusals = regexp.MustCompile(`unknown (command|flag|shorthand flag)|invalid argument|flag needs an argument|(accepts|requires) .*arg\(s\)|required flag`)

// arguments are the refusals that a name in a sentence, such as `provision hold`, may meet.
var arguments = regexp.MustCompile(`(accepts|requires) .*arg\(s\)|required flag|flag needs an argument`)

// noConfig keeps a command that is understood from doing anything.
const noConfig = "/nonexistent/provision.yaml"

// Every command line that is shown, in blocks and in sentences, has subcommands,
// flags and as many arguments as there are.
func TestEveryCommandOfTheDocumentationParses(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("building the programs takes too long for -short")
	}
	parsed := map[string]bool{}
	for _, page := range pages(t) {
		for _, s := range snippets(t, page) {
			lines := commands(s)
			if s.inline || s.lang == "ini" {
				lines = []command{{snippet: s, text: strings.ReplaceAll(s.text, "ExecStart=", "\n")}}
			}
			for _, c := range lines {
				if s.inline && !strings.HasPrefix(c.text, "provision ") && !strings.HasPrefix(c.text, "bin/provision ") {
					continue
				}
				for _, args := range invocations(c.text, "provision") {
					if parsed[strings.Join(args, " ")] {
						continue
					}
					parsed[strings.Join(args, " ")] = true
					if said := refused(t, filled(args)); said != "" && (!s.inline || !arguments.MatchString(said)) {
						t.Errorf("%s:%d: provision %s: %s", c.page, c.line, strings.Join(args, " "), said)
					}
				}
			}
		}
	}
	t.Logf("parsed: %d command lines, each once", len(parsed))
	if len(parsed) < 80 {
		t.Errorf("only %d command lines are shown", len(parsed))
	}
}

// optional marks what may be left out in a line of usage.
var (
	optional = strings.NewReplacer("[--", "--", "…", "")
	named    = map[string]string{"NAME": "k8s-prod", "NODE": "node-01", "TEXT": "text", "CIDR|LIST|FILE": "127.0.0.0/30"}
)

// filled puts values in the place of names of values.
func filled(args []string) []string {
	full := make([]string, 0, len(args))
	for _, arg := range args {
		if arg = optional.Replace(arg); !strings.HasPrefix(arg, "{") && strings.HasPrefix(arg, "--") {
			arg = strings.TrimSuffix(arg, "]")
		}
		if value, ok := named[arg]; ok {
			arg = value
		}
		if arg != "" {
			full = append(full, arg)
		}
	}
	return full
}

// refused is what the program says of a command line that it does not understand; "" when it does.
func refused(t *testing.T, args []string) string {
	t.Helper()
	program := filepath.Join(programsFolder(t), "provision")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i, arg := range args {
		if arg == "--config" && i+1 < len(args) {
			args = slices.Delete(slices.Clone(args), i, i+2)
			break
		}
	}
	run := exec.CommandContext(ctx, program, append([]string{"--config", noConfig}, args...)...)
	run.Dir = t.TempDir()
	out, _ := run.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if refusals.MatchString(line) && strings.HasPrefix(line, "provision: ") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// tally counts how commands were proven.
type tally struct {
	mutex sync.Mutex
	count map[string]int
}

func (c *tally) add(name string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.count[name]++
}

// Every command of a block is executed in the world of its page, in the page's order,
// or proven as its rule says; one without a rule fails.
func TestEveryCommandOfTheDocumentationWorks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("provisioning a fleet for each page takes too long for -short")
	}
	for _, program := range []string{"bash", "dnsmasq", "wget"} {
		needs.Program(t, program)
	}
	proven := &tally{count: map[string]int{}}
	unproven := unprovenPage(t)
	tests := testNames(t)
	t.Cleanup(func() {
		t.Logf("executed: %d (of them by stand-ins: %d), by other tests: %d, excused: %d",
			proven.count[string(executed)], proven.count["stood in"], proven.count[string(elsewhere)], proven.count[string(excused)])
	})
	for _, page := range pages(t) {
		var todo []command
		for _, s := range snippets(t, page) {
			for _, c := range commands(s) {
				r, ok := ruleFor(c)
				by := r.by
				if strings.HasPrefix(by, "$") {
					by = r.match.ReplaceAllString(c.text, by)
				}
				switch {
				case !ok:
					t.Errorf("%s:%d: no rule says how this is proven: %s", c.page, c.line, c.text)
				case r.way == executed:
					todo = append(todo, c)
					continue
				case r.way == elsewhere && !hasPrefix(tests, by):
					t.Errorf("%s:%d: %s, which is to prove it, is not there", c.page, c.line, by)
				case r.way == excused && !strings.Contains(unproven, by):
					t.Errorf("%s:%d: docs/unproven.md does not say %q", c.page, c.line, by)
				}
				proven.add(string(r.way))
			}
		}
		if len(todo) > 0 {
			t.Run(page, func(t *testing.T) {
				t.Parallel()
				executeAll(t, page, todo, proven)
			})
		}
	}
}

// executeAll executes the commands of a page in a world of its own.
func executeAll(t *testing.T, page string, todo []command, proven *tally) {
	t.Helper()
	w := newWorld(t, page)
	for _, c := range todo {
		r, _ := ruleFor(c)
		began := time.Now()
		w.execute(c, r, proven)
		if took := time.Since(began); took > time.Second {
			t.Logf("%s:%d took %s", c.page, c.line, took.Round(100*time.Millisecond))
		}
	}
	w.shell("[ ! -e fleetsim.pid ] || kill $(cat fleetsim.pid)")
}

// execute runs one command as its rule says, and looks at what comes of it.
func (w *world) execute(c command, r rule, proven *tally) {
	w.t.Helper()
	proven.add(string(executed))
	line := c.text
	if r.as != "" {
		line = r.match.ReplaceAllString(c.text, r.as)
	}
	shown := "DOC_OUTPUT=" + c.shown
	for _, step := range []struct {
		line   string
		status int
		says   string
		itself bool
	}{{r.before, 0, "", false}, {line, r.status, r.says, true}, {r.after, 0, "", false}} {
		if step.line == "" {
			continue
		}
		got := w.shell(w.at(step.line), shown)
		if got.status != step.status || !regexp.MustCompile(step.says).MatchString(got.out) {
			w.t.Errorf("%s:%d: %s\nended with status %d, want %d and output like %q:\n%s", c.page, c.line, w.at(step.line), got.status, step.status, step.says, got.out)
		}
		if step.itself {
			w.checkStandIns(c, got.stood, proven)
		}
	}
}

// checkStandIns looks at what the programs that stand in were told to do.
func (w *world) checkStandIns(c command, stood []string, proven *tally) {
	w.t.Helper()
	for _, line := range stood {
		name, args, _ := strings.Cut(line, " ")
		pattern, ok := standIns[name]
		if !ok {
			continue
		}
		proven.add("stood in")
		if !regexp.MustCompile("^(" + pattern + ")$").MatchString(args) {
			w.t.Errorf("%s:%d: %s is given %q, want what is like %s", c.page, c.line, name, args, pattern)
		}
	}
}

// hasPrefix says whether a test is called so, or begins so, as "go test -run" has it.
func hasPrefix(tests map[string]bool, name string) bool {
	for test := range tests {
		if strings.HasPrefix(test, name) {
			return true
		}
	}
	return false
}

func unprovenPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/unproven.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)

// testNames are the tests and fuzz targets of the repository.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, found := range testFunction.FindAllStringSubmatch(string(source), -1) {
			names[found[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(fmt.Errorf("read the names of tests: %w", err))
	}
	return names
}
