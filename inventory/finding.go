package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity tells an error, which forbids the use of the inventory, from a
// warning.
type Severity int

// The severities.
const (
	Error Severity = iota
	Warning
)

// String is "error" or "warning".
func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// MarshalText gives the severity its name in JSON.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *Severity) UnmarshalText(text []byte) error {
	switch string(text) {
	case "error":
		*s = Error
	case "warning":
		*s = Warning
	default:
		return fmt.Errorf("severity %q is neither error nor warning", text)
	}
	return nil
}

// Finding is something wrong in the inventory, with its place and what to do.
type Finding struct {
	Severity Severity `json:"severity"`
	Rule     Rule     `json:"rule,omitempty"`
	File     string   `json:"file"`             // relative to the root of the inventory
	Line     int      `json:"line,omitempty"`   // from 1; 0 means the whole file
	Column   int      `json:"column,omitempty"` // from 1; 0 means the whole line
	Field    string   `json:"field,omitempty"`  // dotted, "bmc.address"
	Message  string   `json:"message"`
	Hint     string   `json:"hint,omitempty"`
}

// String is "file:line:column: severity: message; hint".
func (f Finding) String() string {
	place := f.File
	if f.Line > 0 {
		place += fmt.Sprintf(":%d", f.Line)
		if f.Column > 0 {
			place += fmt.Sprintf(":%d", f.Column)
		}
	}
	text := fmt.Sprintf("%s: %s: %s", place, f.Severity, f.Message)
	if f.Hint != "" {
		text += "; " + f.Hint
	}
	return text
}

// Findings are sorted by place.
type Findings []Finding

// HasErrors tells whether the inventory must not be used.
func (f Findings) HasErrors() bool { return f.Count(Error) > 0 }

// Count counts the findings of one severity.
func (f Findings) Count(s Severity) int {
	n := 0
	for _, finding := range f {
		if finding.Severity == s {
			n++
		}
	}
	return n
}

// String has a line for each finding.
func (f Findings) String() string {
	lines := make([]string, 0, len(f))
	for _, finding := range f {
		lines = append(lines, finding.String())
	}
	return strings.Join(lines, "\n")
}

// With adds findings that were made elsewhere.
func (f Findings) With(more Findings) Findings { return append(slices.Clone(f), more...).tidy() }

// tidy sorts by place and drops repetitions: a default is merged into many
// nodes, but it is wrong in one place.
func (f Findings) tidy() Findings {
	slices.SortStableFunc(f, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Severity, b.Severity),
			cmp.Compare(a.Field, b.Field),
			cmp.Compare(a.Message, b.Message),
			cmp.Compare(a.Rule, b.Rule),
		)
	})
	return slices.Compact(f)
}
