package inventory_test

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory"
)

// sarif is what a reader of SARIF 2.1.0 looks at.
type sarif struct {
	Schema  string `json:"$schema"`
	Version string `json:"version"`
	Runs    []struct {
		ColumnKind string `json:"columnKind"`
		Tool       struct {
			Driver struct {
				Name  string `json:"name"`
				Rules []struct {
					ID               string
					ShortDescription struct{ Text string }
				} `json:"rules"`
			} `json:"driver"`
		} `json:"tool"`
		Results []struct {
			RuleID    string `json:"ruleId"`
			RuleIndex int    `json:"ruleIndex"`
			Level     string `json:"level"`
			Message   struct{ Text string }
			Locations []struct {
				PhysicalLocation struct {
					ArtifactLocation struct{ URI string }
					Region           struct{ StartLine, StartColumn *int }
				}
			}
		} `json:"results"`
	} `json:"runs"`
}

// TestSARIF holds the report against the rules of SARIF 2.1.0: the version
// (3.13.2), unique rule ids (3.19.23), results that name their rule by id and
// index (3.27.5, 3.27.6), levels (3.27.10), messages (3.11), URIs (3.4.3), and
// regions that begin at 1 (3.30.5, 3.30.6).
func TestSARIF(t *testing.T) {
	t.Parallel()
	_, findings := load(t, tree(t, map[string]string{
		"_defaults.yaml": "ntp: pool.ntp.org\nnetmask: 24\n", "c d/ü:1.yaml": "serail: x\nip: 10.0.0.1\n", "c d/n2.yaml": "ip: 10.0.0.1\n", "c d/N3.yaml": "",
	}))
	if len(findings) < 5 {
		t.Fatalf("too few findings:\n%s", findings)
	}
	var out bytes.Buffer
	if err := findings.WriteSARIF(&out, inventory.Report{Tool: "provision", Version: "v1", Root: "a/nodes"}); err != nil {
		t.Fatal(err)
	}
	var log sarif
	if err := json.Unmarshal(out.Bytes(), &log); err != nil {
		t.Fatal(err)
	}
	if log.Version != "2.1.0" || !strings.Contains(log.Schema, "sarif-2.1.0") || len(log.Runs) != 1 || log.Runs[0].Tool.Driver.Name != "provision" {
		t.Fatalf("log: %s", out.String())
	}
	run := log.Runs[0]
	if run.ColumnKind != "unicodeCodePoints" && run.ColumnKind != "utf16CodeUnits" {
		t.Errorf("columnKind %q", run.ColumnKind)
	}
	rules := make([]string, 0, len(run.Tool.Driver.Rules))
	for _, r := range run.Tool.Driver.Rules {
		if r.ID == "" || slices.Contains(rules, r.ID) || r.ShortDescription.Text == "" {
			t.Errorf("rule %+v", r)
		}
		rules = append(rules, r.ID)
	}
	if len(run.Results) != len(findings) {
		t.Fatalf("%d results for %d findings", len(run.Results), len(findings))
	}
	for i, r := range run.Results {
		if r.RuleID != string(findings[i].Rule) || r.RuleIndex >= len(rules) || rules[r.RuleIndex] != r.RuleID {
			t.Errorf("result %d: rule %q, index %d", i, r.RuleID, r.RuleIndex)
		}
		if !slices.Contains([]string{"none", "note", "warning", "error"}, r.Level) || r.Message.Text == "" || len(r.Locations) != 1 {
			t.Errorf("result %d: %+v", i, r)
		}
		place := r.Locations[0].PhysicalLocation
		uri, err := url.Parse(place.ArtifactLocation.URI)
		if err != nil || uri.IsAbs() || uri.Path != "a/nodes/"+findings[i].File || strings.Contains(place.ArtifactLocation.URI, " ") {
			t.Errorf("result %d: uri %q of %q, %v", i, place.ArtifactLocation.URI, findings[i].File, err)
		}
		if line := place.Region.StartLine; line == nil || *line < 1 || findings[i].Line > 0 && *line != findings[i].Line {
			t.Errorf("result %d: region %+v", i, place.Region)
		}
		if column := place.Region.StartColumn; column != nil && *column < 1 {
			t.Errorf("result %d: column %d", i, *column)
		}
	}
}

// A report without findings is valid too: it closes what was open before.
func TestSARIFOfNothing(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := (inventory.Findings{}).WriteSARIF(&out, inventory.Report{Tool: "provision"}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `"results": []`) {
		t.Error(out.String())
	}
}

func TestSARIFOfAnInventoryElsewhere(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := (inventory.Findings{{Rule: inventory.RuleSyntax, File: "a b.yaml", Message: "m"}}).WriteSARIF(&out, inventory.Report{Root: "/etc/nodes"}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `"uri": "file:///etc/nodes/a%20b.yaml"`) {
		t.Error(out.String())
	}
}

func TestAnnotations(t *testing.T) {
	t.Parallel()
	findings := inventory.Findings{
		{Rule: inventory.RuleInvalid, File: "c/n1.yaml", Line: 2, Column: 5, Message: "100% wrong", Hint: "see:\nthis, and that"},
		{Severity: inventory.Warning, Rule: inventory.RuleIgnored, File: "c,d:e.yaml", Message: "m"},
	}
	var out bytes.Buffer
	if err := findings.WriteAnnotations(&out, inventory.Report{Tool: "provision", Root: "nodes"}); err != nil {
		t.Fatal(err)
	}
	const want = "::error file=nodes/c/n1.yaml,line=2,col=5,title=provision%3A invalid-value::100%25 wrong; see:%0Athis, and that\n" +
		"::warning file=nodes/c%2Cd%3Ae.yaml,line=1,title=provision%3A ignored-file::m\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

func TestStrictMakesWarningsErrors(t *testing.T) {
	t.Parallel()
	findings := inventory.Findings{{Severity: inventory.Warning, Message: "m"}, {Message: "n"}}
	if strict := findings.Strict(); strict.Count(inventory.Error) != 2 || findings.Count(inventory.Warning) != 1 {
		t.Errorf("strict %v of %v", strict, findings)
	}
}
