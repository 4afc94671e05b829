package upgrade

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// section is a part of docs/upgrades.md, from its heading to the next.
func section(t *testing.T, heading string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/upgrades.md")
	if err != nil {
		t.Fatal(err)
	}
	_, found, _ := strings.Cut(string(text), "\n## "+heading+"\n")
	found, _, _ = strings.Cut(found, "\n## ")
	return found
}

func TestEveryReasonIsExplained(t *testing.T) {
	t.Parallel()
	row := regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| (run|node|note) \\| ([^|]{10,}) \\| ([^|]{10,}) \\|$")
	documented, want := map[string]string{}, map[string]string{}
	for _, cells := range row.FindAllStringSubmatch(section(t, "The plan"), -1) {
		documented[cells[1]] = cells[2] + ": " + cells[4]
	}
	for code, r := range reasons {
		want[string(code)] = string(r.blocks) + ": " + r.hint
	}
	if diff := cmp.Diff(want, documented); diff != "" {
		t.Errorf("docs/upgrades.md (-reason.go +document):\n%s", diff)
	}
}

func TestEveryVerdictIsExplained(t *testing.T) {
	t.Parallel()
	row := regexp.MustCompile("(?m)^\\| `([a-z ]+)` \\| [^|]{10,} \\| [^|]+ \\|$")
	documented, want := map[string]bool{}, map[string]bool{string(VerdictUpgraded): true}
	for _, cells := range row.FindAllStringSubmatch(section(t, "Verdicts"), -1) {
		documented[cells[1]] = true
	}
	for verdict := range endings {
		want[string(verdict)] = true
	}
	if diff := cmp.Diff(want, documented); diff != "" {
		t.Errorf("docs/upgrades.md (-verdict.go +document):\n%s", diff)
	}
}
