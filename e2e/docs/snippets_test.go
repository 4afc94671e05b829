package docs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// foreign are top keys of YAML that other programs read; it has to be YAML.
var foreign = []string{
	"apiVersion", "cluster", "customization", "global", "groups", "jobs", "machine", "modules", "receivers", "repository", "route", "scrape_configs", "services", "steps",
}

// missing is what an inventory snippet may be told: the files that it names are not here.
var missing = regexp.MustCompile(`no such file or directory`)

// Snippets of provision.yaml and of the inventory are loaded by the program; other YAML,
// JSON and unit files are at least what they say they are.
func TestEverySnippetOfTheDocumentationLoads(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("building the programs takes too long for -short")
	}
	count := map[string]int{}
	keys := topKeys(t)
	for _, page := range pages(t) {
		for _, s := range snippets(t, page) {
			var kind string
			var err error
			switch {
			case s.inline:
				continue
			case s.lang == "yaml" || s.lang == "yml":
				kind, err = loadYAML(t, s, keys)
			case s.lang == "json" || s.lang == "" && strings.HasPrefix(s.text, "{\""):
				kind, err = "JSON", loadJSON(s.text)
			case s.lang == "ini":
				kind, err = "unit file", loadINI(s.text)
			default:
				continue
			}
			count[kind]++
			if err != nil {
				t.Errorf("%s:%d: this %s does not load: %v", s.page, s.line, kind, err)
			}
		}
	}
	t.Logf("loaded: %v", count)
	if count["configuration"] < 5 || count["inventory"] < 5 {
		t.Errorf("only these were found: %v", count)
	}
}

// A key that does not exist fails in both kinds: else what loads would prove nothing.
func TestASnippetWithAnUnknownKeyDoesNotLoad(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("building the programs takes too long for -short")
	}
	for _, text := range []string{"dhcp: {mode: server, modus: x}\n", "serial: S1\nbmc: {host: 10.0.0.1}\n"} {
		kind, err := loadYAML(t, snippet{text: text, lang: "yaml"}, topKeys(t))
		if err == nil || !strings.Contains(err.Error(), "modus") && !strings.Contains(err.Error(), "host") {
			t.Errorf("this %s loads, or fails for another reason (%v): %s", kind, err, text)
		}
	}
}

// topKeys are the keys of provision.yaml ("configuration") and of an inventory file ("inventory").
func topKeys(t *testing.T) map[string]map[string]bool {
	t.Helper()
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	keys := map[string]map[string]bool{"configuration": {}, "inventory": {}}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-zA-Z]+)[^`]*` \\|").FindAllStringSubmatch(string(read("docs/configuration.md")), -1) {
		keys["configuration"][row[1]] = true
	}
	var schema struct {
		Properties map[string]any `json:"properties"`
	}
	if err := json.Unmarshal(read("docs/inventory.schema.json"), &schema); err != nil {
		t.Fatal(err)
	}
	for key := range schema.Properties {
		keys["inventory"][key] = true
	}
	return keys
}

// loadYAML has the program load a snippet that is for it. Several documents that
// are one line each are alternatives.
func loadYAML(t *testing.T, s snippet, keys map[string]map[string]bool) (kind string, err error) {
	t.Helper()
	var top map[string]any
	err = yaml.Unmarshal([]byte(s.text), &top)
	if err != nil && strings.Contains(err.Error(), "already defined") {
		for line := range strings.Lines(s.text) {
			one := s
			one.text = line
			var alone error
			kind, alone = loadYAML(t, one, keys)
			err = nil
			if alone != nil {
				return kind, alone
			}
		}
		return kind, err
	}
	if err != nil {
		return "YAML", loadDocuments(s.text)
	}
	names := slices.Sorted(maps.Keys(top))
	all := func(kind string) bool {
		return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return !keys[kind][name] })
	}
	switch {
	case slices.ContainsFunc(names, func(name string) bool { return slices.Contains(foreign, name) }), len(names) == 0:
		return "YAML", nil
	case all("configuration"):
		return "configuration", validate(t, completed(s.text, "network:", "network: {interface: eth1}\n"), "")
	case all("inventory"):
		return "inventory", validate(t, "", s.text)
	}
	return "YAML", errors.New("its keys are neither those of provision.yaml nor those of the inventory, nor of another known program: " + strings.Join(names, ", "))
}

// loadDocuments reads a YAML text that is no mapping, or several documents.
func loadDocuments(text string) error {
	for decoder := yaml.NewDecoder(strings.NewReader(text)); ; {
		var any any
		if err := decoder.Decode(&any); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// completed is a snippet with what it leaves out and the program needs.
func completed(text, key, rest string) string {
	if strings.Contains(text, key) {
		return text
	}
	return text + rest
}

// validate has the program load a configuration, or a file of an inventory.
func validate(t *testing.T, configuration, node string) error {
	t.Helper()
	program, dir := filepath.Join(programsFolder(t), "provision"), t.TempDir()
	files := map[string]string{
		"provision.yaml":            configuration,
		"nodes/_defaults.yaml":      "talosVersion: v1.13.9\nkernelArgs: talos.platform=metal slab_nomerge pti=on\nnetmask: 255.255.255.0\ngateway: 10.20.0.1\n",
		"nodes/k8s-prod/node1.yaml": node,
	}
	if !strings.Contains(node, "schematic:") {
		files["nodes/_defaults.yaml"] += "schematicID: 376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba\n"
	}
	if err := os.MkdirAll(filepath.Join(dir, "nodes/k8s-prod"), 0o750); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	run := exec.CommandContext(ctx, program, "inventory", "validate", "--inventory", "nodes")
	run.Dir = dir
	out, err := run.CombinedOutput()
	var exit *exec.ExitError
	if err == nil || !errors.As(err, &exit) {
		return err
	}
	for line := range strings.Lines(string(out)) {
		if (strings.Contains(line, " error: ") || strings.HasPrefix(line, "provision: ")) && !missing.MatchString(line) {
			return errors.New(string(out))
		}
	}
	return nil
}

// loadJSON reads one document, or one a line.
func loadJSON(text string) error {
	for decoder := json.NewDecoder(strings.NewReader(text)); ; {
		var any any
		if err := decoder.Decode(&any); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// loadINI reads sections and assignments, as systemd and others have them.
func loadINI(text string) error {
	section := ""
	for scanner := bufio.NewScanner(bytes.NewBufferString(text)); scanner.Scan(); {
		line := strings.TrimSpace(scanner.Text())
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[' && line[len(line)-1] == ']':
			section = line
		case section == "" || !strings.Contains(line, "="):
			return errors.New("neither a section nor an assignment within one: " + line)
		}
	}
	return nil
}
