package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/talos-provision/provision/e2e/needs"
)

const monitoring = "../../docs/examples/monitoring"

// promtool runs promtool on an input, and returns all that it says; "" says that it
// found nothing wrong.
func promtool(t *testing.T, input string, args ...string) string {
	t.Helper()
	program := "promtool"
	if cache, err := os.UserCacheDir(); err == nil {
		unpacked := filepath.Join(cache, "talos-provision/prometheus/usr/bin/promtool")
		if _, err := os.Stat(unpacked); err == nil {
			program = unpacked
		}
	}
	if program == "promtool" {
		needs.Program(t, program)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // a program of the tests
	cmd.Stdin = strings.NewReader(input)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Sprintf("%s%v", said.String(), err)
	}
	if args[0] == "check" && args[1] == "metrics" {
		return said.String()
	}
	return ""
}

// The rules are sound, each fires when it should and is silent when it should be, and
// the configuration around them can be read.
func TestTheAlertRulesDoAsTheirTestsSay(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"check", "rules", filepath.Join(monitoring, "alerts.yaml")},
		{"test", "rules", filepath.Join(monitoring, "alerts_test.yaml")},
		{"check", "config", "--syntax-only", filepath.Join(monitoring, "prometheus.yml")},
	} {
		if said := promtool(t, "", args...); said != "" {
			t.Errorf("promtool %s: %s", strings.Join(args[:2], " "), said)
		}
	}
}

// alertRule is what a rule must have.
type alertRule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func alertRules(t *testing.T) []alertRule {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []alertRule `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal([]byte(textOf(t, filepath.Join(monitoring, "alerts.yaml"))), &file); err != nil {
		t.Fatal(err)
	}
	var rules []alertRule
	for _, g := range file.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules
}

// Every alert says how bad it is, what it is about and where to read on, and has a test
// in which it fires and one in which it does not.
func TestEveryAlertIsExplainedAndTested(t *testing.T) {
	t.Parallel()
	docs := textOf(t, metricsDocs)
	var file struct {
		Tests []struct {
			Alerts []struct {
				Alert    string `yaml:"alertname"`
				Expected []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		} `yaml:"tests"`
	}
	if err := yaml.Unmarshal([]byte(textOf(t, filepath.Join(monitoring, "alerts_test.yaml"))), &file); err != nil {
		t.Fatal(err)
	}
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, one := range file.Tests {
		for _, a := range one.Alerts {
			if len(a.Expected) > 0 {
				fires[a.Alert] = true
			} else {
				silent[a.Alert] = true
			}
		}
	}
	rules := alertRules(t)
	if len(rules) < 11 {
		t.Errorf("there are %d alerts", len(rules))
	}
	for _, r := range rules {
		if !fires[r.Alert] || !silent[r.Alert] {
			t.Errorf("%s: a test in which it fires: %t, in which it does not: %t", r.Alert, fires[r.Alert], silent[r.Alert])
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) || r.For == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s lacks a severity, a time, a summary or a description: %+v", r.Alert, r)
		}
		page, anchor, _ := strings.Cut(r.Annotations["runbook_url"], "#")
		if !strings.HasSuffix(page, "/docs/metrics.md") || anchor != strings.ToLower(r.Alert) || !strings.Contains(docs, "\n### "+r.Alert+"\n") {
			t.Errorf("%s: the runbook %s is no heading of docs/metrics.md", r.Alert, r.Annotations["runbook_url"])
		}
	}
}

// grafana is what the test knows of Grafana's schema.
type grafana struct {
	Title         string `json:"title"`
	UID           string `json:"uid"`
	SchemaVersion int    `json:"schemaVersion"`
	Templating    struct {
		List []struct {
			Name, Type, Definition string
		} `json:"list"`
	} `json:"templating"`
	Panels []grafanaPanel `json:"panels"`
}

type grafanaPanel struct {
	ID         int
	Type       string
	Title      string
	Datasource struct{ Type, UID string }
	GridPos    struct{ X, Y, W, H int }
	Targets    []struct{ RefID, Expr string }
}

func readDashboard(t *testing.T) grafana {
	t.Helper()
	var d grafana
	if err := json.Unmarshal([]byte(textOf(t, filepath.Join(monitoring, "grafana-dashboard.json"))), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// The dashboard can be imported: panels have what they need, and none lies on another.
func TestTheDashboardIsOneThatGrafanaTakes(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	if d.Title == "" || d.UID == "" || d.SchemaVersion < 36 || len(d.Panels) < 20 {
		t.Errorf("the dashboard %q has uid %q, schema %d, %d panels", d.Title, d.UID, d.SchemaVersion, len(d.Panels))
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 || p.Title == "" || !slices.Contains([]string{"row", "stat", "timeseries"}, p.Type) {
			t.Errorf("panel %d %q: its id is not its own, or it has no title, or the type %q", p.ID, p.Title, p.Type)
		}
		ids[p.ID] = true
		if p.GridPos.W < 1 || p.GridPos.H < 1 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q is at %+v", p.Title, p.GridPos)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[at] != "" {
					t.Errorf("panel %q lies on %q", p.Title, taken[at])
				}
				taken[at] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" || p.Datasource.Type != "prometheus" {
			t.Errorf("panel %q asks nothing, or not the chosen datasource", p.Title)
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			if target.Expr == "" || target.RefID == "" || refs[target.RefID] {
				t.Errorf("panel %q has the target %+v", p.Title, target)
			}
			refs[target.RefID] = true
		}
	}
	variables := make([]string, 0, len(d.Templating.List))
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	if !slices.Equal(variables, []string{"datasource", "job", "cluster"}) {
		t.Errorf("variables %v", variables)
	}
}

// expressions are all that dashboard and alerts ask Prometheus, with values for Grafana's variables.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	values := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$cluster", ".*")
	all := map[string]string{}
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			all["panel "+p.Title+" "+target.RefID] = values.Replace(target.Expr)
		}
	}
	for _, r := range alertRules(t) {
		all["alert "+r.Alert] = r.Expr
	}
	return all
}

// Prometheus understands every expression of the dashboard; a variable that is left over is an error.
func TestPrometheusUnderstandsEveryPanel(t *testing.T) {
	t.Parallel()
	type rule struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	asked := expressions(t)
	rules := make([]rule, 0, len(asked))
	for where, expr := range asked {
		if strings.Contains(expr, "$") {
			t.Errorf("%s asks %s: a variable has no value", where, expr)
		}
		rules = append(rules, rule{fmt.Sprintf("r%d", len(rules)), expr})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "all", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if said := promtool(t, "", "check", "rules", file); said != "" {
		t.Errorf("promtool says %s of\n%s", said, text)
	}
}

// metricName finds names of metrics in an expression: what no quotes, no braces and no
// brackets enclose, and is neither a function nor a word of the language.
var (
	quoted     = regexp.MustCompile(`"[^"]*"`)
	matchers   = regexp.MustCompile(`\{[^}]*\}|\[[^\]]*\]`)
	groupings  = regexp.MustCompile(`\b(by|without|on|ignoring)\s*\([^)]*\)`)
	identifier = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*\s*\(?`)
	number     = regexp.MustCompile(`\b[0-9][0-9.]*(e[0-9]+)?\b`)
)

func metricNames(expr string) []string {
	for _, part := range []*regexp.Regexp{quoted, matchers, groupings, number} {
		expr = part.ReplaceAllString(expr, " ")
	}
	var names []string
	for _, word := range identifier.FindAllString(expr, -1) {
		if strings.HasSuffix(word, "(") || slices.Contains([]string{"and", "or", "unless", "by", "bool"}, strings.TrimSpace(word)) {
			continue
		}
		names = append(names, strings.TrimSpace(word))
	}
	return names
}

// checkNames: dashboard and alerts ask for nothing that a scrape does not have, and every
// label that they choose by is one of its metric.
func checkNames(t *testing.T, s scraped) {
	t.Helper()
	known := map[string]map[string]bool{"up": {"job": true}}
	for _, m := range s.samples {
		if known[m.name] == nil {
			known[m.name] = map[string]bool{"job": true, "instance": true} // Prometheus adds them
		}
		for label := range m.labels {
			known[m.name][label] = true
		}
	}
	asked := 0
	for where, expr := range expressions(t) {
		names := metricNames(expr)
		if len(names) == 0 {
			t.Errorf("%s asks %s, which names no metric", where, expr)
		}
		for _, name := range names {
			asked++
			if known[name] == nil {
				t.Errorf("%s asks for %s, which no scrape has", where, name)
			}
		}
		for _, chosen := range regexp.MustCompile(`([a-z_]+)\{([^}]*)\}`).FindAllStringSubmatch(expr, -1) {
			for _, label := range regexp.MustCompile(`([a-z_]+)[=!]~?"`).FindAllStringSubmatch(chosen[2], -1) {
				if known[chosen[1]] != nil && !known[chosen[1]][label[1]] {
					t.Errorf("%s chooses %s by %s, which it has not", where, chosen[1], label[1])
				}
			}
		}
	}
	if asked < 50 {
		t.Errorf("only %d names were found", asked)
	}
}

func TestNamesOfMetricsAreFoundInExpressions(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string][]string{
		`up{job="provision"} == 0`: {"up"},
		`sum by (le, state) (rate(a_bucket{x=~"b|c"}[5m])) / ignoring(x) c_d`: {"a_bucket", "c_d"},
		`a / (b > 0) > 0.9 or c < 1e9`:                                        {"a", "b", "c"},
	} {
		if got := metricNames(expr); !slices.Equal(got, want) {
			t.Errorf("%s names %v, want %v", expr, got, want)
		}
	}
}
