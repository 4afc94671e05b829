package inventory

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path"
)

// The part of a code quality report that GitLab reads.
type (
	qualityIssue struct {
		Description string          `json:"description"`
		CheckName   string          `json:"check_name"`
		Fingerprint string          `json:"fingerprint"`
		Severity    string          `json:"severity"`
		Location    qualityLocation `json:"location"`
	}
	qualityLocation struct {
		Path  string       `json:"path"`
		Lines qualityLines `json:"lines"`
	}
	qualityLines struct {
		Begin int `json:"begin"`
	}
)

// qualitySeverities are GitLab's words; it has info, minor, major, critical and blocker.
var qualitySeverities = map[Severity]string{Error: "blocker", Warning: "minor"}

// WriteCodeQuality writes the findings as a code quality report, which GitLab shows
// in a merge request and beside its changed lines. What concerns a whole file is put
// on its first line.
func (f Findings) WriteCodeQuality(w io.Writer, report Report) error {
	issues := make([]qualityIssue, 0, len(f))
	alike := map[string]int{}
	for _, finding := range f {
		file := path.Join(report.Root, finding.File)
		// GitLab compares branches by it, so a finding keeps its own when lines move.
		mark := fmt.Sprintf("%q %q %q %q", file, finding.Rule, finding.Field, finding.Message)
		alike[mark]++
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", mark, alike[mark]))
		issues = append(issues, qualityIssue{
			Description: finding.sentence(), CheckName: report.Tool + ": " + string(finding.Rule), Fingerprint: hex.EncodeToString(sum[:]),
			Severity: qualitySeverities[finding.Severity], Location: qualityLocation{file, qualityLines{max(finding.Line, 1)}},
		})
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(issues); err != nil {
		return fmt.Errorf("write a code quality report: %w", err)
	}
	return nil
}
