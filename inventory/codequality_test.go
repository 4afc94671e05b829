package inventory_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/talos-provision/provision/inventory"
)

type quality struct {
	Description string `json:"description"`
	CheckName   string `json:"check_name"`
	Fingerprint string `json:"fingerprint"`
	Severity    string `json:"severity"`
	Location    struct {
		Path  string `json:"path"`
		Lines struct {
			Begin int `json:"begin"`
		} `json:"lines"`
	} `json:"location"`
}

func codeQuality(t *testing.T, findings inventory.Findings) []quality {
	t.Helper()
	var out bytes.Buffer
	if err := findings.WriteCodeQuality(&out, inventory.Report{Tool: "provision", Root: "sites/nodes"}); err != nil {
		t.Fatal(err)
	}
	var issues []quality
	if err := json.Unmarshal(out.Bytes(), &issues); err != nil || issues == nil {
		t.Fatalf("%v in %s", err, out.String())
	}
	return issues
}

func TestCodeQualityHasPlaceSeverityAndALastingFingerprint(t *testing.T) {
	t.Parallel()
	first := inventory.Finding{Rule: inventory.RuleNotAFile, File: "a/n1.yaml", Line: 3, Field: "ip", Message: "is <nonsense>", Hint: "give an address"}
	second := inventory.Finding{Severity: inventory.Warning, Rule: inventory.RuleIgnored, File: "a/_x.yaml", Message: "is ignored"}
	issues := codeQuality(t, inventory.Findings{first, second, first})
	if len(issues) != 3 {
		t.Fatalf("%d issues, want 3", len(issues))
	}
	type shown struct {
		text, check, severity, path string
		line                        int
	}
	got := make([]shown, 0, len(issues))
	prints := map[string]bool{}
	for _, i := range issues {
		got = append(got, shown{i.Description, i.CheckName, i.Severity, i.Location.Path, i.Location.Lines.Begin})
		prints[i.Fingerprint] = true
	}
	a := shown{"is <nonsense>; give an address", "provision: " + string(inventory.RuleNotAFile), "blocker", "sites/nodes/a/n1.yaml", 3}
	want := []shown{a, {"is ignored", "provision: " + string(inventory.RuleIgnored), "minor", "sites/nodes/a/_x.yaml", 1}, a}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(shown{})); diff != "" {
		t.Errorf("issues (-want +got):\n%s", diff)
	}
	if len(prints) != 3 {
		t.Errorf("%d fingerprints of 3 issues", len(prints))
	}
	first.Line = 40
	if moved := codeQuality(t, inventory.Findings{first}); moved[0].Fingerprint != issues[0].Fingerprint {
		t.Error("the fingerprint changes with the line")
	}
	if none := codeQuality(t, nil); len(none) != 0 {
		t.Errorf("of no findings: %v", none)
	}
}
