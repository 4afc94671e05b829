package inventory

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"
)

// Strict gives the findings with every warning made an error.
func (f Findings) Strict() Findings {
	strict := make(Findings, len(f))
	for i, finding := range f {
		finding.Severity = Error
		strict[i] = finding
	}
	return strict
}

// Report says how findings are written for other programs.
type Report struct {
	// Tool and Version name the program in the report.
	Tool, Version string
	// Root is the folder of the inventory as the reader names it: relative to the
	// root of the repository for CI systems, or absolute.
	Root string
}

// The part of SARIF 2.1.0 (OASIS) that a linter needs. The numbers are the
// sections of the standard.
type (
	sarifLog struct { // 3.13
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct { // 3.14
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"` // 3.14.17
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct { // 3.18
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct { // 3.19
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifRule struct { // 3.49
		ID            string             `json:"id"`
		Short         sarifMessage       `json:"shortDescription"`
		Configuration sarifConfiguration `json:"defaultConfiguration"`
	}
	sarifConfiguration struct { // 3.50
		Level string `json:"level"`
	}
	sarifResult struct { // 3.27
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifMessage    `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifMessage struct { // 3.11
		Text string `json:"text"`
	}
	sarifLocation struct { // 3.28
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct { // 3.29
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct { // 3.4
		URI string `json:"uri"`
	}
	sarifRegion struct { // 3.30; lines and columns begin at 1
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
	}
)

// WriteSARIF writes the findings as SARIF 2.1.0, which code scanning of GitHub,
// GitLab and Azure DevOps read. What concerns a whole file is put on its first line.
func (f Findings) WriteSARIF(w io.Writer, report Report) error {
	run := sarifRun{
		Tool:       sarifTool{sarifDriver{Name: report.Tool, Version: report.Version, Rules: make([]sarifRule, 0, len(ruleInfos))}},
		ColumnKind: "unicodeCodePoints", // as the YAML reader counts
		Results:    make([]sarifResult, 0, len(f)),
	}
	index := make(map[Rule]int, len(ruleInfos))
	for i, r := range ruleInfos {
		index[r.Rule] = i
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{string(r.Rule), sarifMessage{r.Text}, sarifConfiguration{r.Severity.String()}})
	}
	for _, finding := range f {
		run.Results = append(run.Results, sarifResult{
			RuleID: string(finding.Rule), RuleIndex: index[finding.Rule], Level: finding.Severity.String(), Message: sarifMessage{finding.sentence()},
			Locations: []sarifLocation{{sarifPhysical{
				sarifArtifact{report.uri(finding.File)}, sarifRegion{max(finding.Line, 1), finding.Column},
			}}},
		})
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	log := sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}}
	if err := encoder.Encode(log); err != nil {
		return fmt.Errorf("write SARIF: %w", err)
	}
	return nil
}

// sentence is message and hint together.
func (f Finding) sentence() string {
	if f.Hint == "" {
		return f.Message
	}
	return f.Message + "; " + f.Hint
}

// uri is a relative reference, or an absolute URI for a root elsewhere (RFC 3986 4.2).
func (r Report) uri(file string) string {
	full := path.Join(r.Root, file)
	if path.IsAbs(full) {
		return (&url.URL{Scheme: "file", Path: full}).String()
	}
	return (&url.URL{Path: full}).String() // puts "./" before a first part with a colon
}

// WriteAnnotations writes the findings as workflow commands of GitHub Actions,
// which shows them beside the lines of a pull request.
func (f Findings) WriteAnnotations(w io.Writer, report Report) error {
	for _, finding := range f {
		properties := "file=" + escapeProperty(path.Join(report.Root, finding.File)) + fmt.Sprintf(",line=%d", max(finding.Line, 1))
		if finding.Column > 0 {
			properties += fmt.Sprintf(",col=%d", finding.Column)
		}
		properties += ",title=" + escapeProperty(report.Tool+": "+string(finding.Rule))
		if _, err := fmt.Fprintf(w, "::%s %s::%s\n", finding.Severity, properties, escapeData(finding.sentence())); err != nil {
			return fmt.Errorf("write annotations: %w", err)
		}
	}
	return nil
}

// escapeData keeps a message on its line (actions/toolkit command.ts).
func escapeData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

// escapeProperty keeps a value within its property as well.
func escapeProperty(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escapeData(s))
}
