package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	claimed    = regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	positions  = regexp.MustCompile(`(?m)^### (.+)$`)
	claimTable = regexp.MustCompile(`(?m)^\| (.+) \| (.+) \| (.+) \| (.+) \|$`)
)

// Every claim about what an attacker gets names tests, and they are there. One without
// a test says what remains.
func TestEveryClaimAboutSecurityNamesATestThatIsThere(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs/security.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## By where an attacker stands")
	section, _, _ = strings.Cut(section, "\n## ")
	if found := positions.FindAllString(section, -1); len(found) < 6 {
		t.Errorf("only these positions are there: %v", found)
	}
	tests, names := testNames(t), 0
	for _, row := range claimTable.FindAllStringSubmatch(section, -1) {
		attempt, proof, rest := row[1], row[3], row[4]
		if strings.HasPrefix(attempt, "---") || proof == "proven by" {
			continue
		}
		found := claimed.FindAllStringSubmatch(proof, -1)
		if len(found) == 0 && (proof != "-" || rest == "-") {
			t.Errorf("%q has neither a test nor words on what remains", attempt)
		}
		for _, name := range found {
			names++
			if !tests[name[1]] {
				t.Errorf("%q: there is no %s", attempt, name[1])
			}
		}
	}
	if names < 40 {
		t.Errorf("only %d tests are named", names)
	}
}
