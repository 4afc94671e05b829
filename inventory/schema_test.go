package inventory_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/talos-provision/provision/inventory"
)

// update rewrites the generated files instead of comparing them:
// UPDATE=1 go test ./inventory -run Documentation.
var update = os.Getenv("UPDATE") != ""

func generated(t *testing.T, file, want string) {
	t.Helper()
	if update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the table of fields gives: run UPDATE=1 go test ./inventory -run Documentation", file)
	}
}

func TestDocumentationHoldsTheSchemaOfToday(t *testing.T) {
	t.Parallel()
	schema, err := inventory.Schema()
	if err != nil {
		t.Fatal(err)
	}
	generated(t, "../docs/inventory.schema.json", string(schema))
}

// The tables of fields and findings stand in the documentation as they are in
// the code.
func TestDocumentationNamesEveryFieldAndRule(t *testing.T) {
	t.Parallel()
	const file = "../docs/inventory.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var fields, rules strings.Builder
	fields.WriteString("| field | what it is | example |\n| --- | --- | --- |\n")
	for _, f := range inventory.Fields() {
		if f.Text == "" || f.Example == "" {
			t.Errorf("%s has no text or no example", f.Path)
		}
		fields.WriteString("| `" + f.Path + "` | " + f.Text + " | `" + f.Example + "` |\n")
	}
	rules.WriteString("| rule | severity | what it says |\n| --- | --- | --- |\n")
	for _, r := range inventory.Rules() {
		rules.WriteString("| `" + string(r.Rule) + "` | " + r.Severity.String() + " | " + r.Text + " |\n")
	}
	want := string(text)
	for name, table := range map[string]string{"fields": fields.String(), "rules": rules.String()} {
		before, rest, opened := strings.Cut(want, "<!-- "+name+" -->\n")
		_, after, closed := strings.Cut(rest, "<!-- /"+name+" -->")
		if !opened || !closed {
			t.Fatalf("%s has no place for the table of %s", file, name)
		}
		want = before + "<!-- " + name + " -->\n" + table + "<!-- /" + name + " -->" + after
	}
	generated(t, file, want)
}

// The file that the documentation shows in full is sound.
func TestDocumentationShowsASoundFile(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/inventory.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "In full:\n\n```yaml\n")
	content, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("there is no such file")
	}
	if err := newSchemaChecker(t).file(content); err != nil {
		t.Error(err)
	}
	clean(t, map[string]string{
		"_defaults.yaml": "schematicID: " + schematic + "\ntalosVersion: v1.13.9\nkernelArgs: " + metalArgs + "\n", "k8s-prod/node-14.yaml": content,
	})
}

// The examples of the table of fields are values of their fields.
func TestExamplesOfFieldsAreValid(t *testing.T) {
	t.Parallel()
	checker := newSchemaChecker(t)
	for _, f := range inventory.Fields() {
		content := f.Path + ": " + f.Example + "\n"
		if parent, child, nested := strings.Cut(f.Path, "."); nested {
			content = parent + ":\n  " + child + ": " + f.Example + "\n"
		}
		if err := checker.file(content); err != nil {
			t.Errorf("the schema refuses %q: %v", content, err)
		}
		_, findings := load(t, tree(t, map[string]string{"c/n1.yaml": content}))
		for _, finding := range findings {
			if finding.Rule == inventory.RuleInvalid || finding.Rule == inventory.RuleWrongType || finding.Rule == inventory.RuleUnknownKey {
				t.Errorf("%q: %s", content, finding)
			}
		}
	}
}

func TestSchemaAcceptsTheExamples(t *testing.T) {
	t.Parallel()
	checker := newSchemaChecker(t)
	for _, dir := range []string{"../docs/examples/nodes", "testdata/reference/nodes"} {
		err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return err
			}
			if err := checker.file(string(content)); err != nil {
				t.Errorf("%s/%s: %v", dir, name, err)
			}
			if _, rest, has := strings.Cut(string(content), "# yaml-language-server: $schema="); has {
				schema, _, _ := strings.Cut(rest, "\n")
				_, err = os.Stat(filepath.Join(dir, filepath.Dir(name), schema))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// beyondSchema are the bad cases that no schema of one file can refuse, because
// the value is wrong only among others, or the text of the file is, or another
// program must be asked.
var beyondSchema = map[string]string{
	"two passwords": "a folder above may set one, which this file unsets", "three passwords": "as above", "no password": "it may come from above",
	"ip without netmask": "it may come from above", "vlan without ip": "it may come from above", "vlan without interface": "it may come from above",
	"no pti": "it depends on install and talosVersion", "no kernelArgs": "it may come from above", "nothing identifies it": "it may come from above",
	"no schematic": "it may come from above", "no version": "it may come from above",
	"network address": "arithmetic", "broadcast address": "arithmetic", "netmask of IPv6": "two values", "gateway of IPv6": "two values",
	"long vlan interface": "two values", "vlan with zeros": "YAML reads 0100 as a number", "tag": "YAML drops it", "board serial": "YAML reads it as a number",
	"command line with the boot loader's": "two values", "long command line": "two values",
	"password in the command": "words", "password in talos.config": "an editor shows it as it is written", "unknown variable": "talos.config is parsed",
	"talos.config by TFTP": "talos.config is parsed", "variable of iPXE": "it is fine in talos.config", "long serial": "length after trimming",
}

func TestSchemaRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	checker := newSchemaChecker(t)
	refused := 0
	for name, test := range fileCases {
		err := checker.file(test.content)
		_, beyond := beyondSchema[name]
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: nothing is wrong with %q, but the schema refuses it: %v", name, test.content, err)
		case test.want != "" && err == nil && !beyond:
			t.Errorf("%s: the schema accepts %q", name, test.content)
		case err != nil && beyond:
			t.Errorf("%s: the schema refuses %q, but beyondSchema says that it cannot: %v", name, test.content, err)
		case err != nil:
			refused++
		}
	}
	if refused < 40 {
		t.Errorf("only %d bad cases are refused", refused)
	}
	for name := range beyondSchema {
		if _, is := fileCases[name]; !is {
			t.Errorf("beyondSchema names %q, which is no case", name)
		}
	}
}

// A schema that is stricter than the checks would mark sound files in editors.
func TestSchemaAcceptsWhatTheChecksAccept(t *testing.T) {
	t.Parallel()
	checker := newSchemaChecker(t)
	for path, values := range map[string][]string{
		"ip": {"1.2.3.4", "'::'", "fd00::1", "::ffff:1.2.3.4"}, "netmask": {"24", "255.255.254.0", "128", "'16'", "'ffff::'"},
		"vlan": {"1", "4094", "'99'", "1234"}, "interface": {"ens1", "enx0cc47a000001", "bond0.5"},
		"serial":  {"0123", "1e5", "A-1/2.3", "yes", "2024-01-02", "'  A1 '", "PWAMT%%LMB0001", "System12"},
		"uuid":    {"4C4C4544-0042-4310-8031-b2c04f333334", "'{4c4c4544-0042-4310-8031-b2c04f333334}'", "4c4c4544004243108031b2c04f333334", "urn:uuid:4c4c4544-0042-4310-8031-b2c04f333334"},
		"mac":     {"0c:c4:7a:00:00:01", "0CC4.7A00.0001", "0c-c4-7a-00-00-01", "0cc47a000001", "00:11:22:33:44:55"},
		"ntp":     {"pool.ntp.org", "fd00::1", "10.0.0.1", "a.", "1"},
		"cluster": {"k8s", "5", "a.b_c"}, "talosVersion": {"v1.9.0", "v1.14.0-alpha.1"},
		"bmc.address":         {"10.0.0.1", "'[fd00::1]:443'", "fd00::1", "https://bmc-1.example/", "HTTPS://b:8443", "b:8443"},
		"bmc.fingerprint":     {"SHA256=D3:22:f1:0d314ac3543a4721ed1b3753523805ad3e9293a72a171407853c42daf5", "sha256/0yLxDTFKw1Q6RyHtGzdTUjgFrT6Sk6cqFxQHhTxC2vU=", "sha256//0yLxDTFKw1Q6RyHtGzdTUjgFrT6Sk6cqFxQHhTxC2vU=", "0yLxDTFKw1Q6RyHtGzdTUjgFrT6Sk6cqFxQHhTxC2vU"},
		"bmc.passwordCommand": {"pass show x", "[pass, show, 5]"}, "labels": {"{a: 1, b: true, c: x, d: null, e.f/g: 1.5}"},
		"kernelArgs": {"''", "a=b;c x#y a|b", "\"a\\n  b\\tc\""}, "install": {"False", "false"},
	} {
		for _, value := range values {
			content := path + ": " + value + "\n"
			if parent, child, nested := strings.Cut(path, "."); nested {
				content = parent + ": {" + child + ": " + value + "}\n"
			}
			_, findings := load(t, tree(t, map[string]string{"c/n1.yaml": content}))
			if i := slices.IndexFunc(findings, func(f inventory.Finding) bool {
				return f.Field == path && f.Severity == inventory.Error && f.Rule != inventory.RuleNoNetmask && f.Rule != inventory.RuleVLANNowhere
			}); i >= 0 {
				t.Errorf("not accepted at all: %s", findings[i])
			}
			if err := checker.file(content); err != nil {
				t.Errorf("the schema refuses %q: %v", content, err)
			}
			if err := checker.file(strings.Replace(content, value, "null", 1)); err != nil {
				t.Errorf("%s cannot be unset: %v", path, err)
			}
		}
	}
}
